"""A run of a job as Dagster's own submission makes it, before anybody launches it."""

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.workspace.context import BaseWorkspaceRequestContext


def made_run(
    instance: DagsterInstance,
    workspace: BaseWorkspaceRequestContext,
    job: str,
    status: DagsterRunStatus | None = None,
) -> DagsterRun:
    """Make a run of `job`, of the only repository of the only location of `workspace`."""
    (location,) = workspace.code_locations
    (repository,) = location.get_repositories().values()
    remote = repository.get_full_job(job)
    return instance.create_run(
        job_name=job,
        run_id=None,
        run_config={},
        status=status,
        tags={},
        root_run_id=None,
        parent_run_id=None,
        step_keys_to_execute=None,
        execution_plan_snapshot=None,
        job_snapshot=remote.job_snapshot,
        parent_job_snapshot=None,
        remote_job_origin=remote.get_remote_origin(),
        job_code_origin=remote.get_python_origin(),
        asset_selection=None,
        asset_check_selection=None,
        resolved_op_selection=None,
        op_selection=None,
        asset_graph=repository.asset_graph,
    )
