"""The stale sweep as an operator meets it."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from dagster import (
    DagsterEventType,
    DagsterInstance,
    ExecuteInProcessResult,
    ScheduleDefinition,
    build_schedule_context,
)
from dagster._core.definitions.schedule_definition import ScheduleExecutionData
from pydantic import SecretStr

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.definitions import defs
from pramaan_pipelines.framer.claims import FrameJobClaims, FrameRequest
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines_tests.support.world import World

LEASE = 60


@pytest.fixture(autouse=True)
def environment(app_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep needs the database and the lease, and no queue."""
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", app_url.get_secret_value())
    monkeypatch.setenv("MATTER_FRAME_JOB_LEASE_SECONDS", str(LEASE))


def claimed(world: World, seconds_ago: int) -> UUID:
    """A matter whose frame job is running since then."""
    matter = world.matter(world.firm_a)
    claims = FrameJobClaims(world.database, lease_seconds=LEASE)
    claims.claim(FrameRequest(world.firm_a, matter, uuid4()), TraceContext())
    world.god.execute(
        "UPDATE ops.matter_frame_jobs SET claimed_at = now() - make_interval(secs => %s) "
        "WHERE matter_id = %s",
        [seconds_ago, matter],
    )
    return matter


def sweep(instance: DagsterInstance) -> ExecuteInProcessResult:
    return defs.resolve_job_def("stale_frame_job_sweep_job").execute_in_process(
        instance=instance, raise_on_error=False
    )


def output(result: ExecuteInProcessResult) -> dict[str, Any]:
    (told,) = [
        event.step_output_data.metadata
        for event in result.all_events
        if event.event_type is DagsterEventType.STEP_OUTPUT
    ]
    return {key: value.value for key, value in told.items()}


def observed(result: ExecuteInProcessResult) -> list[str]:
    return [
        event.asset_key.to_user_string()
        for event in result.all_events
        if event.event_type is DagsterEventType.ASSET_OBSERVATION and event.asset_key
    ]


def tick(instance: DagsterInstance) -> ScheduleExecutionData:
    schedule = defs.get_repository_def().get_schedule_def("stale_frame_job_sweep_schedule")
    assert isinstance(schedule, ScheduleDefinition)
    needed = {key: make_resources()[key] for key in ("settings", "database", "sweep")}
    with build_schedule_context(instance=instance, resources=needed) as context:
        return schedule.evaluate_tick(context)


def test_a_sweep_fails_the_jobs_whose_lease_is_over_each_with_its_run_and_no_other(
    world: World, instance: DagsterInstance
) -> None:
    """H6, with the lease of MATTER_FRAME_JOB_LEASE_SECONDS."""
    stale, fresh = claimed(world, LEASE + 5), claimed(world, LEASE - 30)
    result = sweep(instance)
    assert result.success
    assert output(result) == {"stale_seen": 1, "failed": 1}
    assert observed(result) == ["framer/matter_frame_jobs"]
    statuses = {
        matter: (job["run_status"], [run["status"] for run in world.runs(matter)])
        for matter in (stale, fresh)
        if (job := world.job(matter)) is not None
    }
    assert statuses == {stale: ("failed", ["failed"]), fresh: ("running", ["running"])}


def test_a_sweep_that_finds_nothing_is_green_and_observes_nothing(
    world: World, instance: DagsterInstance
) -> None:
    claimed(world, 0)
    result = sweep(instance)
    assert result.success
    assert output(result) == {"stale_seen": 0, "failed": 0}
    assert observed(result) == []


def test_a_tick_launches_a_sweep_only_where_a_lease_is_over(
    world: World, instance: DagsterInstance
) -> None:
    matter = claimed(world, 0)
    data = tick(instance)
    assert not data.run_requests
    assert data.skip_message == "nothing stale"
    world.god.execute(
        "UPDATE ops.matter_frame_jobs SET claimed_at = now() - interval '2 minutes' "
        "WHERE matter_id = %s",
        [matter],
    )
    (request,) = tick(instance).run_requests or []
    assert request.run_key is None


def test_where_the_table_is_absent_the_tick_and_the_job_say_so(
    world: World, instance: DagsterInstance
) -> None:
    world.god.execute("DROP TABLE ops.matter_frame_jobs")
    data = tick(instance)
    assert not data.run_requests
    assert data.skip_message == "ops.matter_frame_jobs is absent: run the migrations"
    result = sweep(instance)
    assert result.success
    (warning,) = [log for log in instance.all_logs(result.run_id) if log.level == 30]
    assert "ops.matter_frame_jobs is absent" in warning.user_message


def test_a_dry_sweep_names_what_is_stale_and_changes_nothing(
    world: World, instance: DagsterInstance
) -> None:
    stale = claimed(world, LEASE + 5)
    before = world.job(stale)
    result = defs.resolve_job_def("stale_frame_job_sweep_job").execute_in_process(
        instance=instance,
        run_config={"ops": {"sweep_stale_frame_jobs": {"config": {"dry_run": True}}}},
    )
    told = output(result)
    assert (told["stale_seen"], told["failed"]) == (1, 0)
    assert f"| {world.firm_a} | {stale} | 1 |" in told["rows"]
    assert world.job(stale) == before
    assert observed(result) == []
