"""The buttons: what a person presses when something waits for a person.

Promises: each says what it would do before it does it (`dry_run` is true by default); what it shows
of a row or a message is ids and a reason.
Never: holds a rule of its own; each calls its function of the core.
"""

from datetime import datetime
from uuid import UUID

from dagster import (
    Config,
    DefaultScheduleStatus,
    OpExecutionContext,
    ResourceParam,
    RunConfig,
    RunRequest,
    ScheduleEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
    schedule,
)
from pydantic import Field, SecretStr

from pramaan_pipelines.contracts.text import counted
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.letter_boxes import open_letter_box
from pramaan_pipelines.messaging.letters import Which
from pramaan_pipelines.messaging.queues import DeadLetterQueue
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.failing import (
    BoundedConfig,
    FailureReason,
    failure,
    first_line_says,
)
from pramaan_pipelines.orchestration.tables import markdown_table
from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.outbox.redrive import ParkedSelection, redrive_parked
from pramaan_pipelines.outbox.retention import (
    DEFAULT_AGE_DAYS,
    LONGEST_AGE_DAYS,
    prune_dispatched,
)
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database

TAGS = {names.TAG_RAIL: names.RAIL_OPERATIONS, **names.NO_RUN_RETRIES, **names.max_runtime(900)}
AGAIN = "What was done is done and nothing was lost: start the job again, it goes on from there."
LANE_NAMES = ", ".join(lane.name for lane in LANES)


class RedriveConfig(Config):
    """Which parked rows to send again."""

    lane: str = Field(description=f"one of: {LANE_NAMES}")
    since: str | None = Field(default=None, description="parked at this time or later, ISO 8601")
    until: str | None = Field(default=None, description="parked before this time, ISO 8601")
    reason: str | None = Field(default=None, description="a part of the reason's text")
    dry_run: bool = Field(default=True, description="only count and show them")


@op(description="Make parked rows pending again.", tags={"kind": "postgres"})
def redrive_parked_rows(
    context: OpExecutionContext, config: RedriveConfig, database: ResourceParam[Database]
) -> None:
    """Redrive by lane, time and reason."""
    lane = next((lane for lane in LANES if lane.name == config.lane), None)
    if lane is None:
        raise failure(
            context,
            FailureReason.UNKNOWN_LANE,
            f"there is no lane {config.lane!r}",
            f"The lanes are: {LANE_NAMES}",
        )
    try:
        since, until = (_time(value) for value in (config.since, config.until))
    except ValueError as error:
        raise failure(
            context,
            FailureReason.MALFORMED_TIME,
            str(error),
            "Give times as 2026-01-31T00:00:00+00:00",
        ) from None
    selection = ParkedSelection(since, until, config.reason)
    with first_line_says(context, AGAIN):
        result = redrive_parked(database, lane, selection, dry_run=config.dry_run)
    context.add_output_metadata(
        {
            "selected": result.selected,
            "redriven": result.redriven,
            "rows": markdown_table(
                ("event_id", "parked at", "reason"),
                [(row.event_id, row.parked_at, row.reason) for row in result.rows],
            ),
        }
    )
    count, verb = (result.selected, "would be") if config.dry_run else (result.redriven, "made")
    more = names.DO_IT if config.dry_run else ""
    context.log.info(
        "%s: %s %s pending again%s", lane.name, counted(count, "parked row"), verb, more
    )


@job(
    description=(
        "Sends parked rows again, selected by lane, time and reason. Dry by default: the first run "
        "shows what it would do; set dry_run to false to do it."
    ),
    executor_def=in_process_executor,
    tags=TAGS,
)
def redrive_parked_rows_job() -> None:
    """Redrive once."""
    redrive_parked_rows()


class DeadLetterConfig(BoundedConfig):
    """Which dead letters to send again."""

    queue: DeadLetterQueue = Field(
        default=DeadLetterQueue.FRAMER_EVENTS,
        description="which dead-letter queue, as the asset graph calls it",
    )
    which: Which = Field(
        default=Which.PASSING, description="those that nothing would refuse now, or all"
    )
    limit: int = Field(default=1000, ge=1, le=10_000, description="the most letters looked at")
    dry_run: bool = Field(default=True, description="only look")


@op(description="Look at the dead letters, and send again those that were asked for.")
def redrive_dead_letters(
    context: OpExecutionContext,
    config: DeadLetterConfig,
    settings: ResourceParam[Settings],
    database: ResourceParam[Database],
) -> None:
    """Tell those that would pass now from those refused (H13)."""
    with first_line_says(context, AGAIN):
        box = open_letter_box(config.queue, settings, database)
        letters = box.redrive(config.which, dry_run=config.dry_run, limit=config.limit)
    passing = sum(letter.reason is None for letter in letters)
    redriven = sum(letter.redriven for letter in letters)
    rows = [
        (
            letter.message_id,
            letter.event_id or "-",
            letter.reason or "would pass now",
            ", ".join(letter.places) or "-",
            "yes" if letter.redriven else "no",
        )
        for letter in letters[:100]
    ]
    context.add_output_metadata(
        {
            "looked_at": len(letters),
            "would_pass_now": passing,
            "refused": len(letters) - passing,
            "redriven": redriven,
            "letters": markdown_table(("message", "event_id", "now", "where", "sent again"), rows),
        }
    )
    context.log.info(
        "%s: %d looked at, %d would pass now, %d sent again%s",
        config.queue,
        len(letters),
        passing,
        redriven,
        names.DO_IT if config.dry_run else "",
    )
    asked = len(letters) if config.which is Which.ALL else passing
    if not config.dry_run and redriven < asked:
        raise failure(
            context,
            FailureReason.LETTERS_NOT_TAKEN,
            f"not taken again: {counted(asked - redriven, 'dead letter')}, which stay where they "
            "are",
            "Look at the queue they came from and at this service's credentials, then redrive "
            "again",
        )


@job(
    description=(
        "Shows the dead letters of a queue with the reason each would be refused now, and sends "
        "again those that would pass (or all): the framer's by default, those of the document "
        "queues, or the events that the bus's rule could not deliver. Dry by default."
    ),
    executor_def=in_process_executor,
    tags=TAGS,
)
def redrive_dead_letters_job() -> None:
    """Redrive once."""
    redrive_dead_letters()


class RebuildConfig(Config):
    """Whose frame to build anew."""

    firm_id: str = Field(description="the matter's firm")
    matter_id: str = Field(description="the matter")
    dry_run: bool = Field(default=True, description="only say whether there is such a job")


@op(description="Mark one matter's frame as owed, with its tries forgotten.")
def request_rebuild(
    context: OpExecutionContext, config: RebuildConfig, healing: ResourceParam[FrameHealing]
) -> None:
    """Let healing take the matter up again."""
    try:
        firm_id, matter_id = UUID(config.firm_id), UUID(config.matter_id)
    except ValueError:
        raise failure(
            context,
            FailureReason.MALFORMED_ID,
            "firm_id and matter_id are not both UUIDs",
            "Copy them from a run's tags, or from the check given_up of framer/matter_frame_jobs",
        ) from None
    tags = {names.TAG_FIRM: str(firm_id), names.TAG_MATTER: str(matter_id)}
    context.instance.add_run_tags(context.run_id, tags)
    with first_line_says(context, AGAIN):
        found = healing.request_rebuild(firm_id, matter_id, dry_run=config.dry_run)
    if not found:
        raise failure(
            context,
            FailureReason.NO_FRAME_JOB,
            "this firm has no frame job for this matter, or the matter is gone",
            "A frame begins with its matter.created: replay the day of the matter, or look whether "
            "the ids are of one firm",
        )
    verb = "would be" if config.dry_run else "is"
    context.log.info(
        "matter %s: its frame %s owed; frame_healing_sensor builds it, once the firm consents and "
        "a place is free%s",
        matter_id,
        verb,
        names.DO_IT if config.dry_run else "",
    )


@job(
    description=(
        "Builds one matter's frame anew, also one that healing has given up: marks it as owed, and "
        "frame_healing_sensor does the rest. Dry by default."
    ),
    executor_def=in_process_executor,
    tags=TAGS,
)
def rebuild_frame_job() -> None:
    """Ask once."""
    request_rebuild()


class PruneConfig(BoundedConfig):
    """What to prune."""

    older_than_days: int = Field(
        default=DEFAULT_AGE_DAYS,
        ge=1,
        le=LONGEST_AGE_DAYS,
        description="dispatched longer ago than these days",
    )
    dry_run: bool = Field(default=True, description="only count")


@op(description="Delete rows that were dispatched long ago; never a pending or parked one.")
def prune_outboxes(
    context: OpExecutionContext, config: PruneConfig, settings: ResourceParam[Settings]
) -> None:
    """Prune under the maintenance role."""
    with first_line_says(context, AGAIN):
        url = SecretStr(settings.require("maintenance_database_url"))
        result = prune_dispatched(
            url, older_than_days=config.older_than_days, dry_run=config.dry_run
        )
    context.add_output_metadata({**result.rows, "finished": result.finished})
    verb = "would be pruned" if config.dry_run else "pruned"
    context.log.info("%s: %s%s", verb, result.rows, names.DO_IT if config.dry_run else "")


@job(
    description=(
        "Deletes the outbox rows that were dispatched more than `older_than_days` ago, in small "
        "batches, as pramaan_maintenance. Dry by default; its schedule is not."
    ),
    executor_def=in_process_executor,
    tags=TAGS,
)
def prune_outboxes_job() -> None:
    """Prune once."""
    prune_outboxes()


@schedule(
    job=prune_outboxes_job,
    cron_schedule="17 3 * * *",
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="Every night: prune what was dispatched more than 30 days ago.",
)
def prune_outboxes_schedule(
    context: ScheduleEvaluationContext,  # noqa: ARG001
    settings: ResourceParam[Settings],
) -> RunRequest | SkipReason:
    """Ask for it in earnest."""
    if settings.maintenance_database_url is None:
        return SkipReason("MAINTENANCE_DATABASE_URL is not set: nothing is pruned")
    config = RunConfig(ops={"prune_outboxes": PruneConfig(dry_run=False)})
    return RunRequest(run_config=config)


OPERATIONS = [
    redrive_parked_rows_job,
    redrive_dead_letters_job,
    rebuild_frame_job,
    prune_outboxes_job,
]


def _time(value: str | None) -> datetime | None:
    if value is None:
        return None
    time = datetime.fromisoformat(value)
    if time.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return time
