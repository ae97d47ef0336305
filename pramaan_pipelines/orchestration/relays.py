"""One job and one schedule for each lane of the registry.

Promises: a schedule whose lane has nothing due launches no run; a relay run drains until the lane
is empty, its destination is out, or its budget ends; a run that met an outage is red and says why.
Never: reads anything from the tick: what is pending is all that counts, so that a tick that never
came loses nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

from dagster import (
    AssetMaterialization,
    DefaultScheduleStatus,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    Output,
    ResourceParam,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
    schedule,
)
from pydantic import Field

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.publisher import Publisher
from pramaan_pipelines.orchestration.failing import BoundedConfig, failure, first_line_says
from pramaan_pipelines.orchestration.names import (
    NO_RUN_RETRIES,
    TAG_LANE,
    TAG_OUTCOME,
    TAG_REASON,
    max_runtime,
)
from pramaan_pipelines.orchestration.road import destination_key
from pramaan_pipelines.orchestration.tables import markdown_table
from pramaan_pipelines.outbox.backlog import any_due, backlog, told_of_kinds, unclaimed_events
from pramaan_pipelines.outbox.lanes import LANES, Lane
from pramaan_pipelines.outbox.relay import (
    DEFAULT_BUDGET_SECONDS,
    DRAINS_AT_ONCE,
    RelayRun,
    StoppedReason,
    run_relay,
)
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry

MAX_RUNTIME_SECONDS: Final = 300
"""Run monitoring ends a relay run then; what it was sending would be sent twice."""

LONGEST_BUDGET_SECONDS: Final = 240
"""Leaves the last drain its own bound."""

NOTHING_SENT: Final = "Nothing was sent: the rows stay as they are, and the next run tries again."
ROLLED_BACK: Final = (
    "The batch under way was rolled back and its rows are pending; the next run sends them, some "
    "perhaps for the second time, with the same event_id."
)
COUNT_FAILED: Final = "What was sent is marked; only the count of what is left failed."


class RelayConfig(BoundedConfig):
    """The bounds of one relay run."""

    batch_rows: int = Field(default=500, ge=1, le=1000, description="most rows of one drain")
    budget_seconds: float = Field(
        default=DEFAULT_BUDGET_SECONDS,
        gt=0,
        le=LONGEST_BUDGET_SECONDS,
        description="no drain starts after these",
    )


def reachable(context: OpExecutionContext, lane: Lane, settings: Settings, then: str) -> Publisher:
    """Return the publisher of `lane`, having seen that its destination is there.

    Raises:
        Failure: it is not, or is not set.
    """
    with first_line_says(context, then, outcome="failed"):
        publisher = lane.publisher(settings)
        try:
            # A bus that is not there answers success: without this look, rows would be lost.
            publisher.verify()
        except DestinationError as error:
            kind, out = type(error).__name__, str(StoppedReason.OUTAGE)
            raise failure(context, kind, str(error), then, outcome=out) from None
    return publisher


def relay_job(lane: Lane) -> JobDefinition:
    """Return the job that drains `lane`."""

    @op(
        name=f"drain_{lane.name}",
        description=f"Send every pending `{lane.event_type}` row of `{lane.outbox.table}`.",
        tags={"kind": "postgres"},
    )
    def drain(
        context: OpExecutionContext,
        config: RelayConfig,
        settings: ResourceParam[Settings],
        database: ResourceParam[Database],
        telemetry: ResourceParam[Telemetry],
    ) -> Iterator[AssetMaterialization | Output[None]]:
        publisher = reachable(context, lane, settings, NOTHING_SENT)
        with first_line_says(context, ROLLED_BACK, outcome="failed"):
            run = run_relay(
                lane,
                database=database,
                publisher=publisher,
                telemetry=telemetry,
                limits=DrainLimits(rows=config.batch_rows),
                budget_seconds=config.budget_seconds,
                at_once=DRAINS_AT_ONCE,
            )
        with first_line_says(context, COUNT_FAILED, outcome="failed"):
            yield from _tell(context, lane, publisher.destination, run, database)
        yield Output(None)

    @job(
        name=f"{lane.name}_job",
        description=(
            f"Drains `{lane.event_type}` from `{lane.outbox.table}` until nothing is pending. "
            "Safe to start at any time, also twice at once: each row is locked while it is sent."
        ),
        executor_def=in_process_executor,
        tags={TAG_LANE: lane.name, **NO_RUN_RETRIES, **max_runtime(MAX_RUNTIME_SECONDS)},
    )
    def relay() -> None:
        drain()

    return relay


def _tell(
    context: OpExecutionContext, lane: Lane, destination: str, run: RelayRun, database: Database
) -> Iterator[AssetMaterialization]:
    """Put what the run came to where an operator looks; fail it where the destination was out."""
    with database.staff() as connection:
        left = backlog(connection, lane)
        unclaimed = unclaimed_events(connection)
    metadata: dict[str, Any] = {
        "selected": run.selected,
        "sent": run.sent,
        "failed": run.failed,
        "parked": run.parked,
        "bytes": run.bytes,
        "drains": run.drains,
        "seconds": round(run.seconds, 3),
        "stopped_reason": str(run.stopped_reason),
        "still_pending": left.pending.number,
        "oldest_pending_seconds": round(left.oldest_seconds, 1),
        "parked_in_lane": left.parked.number,
    }
    if run.failures:
        metadata["failures"] = markdown_table(
            ("event_id", "status", "then", "detail"),
            [
                (f.event_id, f.status, "parked" if f.parked else "to be retried", f.detail)
                for f in run.failures
            ],
        )
    if unclaimed:
        metadata["pending_without_a_lane"] = MetadataValue.json(
            {kind: count.number for kind, count in unclaimed.items()}
        )
        context.log.warning(
            "pending rows that no lane drains: %s; add a lane for them", told_of_kinds(unclaimed)
        )
    context.add_output_metadata(metadata)
    _tag(context, run.stopped_reason, run.outage and DestinationError.__name__)
    if run.sent:
        # Yielded, not logged by the context: Dagster drops what is logged by an op that fails.
        yield AssetMaterialization(destination_key(lane), metadata=metadata)
    context.log.info(
        "%s: sent %d of %d to %s, failed %d, parked %d, stopped: %s",
        lane.name,
        run.sent,
        run.selected,
        destination,
        run.failed,
        run.parked,
        run.stopped_reason,
    )
    if run.stopped_reason is StoppedReason.OUTAGE:
        raise failure(
            context,
            DestinationError.__name__,
            f"{destination} is out, or was for some calls ({run.outage})",
            "What was not sent stays pending and the next run tries again; look at the destination "
            "and at this service's credentials",
            metadata=metadata,
        )


def _tag(context: OpExecutionContext, outcome: str, reason: str | None) -> None:
    """Let the run be found by how it ended, as a framer run is."""
    tags = {TAG_OUTCOME: str(outcome)} | ({} if reason is None else {TAG_REASON: reason})
    context.instance.add_run_tags(context.run_id, tags)


def relay_schedule(lane: Lane, target: JobDefinition) -> ScheduleDefinition:
    """Return the schedule that looks every minute whether `lane` has something due."""

    @schedule(
        name=f"{lane.name}_schedule",
        job=target,
        cron_schedule="* * * * *",
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.RUNNING,
        description=f"Every minute: drain `{lane.event_type}`, if a row is due.",
    )
    def tick(
        context: ScheduleEvaluationContext,  # noqa: ARG001
        database: ResourceParam[Database],
    ) -> RunRequest | SkipReason:
        with database.staff() as connection:
            if any_due(connection, lane):
                return RunRequest()
            unclaimed = unclaimed_events(connection)
        if unclaimed:
            return SkipReason(
                f"nothing pending in this lane, BUT rows are pending that no lane drains: "
                f"{told_of_kinds(unclaimed)}; add a lane for them"
            )
        return SkipReason("nothing pending")

    return tick


RELAY_JOBS = {lane.name: relay_job(lane) for lane in LANES}
RELAY_SCHEDULES = [relay_schedule(lane, RELAY_JOBS[lane.name]) for lane in LANES]
