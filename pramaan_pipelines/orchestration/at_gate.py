"""How a gate that does not end well ends: the run is red, and says which gate, why, and what to do.

Promises: a refusal names its reason and places, a fault its kind; both stand on the run's tags, on
its span and its duration, and in the process log, once.
Never: shows a value of the envelope.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from dagster import Failure, MetadataValue, OpExecutionContext

from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, Outcome
from pramaan_pipelines.framer.agent import AgentRefusedError
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.consume_span import FAILED, Consumption
from pramaan_pipelines.orchestration.failing import red
from pramaan_pipelines.store.database import told_of
from pramaan_pipelines.telemetry.logs import log_outcome


@contextmanager
def at_gate(context: OpExecutionContext, gate: str, consumption: Consumption) -> Iterator[None]:
    """Turn what a gate raises into a failed run that says which gate, why, and what to do."""
    try:
        yield
    except EnvelopeRefusedError as refused:
        tags = {
            names.TAG_OUTCOME: str(Outcome.REFUSED),
            names.TAG_REASON: str(refused.reason),
            names.TAG_GATE: gate,
        }
        context.instance.add_run_tags(context.run_id, tags)
        consumption.refused(refused.reason)
        log_end(context, consumption, gate, Outcome.REFUSED, reason=refused.reason)
        raise red(
            gate,
            str(refused.reason),
            str(refused),
            ended="refused",
            metadata={
                "outcome": str(Outcome.REFUSED),
                "places": MetadataValue.json(list(refused.places)),
            },
            allow_retries=False,
        ) from None
    except Failure:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was, the run must say where and what
        _fail(context, gate, consumption, error)


def _fail(
    context: OpExecutionContext, gate: str, consumption: Consumption, error: Exception
) -> NoReturn:
    kind, policy = type(error).__name__, context.op_def.retry_policy
    # The last try asks for none: Dagster's "Exceeded max_retries" would be the run's first line.
    again = (
        policy is not None
        and not isinstance(error, AgentRefusedError)
        and context.retry_number < policy.max_retries
    )
    if again:
        # A later try may end well; then nothing of this one may stand on the run or its span.
        then = "It is tried again with the same claim"
    else:
        tags = {names.TAG_REASON: kind, names.TAG_GATE: gate}
        context.instance.add_run_tags(context.run_id, tags)
        consumption.failed(kind)
        log_end(context, consumption, gate, FAILED, reason=kind)
        then = (
            "A message is handed back and comes again after a pause, until its third delivery puts "
            "it on the dead-letter queue; a frame that is owed is taken up again by the healing "
            "sensor"
        )
    raise red(gate, kind, f"{kind}: {told_of(error)}", then, allow_retries=again) from None


def tag_trace(context: OpExecutionContext, consumption: Consumption) -> None:
    """Let the run be found by its trace, where no envelope named one."""
    trace_id = consumption.trace_id
    if trace_id is not None and names.TAG_TRACE not in context.run.tags:
        context.instance.add_run_tags(context.run_id, {names.TAG_TRACE: trace_id})


def log_end(
    context: OpExecutionContext,
    consumption: Consumption,
    gate: str,
    outcome: str,
    *,
    reason: str | None = None,
) -> None:
    """Write the process log's one line of this run's end."""
    log_outcome(
        outcome,
        event_id=consumption.event_id,
        trace_id=consumption.trace_id,
        gate=gate,
        reason=reason,
        run_id=context.run_id,
        level=logging.INFO if reason is None else logging.WARNING,
    )
