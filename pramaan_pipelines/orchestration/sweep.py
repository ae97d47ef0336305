"""The stale sweep as a job, every minute, where a lease is over.

Promises: launches no run while nothing is stale; says so where the table is absent.
Never: decides what is stale; the core does, on the database's clock.
"""

from typing import Final

from dagster import (
    AssetObservation,
    Config,
    DefaultScheduleStatus,
    OpExecutionContext,
    ResourceParam,
    RunRequest,
    ScheduleEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
    schedule,
)
from pydantic import Field

from pramaan_pipelines.contracts.text import counted
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines.orchestration.failing import first_line_says
from pramaan_pipelines.orchestration.names import (
    NO_RUN_RETRIES,
    RAIL_SWEEP,
    TAG_RAIL,
    max_runtime,
)
from pramaan_pipelines.orchestration.road import FRAME_JOBS
from pramaan_pipelines.orchestration.tables import markdown_table
from pramaan_pipelines.telemetry.metrics import CountMetric
from pramaan_pipelines.telemetry.provider import Telemetry

ABSENT: Final = "ops.matter_frame_jobs is absent: nothing to sweep; run the migrations"
MAX_SHOWN: Final = 100


class SweepConfig(Config):
    """How to sweep."""

    dry_run: bool = Field(
        default=False,
        description="only show what is stale; a sweep does no more than the next minute's would",
    )


@op(
    description="Fail the running frame jobs whose lease is over, each with its own agent run.",
    tags={"kind": "postgres"},
)
def sweep_stale_frame_jobs(
    context: OpExecutionContext,
    config: SweepConfig,
    sweep: ResourceParam[StaleFrameJobSweep],
    telemetry: ResourceParam[Telemetry],
) -> None:
    """Run one sweep."""
    with first_line_says(context, "What was swept stays so; the next minute sweeps the rest."):
        if config.dry_run:
            _show(context, sweep)
            return
        result = sweep.sweep()
    if not result.table_present:
        context.log.warning(ABSENT)
        return
    telemetry.count(CountMetric.FRAME_JOBS_SWEPT, result.failed)
    metadata = {"stale_seen": result.seen, "failed": result.failed}
    context.add_output_metadata(metadata)
    if result.failed:
        context.log_event(AssetObservation(FRAME_JOBS, metadata=metadata))
    context.log.info("sweep: %d of %d stale frame jobs failed", result.failed, result.seen)


def _show(context: OpExecutionContext, sweep: StaleFrameJobSweep) -> None:
    stale = sweep.stale(MAX_SHOWN)
    if stale is None:
        context.log.warning(ABSENT)
        return
    context.add_output_metadata(
        {
            "stale_seen": len(stale),
            "failed": 0,
            "rows": markdown_table(
                ("firm", "matter", "generation"),
                [(job.firm_id, job.matter_id, job.generation) for job in stale],
            ),
        }
    )
    context.log.info("dry run: %s would be failed", counted(len(stale), "stale frame job"))


@job(
    description=(
        "Marks the frame jobs of dead workers as failed. Safe to start at any time: a job that "
        "finished or was claimed anew is left alone. With dry_run it only shows what is stale."
    ),
    executor_def=in_process_executor,
    tags={TAG_RAIL: RAIL_SWEEP, **NO_RUN_RETRIES, **max_runtime(300)},
)
def stale_frame_job_sweep_job() -> None:
    """Sweep once."""
    sweep_stale_frame_jobs()


@schedule(
    job=stale_frame_job_sweep_job,
    cron_schedule="* * * * *",
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="Every minute: sweep, if the lease of a running frame job is over.",
)
def stale_frame_job_sweep_schedule(
    context: ScheduleEvaluationContext,  # noqa: ARG001
    sweep: ResourceParam[StaleFrameJobSweep],
) -> RunRequest | SkipReason:
    """Look before launching."""
    stale = sweep.stale(limit=1)
    if stale is None:
        return SkipReason("ops.matter_frame_jobs is absent: run the migrations")
    return RunRequest() if stale else SkipReason("nothing stale")
