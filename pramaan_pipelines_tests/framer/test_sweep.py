"""The stale sweep: it fails what is dead, exactly that, and once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.framer.sweep import (
    STALE,
    StaleFrameJobSweep,
    StaleJob,
    SweepResult,
    sweep_stale_matter_frame_jobs,
)
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.framer.bench import (
    LEASE_SECONDS,
    again,
    age,
    asked,
    holding,
    job,
    statuses,
    won,
)
from pramaan_pipelines_tests.support.world import World


def test_nothing_stale_does_nothing(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    assert sweep.sweep() == SweepResult(table_present=True, seen=0, failed=0)
    request = asked(world)
    won(claims, request)
    age(world, request, LEASE_SECONDS - 5)
    idle = asked(world)
    claims.release(won(claims, idle))
    age(world, idle)
    before = (job(world, request), job(world, idle))
    assert sweep.sweep() == SweepResult(table_present=True, seen=0, failed=0)
    assert (job(world, request), job(world, idle)) == before


def test_eb_18_a_dead_worker_s_job_is_failed_with_its_run_and_one_try_is_counted(
    world: World, claims: FrameJobClaims, database: Database
) -> None:
    """H8; H9: both ends are written in one transaction. Firms of every kind are swept."""
    a, b = asked(world), asked(world, firm=world.firm_b)
    for request in (a, b):
        won(claims, request)
        age(world, request)
    result = sweep_stale_matter_frame_jobs(database, lease_seconds=LEASE_SECONDS)
    assert result == SweepResult(table_present=True, seen=2, failed=2)
    for request in (a, b):
        found = job(world, request)
        assert (found["run_status"], found["failed_tries"]) == ("failed", 1)
        assert found["claimed_generation"] == 1
        (run,) = world.runs(request.matter_id)
        assert run["status"] == "failed"
        assert run["finished_at"]
    result = sweep_stale_matter_frame_jobs(database, lease_seconds=LEASE_SECONDS)
    assert (result.seen, result.failed) == (0, 0)


def test_h6_it_fails_that_generation_s_run_and_no_other(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    request, healthy = asked(world), asked(world)
    claims.release(won(claims, request))
    won(claims, again(request))
    won(claims, healthy)
    # Runs of the same matter that are not this claim's: older, newer, and of another rail.
    for generation in (1, 3, None):
        world.god.execute(
            "INSERT INTO agents.agent_run "
            "(firm_id, matter_id, agent_key, status, trigger_event_id, claimed_generation) "
            "VALUES (%s, %s, 'vega_matter_frame', 'running', %s, %s)",
            [request.firm_id, request.matter_id, uuid4(), generation],
        )
    age(world, request)
    assert sweep.sweep().failed == 1
    ends = {
        (run["claimed_generation"], run["status"])
        for run in world.runs(request.matter_id)
        if run["status"] != "succeeded"
    }
    assert ends == {(2, "failed"), (1, "running"), (3, "running"), (None, "running")}
    assert statuses(world, healthy) == ["running"]


@pytest.mark.parametrize("change", ["released", "reclaimed", "sign of life"])
def test_h6_a_job_that_moved_on_between_the_look_and_the_update_is_left_alone(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep, change: str
) -> None:
    request = asked(world)
    claim = won(claims, request)
    age(world, request)
    seen = sweep.stale()
    assert seen == [StaleJob(request.firm_id, request.matter_id, 1)]
    if change == "released":
        assert claims.release(claim)
    elif change == "reclaimed":
        won(claims, again(request))
        age(world, request)  # its lease is over as well, but it is another claim
    else:
        age(world, request, 1)
    before = (job(world, request), world.runs(request.matter_id))
    assert not sweep._fail(seen[0])
    assert (job(world, request), world.runs(request.matter_id)) == before


def test_two_sweeps_at_once_count_a_job_once(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    requests = [asked(world) for _ in range(5)]
    for request in requests:
        won(claims, request)
        age(world, request)
    seen = sweep.stale()
    assert seen is not None
    together = threading.Barrier(4)

    def fail_all() -> int:
        together.wait(10)
        return sum(sweep._fail(found) for found in seen)

    with ThreadPoolExecutor(4) as pool:
        counted = [future.result() for future in [pool.submit(fail_all) for _ in range(4)]]
    assert sum(counted) == 5
    assert {job(world, request)["failed_tries"] for request in requests} == {1}
    assert {tuple(statuses(world, request)) for request in requests} == {("failed",)}


def test_a_job_that_somebody_holds_does_not_hold_up_the_sweep_of_the_others(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    stuck, other = asked(world), asked(world, firm=world.firm_b)
    for request, seconds in ((stuck, 5000), (other, 2000)):
        won(claims, request)
        age(world, request, seconds)
    with holding(world, stuck):
        assert sweep.sweep() == SweepResult(table_present=True, seen=2, failed=1)
    assert job(world, other)["run_status"] == "failed"
    assert job(world, stuck)["run_status"] == "running"
    assert sweep.sweep().failed == 1


def test_a_sweep_is_bounded_and_takes_the_oldest_first(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    requests = [asked(world) for _ in range(3)]
    for number, request in enumerate(requests):
        won(claims, request)
        age(world, request, 1000 + number)
    assert sweep.sweep(limit=2).failed == 2
    assert [job(world, r)["run_status"] for r in requests] == ["running", "failed", "failed"]


def test_where_the_table_is_absent_it_does_nothing_and_says_so(
    world: World, database: Database
) -> None:
    world.god.execute("ALTER TABLE ops.matter_frame_jobs RENAME TO elsewhere")
    result = sweep_stale_matter_frame_jobs(database, lease_seconds=LEASE_SECONDS)
    assert result == SweepResult(table_present=False, seen=0, failed=0)


def test_the_sweep_reads_the_index_of_running_jobs(world: World, database: Database) -> None:
    world.god.execute(
        "INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, claimed_at) "
        "SELECT %s, gen_random_uuid(), now() - interval '1 day' FROM generate_series(1, 20000)",
        [world.firm_a],
    )
    world.god.execute("VACUUM ANALYZE ops.matter_frame_jobs")
    explain = text("EXPLAIN (FORMAT JSON) " + STALE.text)
    with database.staff() as connection:
        plan: Any = connection.scalar(explain, {"lease": LEASE_SECONDS, "limit": 500})
    assert "matter_frame_jobs_running_idx" in str(plan)
    assert "Seq Scan" not in str(plan)
