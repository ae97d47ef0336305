"""A partitioned job for each lane: its days, by created_at in UTC, to be sent again.

Promises: a backfill of a day sends what of it was not sent; with the switch, and only then, what
was too. A run that did not finish its day is red and says what to press: the same day again, which
goes on where this one stopped. A dry run changes nothing.
Never: takes a place of the live relays (a limit of its own in dagster.yaml), or holds a rule.
"""

from datetime import date
from typing import Any, Final

from dagster import (
    DailyPartitionsDefinition,
    JobDefinition,
    OpExecutionContext,
    ResourceParam,
    in_process_executor,
    job,
    op,
)
from pydantic import Field

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.orchestration.failing import (
    BoundedConfig,
    FailureReason,
    failure,
    first_line_says,
)
from pramaan_pipelines.orchestration.names import (
    NO_RUN_RETRIES,
    RAIL_REPLAY,
    TAG_ALSO_SENT,
    TAG_DRY_RUN,
    TAG_RAIL,
    TAG_REPLAY,
    TAG_RESTART,
    max_runtime,
)
from pramaan_pipelines.orchestration.relays import reachable
from pramaan_pipelines.orchestration.tables import markdown_table
from pramaan_pipelines.outbox.lanes import LANES, Lane
from pramaan_pipelines.outbox.replay import (
    DEFAULT_BUDGET_SECONDS,
    ReplayRun,
    Unfinished,
    look,
    run_replay,
)
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry

FIRST_DAY: Final = "2026-01-01"
"""Before the first outbox row there can be. The UI draws every day since, cheaply for years; an
older day is replayed by `pramaan replay`."""

DAYS: Final = DailyPartitionsDefinition(FIRST_DAY, timezone="UTC", end_offset=1)
"""`end_offset` makes today a partition: a replay of it takes what it finds."""

MAX_RUNTIME_SECONDS: Final = 3600
LONGEST_BUDGET_SECONDS: Final = 3400
"""Leaves the last drain its own bound."""


class ReplayConfig(BoundedConfig):
    """What to send, and the bounds of one run.

    A backfill from the UI's job page or from Dagster's command line carries tags and no config, so
    each switch is a tag as well.
    """

    also_sent: bool = Field(
        default=False,
        description="send again what was sent before, with the same event_id (tag "
        f"{TAG_ALSO_SENT}: true)",
    )
    dry_run: bool = Field(default=False, description=f"only count (tag {TAG_DRY_RUN}: true)")
    restart: bool = Field(
        default=False,
        description=f"begin anew where a replay is unfinished (tag {TAG_RESTART}: true)",
    )
    batch_rows: int = Field(default=500, ge=1, le=1000, description="most rows of one drain")
    budget_seconds: float = Field(
        default=DEFAULT_BUDGET_SECONDS,
        gt=0,
        le=LONGEST_BUDGET_SECONDS,
        description="no drain starts after these; the day's next run goes on from there",
    )


def replay_job(lane: Lane) -> JobDefinition:
    """Return the job that replays the days of `lane`."""

    @op(
        name=f"replay_{lane.name.removesuffix('_relay')}",
        description=f"Send a day's unsent `{lane.event_type}` rows; with the switch, all of them.",
        tags={"kind": "postgres"},
    )
    def replay(
        context: OpExecutionContext,
        config: ReplayConfig,
        settings: ResourceParam[Settings],
        database: ResourceParam[Database],
        telemetry: ResourceParam[Telemetry],
    ) -> None:
        day = date.fromisoformat(context.partition_key)
        also_sent = config.also_sent or _asked(context, TAG_ALSO_SENT)
        restart = config.restart or _asked(context, TAG_RESTART)
        if config.dry_run or _asked(context, TAG_DRY_RUN):
            with first_line_says(context, "Nothing was changed: look again."):
                _tell_look(context, lane, day, database, also_sent=also_sent)
            return
        publisher = reachable(context, lane, settings, f"Nothing was sent. {_PRESS}")
        with first_line_says(context, f"The batch under way was rolled back. {_PRESS}"):
            run = run_replay(
                lane,
                day,
                database=database,
                publisher=publisher,
                telemetry=telemetry,
                limits=DrainLimits(rows=config.batch_rows),
                also_sent=also_sent,
                restart=restart,
                budget_seconds=config.budget_seconds,
            )
        _tell(context, lane, day, publisher.destination, run, also_sent=also_sent)

    name = f"{lane.name.removesuffix('_relay')}_replay_job"

    @job(
        name=name,
        description=(
            f"Replays a day of `{lane.event_type}` (by created_at, UTC): sends what of it was not "
            "sent. To send what was sent as well, with the same event_id, launch it with the tag "
            f"`{TAG_ALSO_SENT}: true`; `{TAG_DRY_RUN}: true` only counts. Backfill many days from "
            "the Partitions tab. Pressed again, an unfinished day goes on where it stopped."
        ),
        partitions_def=DAYS,
        executor_def=in_process_executor,
        tags={
            TAG_RAIL: RAIL_REPLAY,
            TAG_REPLAY: lane.name,
            # The live relay's runs go first.
            "dagster/priority": "-1",
            **NO_RUN_RETRIES,
            **max_runtime(MAX_RUNTIME_SECONDS),
        },
    )
    def replay_of_days() -> None:
        replay()

    return replay_of_days


_PRESS: Final = (
    "Launch this day again (the same partition, the same tags): it goes on where this run stopped."
)


def _asked(context: OpExecutionContext, tag: str) -> bool:
    """Tell whether a switch is on.

    Raises:
        Failure: it says neither true nor false: a guess could send what nobody asked for.
    """
    value = context.run.tags.get(tag, "false").strip().lower()
    if value not in {"true", "false"}:
        raise failure(
            context,
            FailureReason.MALFORMED_SWITCH,
            f"the tag {tag} is {value!r}",
            "Nothing was sent: set it to true or false",
        )
    return value == "true"


def _tell_look(
    context: OpExecutionContext, lane: Lane, day: date, database: Database, *, also_sent: bool
) -> None:
    counts, unfinished = look(database, lane, day, also_sent=also_sent)
    metadata: dict[str, Any] = {
        "dry_run": True,
        "would_send": counts.pending,
        "parked_of_day": counts.parked,
        **({"would_send_again_at_most": counts.sent or 0} if also_sent else {}),
        **_told_unfinished(unfinished),
    }
    context.add_output_metadata(metadata)
    context.log.info(
        "%s %s: dry run, nothing was sent. %d rows would be sent, %s sent again; %d are parked",
        lane.name,
        day,
        counts.pending,
        f"at most {counts.sent}" if also_sent else "none",
        counts.parked,
    )


def _tell(  # noqa: PLR0913
    context: OpExecutionContext,
    lane: Lane,
    day: date,
    destination: str,
    run: ReplayRun,
    *,
    also_sent: bool,
) -> None:
    """Put what the run came to where an operator looks; fail it where the day is not finished."""
    relay = run.relay
    metadata: dict[str, Any] = {
        "also_sent": also_sent,
        "selected": relay.selected,
        "sent": relay.sent - relay.again,
        "sent_again": relay.again,
        "failed": relay.failed,
        "given_up": run.given_up,
        "parked": relay.parked,
        "bytes": relay.bytes,
        "drains": relay.drains,
        "seconds": round(relay.seconds, 3),
        "stopped_reason": str(relay.stopped_reason),
        "finished": run.finished,
        "still_pending_of_day": run.left.pending,
        "parked_of_day": run.left.parked,
        **_told_unfinished(run.resumed),
    }
    if relay.failures:
        metadata["failures"] = markdown_table(
            ("event_id", "status", "then", "detail"),
            [
                (f.event_id, f.status, "parked" if f.parked else "see still_pending", f.detail)
                for f in relay.failures
            ],
        )
    context.add_output_metadata(metadata)
    context.log.info(
        "%s %s: sent %d, sent again %d, failed %d, parked %d, stopped: %s. Left of the day: "
        "%d pending, %d parked (redrive_parked_rows_job)%s",
        lane.name,
        day,
        relay.sent - relay.again,
        relay.again,
        relay.failed,
        relay.parked,
        relay.stopped_reason,
        run.left.pending,
        run.left.parked,
        "" if also_sent else f". What was sent before stays so without the tag {TAG_ALSO_SENT}",
    )
    if run.finished:
        return
    if run.replaced:
        raise failure(
            context,
            FailureReason.REPLAY_REPLACED,
            f"{day}: somebody began this replay anew while this run was at it",
            "The newer run sends the day. Nothing is to be done here",
            metadata=metadata,
        )
    if relay.outage is not None:
        raise failure(
            context,
            DestinationError.__name__,
            f"{day}: {destination} is out, or was for some calls ({relay.outage})",
            f"Look at the destination and at this service's credentials. {_PRESS}",
            metadata=metadata,
        )
    raise failure(
        context,
        FailureReason.TIME_SPENT,
        f"{day}: the time of this run is spent and the day is not finished",
        _PRESS,
        metadata=metadata,
    )


def _told_unfinished(unfinished: Unfinished | None) -> dict[str, Any]:
    if unfinished is None:
        return {}
    return {"goes_on_from": str(unfinished)}


REPLAY_JOBS: Final = [replay_job(lane) for lane in LANES]
