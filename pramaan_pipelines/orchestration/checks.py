"""The checks on the road, as Dagster shows them: by a button, and by themselves at each tick.

Promises: the button and the tick come to the same verdict; what could not be evaluated is red and
says why; a check names rows by their ids, and what to press.
Never: holds a threshold or a rule; the core judges.
"""

from collections.abc import Iterator
from typing import Any, Final

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckKey,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetSelection,
    ResourceParam,
    define_asset_job,
    in_process_executor,
    multi_asset_check,
)

from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.road import KEYS
from pramaan_pipelines.orchestration.tables import markdown_table
from pramaan_pipelines.settings import ViewSettings
from pramaan_pipelines.watch.checks import CHECKS, Check, State, Verdict, judge
from pramaan_pipelines.watch.look import DatabaseView, QueuesView, Watch


def check_key(check: Check) -> AssetCheckKey:
    """Return Dagster's key of `check`."""
    return AssetCheckKey(KEYS[check.subject], check.name)


SPECS: Final = [
    AssetCheckSpec(
        check.name,
        asset=KEYS[check.subject],
        description=f"{check.asks} If it is not green: {check.mend}",
    )
    for check in CHECKS
]


def verdicts(
    view: DatabaseView, queues: QueuesView, watch: Watch, limits: ViewSettings
) -> list[Verdict]:
    """Return the verdict of every check on what was seen."""
    return list(
        judge(
            view,
            queues,
            limits,
            name_pending=watch.oldest_pending,
            name_parked=watch.first_parked,
        )
    )


def evaluation(verdict: Verdict) -> AssetCheckEvaluation:
    """Return `verdict` as an event that belongs to no run."""
    return AssetCheckEvaluation(
        asset_key=KEYS[verdict.check.subject], check_name=verdict.check.name, **_told(verdict)
    )


@multi_asset_check(
    name="look_at_the_road",
    specs=SPECS,
    can_subset=True,
    description="Look once, and tell how each selected check stands.",
)
def road_checks(
    context: AssetCheckExecutionContext,
    watch: ResourceParam[Watch],
    view_settings: ResourceParam[ViewSettings],
) -> Iterator[AssetCheckResult]:
    """Evaluate what was selected."""
    selected = context.selected_asset_check_keys
    for verdict in verdicts(watch.database(), watch.queues(), watch, view_settings):
        if check_key(verdict.check) in selected:
            yield AssetCheckResult(
                asset_key=KEYS[verdict.check.subject],
                check_name=verdict.check.name,
                **_told(verdict),
            )


check_road_job = define_asset_job(
    "check_road_job",
    selection=AssetSelection.checks(road_checks),
    description=(
        "Evaluates every check now. They refresh by themselves too, by `road_watch_sensor`; this "
        "is for whoever has just mended something. Reads only."
    ),
    executor_def=in_process_executor,
    tags={
        names.TAG_RAIL: names.RAIL_OPERATIONS,
        **names.NO_RUN_RETRIES,
        **names.max_runtime(300),
    },
)


def _told(verdict: Verdict) -> dict[str, Any]:
    metadata: dict[str, Any] = {"state": str(verdict.state), **verdict.numbers}
    if verdict.rows.cells:
        metadata["rows"] = markdown_table(verdict.rows.head, verdict.rows.cells)
    if verdict.state is not State.PASSED:
        metadata["what_to_do"] = verdict.check.mend
    warn = verdict.state is State.WARN
    return {
        "passed": verdict.state is State.PASSED,
        "severity": AssetCheckSeverity.WARN if warn else AssetCheckSeverity.ERROR,
        "description": verdict.told,
        "metadata": metadata,
    }
