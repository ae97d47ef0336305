"""The stale sweep as a job, every minute, where a lease is over.

Promises: launches no run while nothing is stale; says so where the table is absent.
Never: decides what is stale; the core does, on the database's clock.
"""

from dagster import (
    AssetObservation,
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

from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines.orchestration.names import (
    NO_RUN_RETRIES,
    RAIL_SWEEP,
    TAG_RAIL,
    max_runtime,
)
from pramaan_pipelines.orchestration.road import FRAME_JOBS
from pramaan_pipelines.telemetry.metrics import CountMetric
from pramaan_pipelines.telemetry.provider import Telemetry


@op(
    description="Fail the running frame jobs whose lease is over, each with its own agent run.",
    tags={"kind": "postgres"},
)
def sweep_stale_frame_jobs(
    context: OpExecutionContext,
    sweep: ResourceParam[StaleFrameJobSweep],
    telemetry: ResourceParam[Telemetry],
) -> None:
    """Run one sweep."""
    result = sweep.sweep()
    if not result.table_present:
        context.log.warning("ops.matter_frame_jobs is absent: nothing to sweep; run the migrations")
        return
    telemetry.count(CountMetric.FRAME_JOBS_SWEPT, result.failed)
    metadata = {"stale_seen": result.seen, "failed": result.failed}
    context.add_output_metadata(metadata)
    if result.failed:
        context.log_event(AssetObservation(FRAME_JOBS, metadata=metadata))
    context.log.info("sweep: %d of %d stale frame jobs failed", result.failed, result.seen)


@job(
    description=(
        "Marks the frame jobs of dead workers as failed. Safe to start at any time: a job that "
        "finished or was claimed anew is left alone."
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
