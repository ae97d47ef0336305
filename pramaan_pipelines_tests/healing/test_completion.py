"""An agent that works on its own: it says that it is alive, and that it is done."""

from typing import Any
from uuid import UUID

import pytest

from pramaan_pipelines.contracts.invoke import InvokeAnswer
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims
from pramaan_pipelines.framer.completion import complete_frame, extend_frame_lease
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines_tests.framer.bench import LEASE_SECONDS, age, asked, job, won
from pramaan_pipelines_tests.healing.bench import Healing
from pramaan_pipelines_tests.support.world import World, body


def of(claim: Claim) -> dict[str, UUID]:
    return {"firm_id": claim.firm_id, "agent_run_id": claim.agent_run_id}


def claim_age(world: World, matter: UUID) -> float:
    return float(
        world.one(
            "SELECT extract(epoch FROM now() - claimed_at) FROM ops.matter_frame_jobs "
            "WHERE matter_id = %s",
            matter,
        )
    )


def test_a_heartbeat_keeps_a_long_agent_past_its_lease(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    """Without the third heartbeat the sweep takes the job; the control stands at the end."""
    request = asked(world)
    claim = won(claims, request)
    for _ in range(2):
        age(world, request, LEASE_SECONDS - 10)
        before: dict[str, Any] = job(world, request)
        assert extend_frame_lease(world.database, **of(claim))
        after = job(world, request)
        assert {key for key in before if before[key] != after[key]} == {"claimed_at", "updated_at"}
        assert claim_age(world, request.matter_id) < 60
        assert sweep.sweep().seen == 0
    age(world, request)
    assert sweep.sweep().failed == 1
    assert not extend_frame_lease(world.database, **of(claim))


def test_a_heartbeat_that_comes_late_but_before_the_sweep_still_holds_the_job(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    request = asked(world)
    claim = won(claims, request)
    age(world, request)
    assert extend_frame_lease(world.database, **of(claim))
    assert sweep.sweep().seen == 0


def test_a_heartbeat_speaks_for_one_matter_only(world: World, claims: FrameJobClaims) -> None:
    one, other = asked(world), asked(world)
    claim = won(claims, one)
    won(claims, other)
    age(world, one, 500)
    age(world, other, 500)
    assert extend_frame_lease(world.database, **of(claim))
    assert claim_age(world, other.matter_id) >= 500


@pytest.mark.parametrize(
    ("succeeded", "status", "run", "tries"),
    [(True, "idle", "succeeded", 0), (False, "failed", "failed", 1)],
)
def test_a_completion_ends_run_and_job_together(
    world: World, claims: FrameJobClaims, run: str, status: str, tries: int, *, succeeded: bool
) -> None:
    request = asked(world)
    claim = won(claims, request)
    assert complete_frame(world.database, **of(claim), succeeded=succeeded)
    found = job(world, request)
    assert (found["run_status"], found["failed_tries"]) == (status, tries)
    (row,) = world.runs(request.matter_id)
    assert row["status"] == run
    assert row["finished_at"]
    assert not extend_frame_lease(world.database, **of(claim))


def test_an_agent_that_accepted_is_heard_long_after_its_run_ended(healing: Healing) -> None:
    """H10: accepted releases nothing; a heartbeat holds the lease, a completion ends it."""
    rail = healing.rail
    rail.agent.answer = InvokeAnswer.ACCEPTED
    matter = healing.world.matter(healing.world.firm_a)
    assert rail.deliver(body(healing.world.firm_a, matter)).outcome == ("started", "invoke")
    (payload,) = rail.agent.payloads
    named = {"firm_id": payload.firm_id, "agent_run_id": payload.agent_run_id}
    rail.lease_over(matter)
    assert extend_frame_lease(healing.world.database, **named)
    healing.sweep()
    assert healing.heal() == []
    assert healing.job(matter)["run_status"] == "running"
    assert complete_frame(healing.world.database, **named, succeeded=True)
    assert healing.framed(matter)
    assert rail.depth().total == 0


@pytest.mark.parametrize("ends", ["silent", "failed"])
def test_an_accepted_agent_that_comes_to_nothing_is_healed(healing: Healing, ends: str) -> None:
    rail, world = healing.rail, healing.world
    rail.agent.answer = InvokeAnswer.ACCEPTED
    matter = world.matter(world.firm_a)
    rail.deliver(body(world.firm_a, matter))
    (payload,) = rail.agent.payloads
    named = {"firm_id": payload.firm_id, "agent_run_id": payload.agent_run_id}
    if ends == "silent":
        healing.die(matter)
    else:
        assert complete_frame(world.database, **named, succeeded=False)
    rail.agent.answer = InvokeAnswer.DONE
    assert [run.outcome for run in healing.heal()] == [("started", "release")]
    assert healing.framed(matter)
    assert not complete_frame(world.database, **named, succeeded=True)
    assert [run["status"] for run in world.runs(matter)] == ["failed", "succeeded"]
