"""What a red run says first: where, why, and what to do; and its reason among its tags."""

import re

from dagster import DagsterEventType, DagsterInstance, ExecuteInProcessResult, JobExecutionResult

from pramaan_pipelines.orchestration import names

SHAPE = re.compile(r"(failed|refused) at (?P<op>\w+): \S.+\. [A-Z].+\.")


def first_line(
    instance: DagsterInstance, result: ExecuteInProcessResult | JobExecutionResult
) -> str:
    """Return what the one red op of `result` says, having looked that it says enough."""
    (event,) = [e for e in result.all_events if e.event_type is DagsterEventType.STEP_FAILURE]
    error, told = event.step_failure_data.error, event.step_failure_data.user_failure_data
    assert error is not None
    said = str(told.description) if told else (error.cause or error).message.strip()
    # What Dagster shows of an error that passed through its own hands.
    said = said.removeprefix("dagster._core.definitions.events.Failure: ")
    shaped = SHAPE.fullmatch(said)
    assert shaped, said
    assert shaped["op"] == event.step_key
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert names.TAG_REASON in run.tags
    return said
