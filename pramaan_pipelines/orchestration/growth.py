"""The retention of Dagster's own runs and events, as a job that runs by itself.

Promises: comes up running; launches no run while nothing is old enough; the button is dry by
default.
Never: decides what is old: the settings do (PRAMAAN_KEEP_...).
"""

from dataclasses import asdict
from typing import Final

from dagster import (
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
from pydantic import Field

from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.failing import BoundedConfig, first_line_says
from pramaan_pipelines.orchestration.keep import DEFAULT_BUDGET_SECONDS, Keep
from pramaan_pipelines.settings import ViewSettings

LONGEST_DAYS: Final = 3_650
"""As of the settings. A time before the calendar's first has no date."""


class PurgeConfig(BoundedConfig):
    """What to purge of Dagster's own storage."""

    successful_days: int | None = Field(
        default=None,
        ge=1,
        le=LONGEST_DAYS,
        description="keep runs that succeeded so long; PRAMAAN_KEEP_SUCCESSFUL_RUNS_DAYS if absent",
    )
    failed_days: int | None = Field(
        default=None,
        ge=1,
        le=LONGEST_DAYS,
        description=(
            "keep runs that failed or were canceled so long; PRAMAAN_KEEP_FAILED_RUNS_DAYS if "
            "absent"
        ),
    )
    observations_days: int | None = Field(
        default=None,
        ge=1,
        le=LONGEST_DAYS,
        description=(
            "keep observations and check evaluations that belong to no run so long; "
            "PRAMAAN_KEEP_OBSERVATIONS_DAYS if absent"
        ),
    )
    budget_seconds: float = Field(
        default=DEFAULT_BUDGET_SECONDS, gt=0, le=600, description="no batch starts after these"
    )
    dry_run: bool = Field(default=True, description="only count")


def keep_of(settings: ViewSettings, config: PurgeConfig | None = None) -> Keep:
    """Return for how long to keep what: as the config says, or else the settings."""
    given = config or PurgeConfig()
    return Keep(
        given.successful_days or settings.pramaan_keep_successful_runs_days,
        given.failed_days or settings.pramaan_keep_failed_runs_days,
        given.observations_days or settings.pramaan_keep_observations_days,
    )


@op(description="Delete old runs with their events, and old events that belong to no run.")
def purge_dagster_storage(
    context: OpExecutionContext, config: PurgeConfig, view_settings: ResourceParam[ViewSettings]
) -> None:
    """Purge once, within the budget."""
    from pramaan_pipelines.orchestration.purge import purge  # noqa: PLC0415 - brings Alembic along

    keep = keep_of(view_settings, config)
    with first_line_says(context, "What was deleted is gone; the next hour's run goes on."):
        purged = purge(
            context.instance, keep, dry_run=config.dry_run, budget_seconds=config.budget_seconds
        )
    context.add_output_metadata(asdict(purged))
    context.log.info(
        "%s: %d runs that succeeded, %d that failed, %d observations, %d evaluations%s%s",
        "would be deleted" if config.dry_run else "deleted",
        purged.successful,
        purged.failed,
        purged.observations,
        purged.evaluations,
        "" if purged.finished else "; the time ran out, the next run goes on",
        names.DO_IT if config.dry_run else "",
    )


@job(
    description=(
        "Deletes from Dagster's own storage the finished runs that nobody asks for any more, with "
        "their events, and old observations and check evaluations. Never a run that is under way. "
        "Dry by default; its schedule is not."
    ),
    executor_def=in_process_executor,
    tags={
        names.TAG_RAIL: names.RAIL_OPERATIONS,
        **names.NO_RUN_RETRIES,
        **names.max_runtime(900),
    },
)
def purge_dagster_storage_job() -> None:
    """Purge once."""
    purge_dagster_storage()


@schedule(
    job=purge_dagster_storage_job,
    cron_schedule="47 * * * *",
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="Every hour: delete what is older than the settings keep, if there is anything.",
)
def purge_dagster_storage_schedule(
    context: ScheduleEvaluationContext, view_settings: ResourceParam[ViewSettings]
) -> RunRequest | SkipReason:
    """Look before launching."""
    from pramaan_pipelines.orchestration.purge import is_anything_due  # noqa: PLC0415 - as above

    if not is_anything_due(context.instance, keep_of(view_settings)):
        return SkipReason("nothing is old enough")
    return RunRequest(
        run_config=RunConfig(ops={"purge_dagster_storage": PurgeConfig(dry_run=False)})
    )
