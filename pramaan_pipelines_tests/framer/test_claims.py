"""The claim and the release: one holder a matter, fenced by its generation."""

from uuid import uuid4

import pytest

from pramaan_pipelines.contracts.outcomes import Outcome
from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines_tests.framer.bench import (
    LEASE_SECONDS,
    TRACE,
    again,
    age,
    asked,
    job,
    statuses,
    won,
)
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE, World


def test_eb_16_a_claim_and_its_run_row_commit_together(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    claim = won(claims, request)
    found = job(world, request)
    assert (found["run_status"], found["firm_id"]) == ("running", str(world.firm_a))
    assert (found["requested_generation"], found["claimed_generation"]) == (1, 1)
    assert found["claimed_at"]
    (run,) = world.runs(request.matter_id)
    assert (run["id"], run["status"]) == (str(claim.agent_run_id), "running")
    assert run["trigger_event_id"] == str(request.event_id)
    assert run["agent_key"] == "vega_matter_frame"
    assert run["user_id"] is None
    assert (run["traceparent"], run["tracestate"]) == (TRACEPARENT, TRACESTATE)


def test_h10_the_generation_of_the_claim_is_stored_on_its_run_row(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    first = won(claims, request)
    claims.release(first)
    second = won(claims, again(request))
    stored = {run["id"]: run["claimed_generation"] for run in world.runs(request.matter_id)}
    assert stored == {str(first.agent_run_id): 1, str(second.agent_run_id): 2}
    assert (first.generation, second.generation) == (1, 2)


def test_eb_16_a_run_row_that_cannot_be_written_takes_the_claim_with_it(
    world: World, claims: FrameJobClaims
) -> None:
    world.god.execute(
        "ALTER TABLE agents.agent_run ADD CONSTRAINT none CHECK (trigger_event_id IS NULL)"
    )
    request = asked(world)
    with pytest.raises(Exception, match="none"):
        claims.claim(request, TRACE)
    assert world.job(request.matter_id) is None
    assert world.runs(request.matter_id) == []


def test_each_claim_is_a_new_generation_by_one(world: World, claims: FrameJobClaims) -> None:
    request = asked(world)
    for generation in range(1, 5):
        claim = won(claims, again(request))
        assert claim.generation == generation
        assert job(world, request)["requested_generation"] == generation
        assert claims.release(claim)


def test_a_job_that_others_left_queued_or_failed_can_be_claimed(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    claims.release(won(claims, request))
    for status in ("idle", "queued", "failed"):
        world.god.execute("UPDATE ops.matter_frame_jobs SET run_status = %s", [status])
        assert claims.release(won(claims, again(request)))


def test_eb_16_a_lost_claim_remembers_that_a_newer_frame_is_needed_and_for_which_event(
    world: World, claims: FrameJobClaims
) -> None:
    """H2: the event that lost is the one that is pending."""
    first = asked(world)
    won(claims, first)
    before = job(world, first)
    second = again(first)
    assert claims.claim(second, TRACE) is Outcome.CLAIM_LOST
    after = job(world, first)
    assert (before["rebuild_needed"], before["pending_event_id"]) == (False, None)
    assert (after["rebuild_needed"], after["pending_event_id"]) == (True, str(second.event_id))
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"rebuild_needed", "pending_event_id", "updated_at"}
    assert len(world.runs(first.matter_id)) == 1


def test_the_claim_and_not_the_release_clears_rebuild_needed(
    world: World, claims: FrameJobClaims
) -> None:
    first = asked(world)
    holder = won(claims, first)
    assert claims.claim(again(first), TRACE) is Outcome.CLAIM_LOST
    assert claims.release(holder)
    assert job(world, first)["rebuild_needed"] is True
    won(claims, again(first))
    assert job(world, first)["rebuild_needed"] is False


def test_h2_a_claim_forgets_the_pending_event_so_that_no_healing_repeats_one_with_a_run_row(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    """Healed by that event's name, it would be H11's duplicate for ever."""
    first = asked(world)
    holder = won(claims, first)
    second = again(first)
    assert claims.claim(second, TRACE) is Outcome.CLAIM_LOST
    claims.release(holder)
    won(claims, second)
    age(world, first)
    assert sweep.sweep().failed == 1
    found = job(world, first)
    assert (found["run_status"], found["pending_event_id"]) == ("failed", None)


def test_a_release_gives_the_job_back_and_ends_its_run(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    assert claims.release(won(claims, request))
    found = job(world, request)
    assert (found["run_status"], found["claimed_generation"]) == ("idle", 1)
    (run,) = world.runs(request.matter_id)
    assert run["status"] == "succeeded"
    assert run["finished_at"]


def test_a_second_release_matches_nothing(world: World, claims: FrameJobClaims) -> None:
    request = asked(world)
    claim = won(claims, request)
    assert claims.release(claim)
    before = (job(world, request), world.runs(request.matter_id))
    assert not claims.release(claim)
    assert (job(world, request), world.runs(request.matter_id)) == before


@pytest.mark.parametrize(
    ("seconds", "reclaimed"), [(LEASE_SECONDS - 5, False), (LEASE_SECONDS + 1, True)]
)
def test_eb_18_a_claim_is_taken_over_only_when_its_lease_is_over_on_the_database_s_clock(
    world: World, claims: FrameJobClaims, seconds: int, *, reclaimed: bool
) -> None:
    request = asked(world)
    won(claims, request)
    age(world, request, seconds)
    answer = claims.claim(again(request), TRACE)
    assert (answer is not Outcome.CLAIM_LOST) is reclaimed
    assert job(world, request)["claimed_generation"] == (2 if reclaimed else 1)


def test_eb_18_no_clock_of_ours_decides_a_lease(
    world: World, claims: FrameJobClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(world)
    won(claims, request)
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert claims.claim(again(request), TRACE) is Outcome.CLAIM_LOST


def test_h7_a_take_over_fails_the_superseded_run_in_the_same_transaction(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    dead = won(claims, request)
    other = asked(world)
    won(claims, other)  # another matter's run is nobody's business
    age(world, request)
    heir = won(claims, again(request))
    runs = {run["id"]: run for run in world.runs(request.matter_id)}
    assert runs[str(dead.agent_run_id)]["status"] == "failed"
    assert runs[str(dead.agent_run_id)]["finished_at"]
    assert runs[str(heir.agent_run_id)]["status"] == "running"
    assert statuses(world, other) == ["running"]


def test_h7_a_take_over_that_fails_leaves_the_superseded_run_as_it_was(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    won(claims, request)
    age(world, request)
    world.set_consent(world.firm_a, granted=False)
    assert claims.claim(again(request), TRACE) is Outcome.CONSENT_BLOCKED
    assert statuses(world, request) == ["running"]
    assert job(world, request)["claimed_generation"] == 1


def test_h9_a_zombie_that_was_reclaimed_loses_its_late_release(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    zombie = won(claims, request)
    age(world, request)
    heir = won(claims, again(request))
    before = (job(world, request), world.runs(request.matter_id))
    assert not claims.release(zombie)
    assert (job(world, request), world.runs(request.matter_id)) == before
    assert claims.release(heir)
    assert statuses(world, request) == ["failed", "succeeded"]
    assert not claims.release(zombie)


def test_h9_a_zombie_that_was_swept_loses_and_failed_never_becomes_succeeded(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    request = asked(world)
    zombie = won(claims, request)
    age(world, request)
    assert sweep.sweep().failed == 1
    before = (job(world, request), world.runs(request.matter_id))
    assert before[0]["run_status"] == "failed"
    assert not claims.release(zombie)
    assert (job(world, request), world.runs(request.matter_id)) == before
    assert statuses(world, request) == ["failed"]


def test_h9_a_run_that_somebody_failed_stays_failed_when_its_job_is_released(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    claim = won(claims, request)
    world.god.execute("UPDATE agents.agent_run SET status = 'failed'")
    assert claims.release(claim)
    assert statuses(world, request) == ["failed"]


def test_h8_a_message_s_claim_starts_the_tries_anew(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    request = asked(world)
    for tries in (1, 1):
        won(claims, again(request))
        age(world, request)
        assert sweep.sweep().failed == 1
        assert job(world, request)["failed_tries"] == tries
    won(claims, again(request))
    assert job(world, request)["failed_tries"] == 0


def test_h1_the_same_event_s_second_claim_is_a_duplicate_and_marks_nothing(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    won(claims, request)
    before = job(world, request)
    assert claims.claim(request, TRACE) is Outcome.DUPLICATE
    assert job(world, request) == before
    assert len(world.runs(request.matter_id)) == 1


def test_h11_a_run_row_of_the_event_rolls_the_claim_back_with_it(
    world: World, claims: FrameJobClaims
) -> None:
    """Dedupe was bypassed: the job is idle, so only the unique index can tell."""
    request = asked(world)
    claims.release(won(claims, request))
    before = (job(world, request), world.runs(request.matter_id))
    assert claims.claim(request, TRACE) is Outcome.DUPLICATE
    assert (job(world, request), world.runs(request.matter_id)) == before


def test_h11_a_run_row_of_the_event_rolls_a_take_over_back_too(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    won(claims, request)
    age(world, request)
    before = (job(world, request), world.runs(request.matter_id))
    assert claims.claim(request, TRACE) is Outcome.DUPLICATE
    assert (job(world, request), world.runs(request.matter_id)) == before


def test_h11_another_unique_violation_is_an_error_and_no_duplicate(
    world: World, claims: FrameJobClaims
) -> None:
    world.god.execute("CREATE UNIQUE INDEX one_a_matter ON agents.agent_run (matter_id)")
    request = asked(world)
    claims.release(won(claims, request))
    with pytest.raises(Exception, match="one_a_matter"):
        claims.claim(again(request), TRACE)


def test_events_of_two_firms_with_one_id_are_two_events(
    world: World, claims: FrameJobClaims
) -> None:
    event = uuid4()
    for firm in (world.firm_a, world.firm_b):
        request = asked(world, firm=firm)
        won(claims, type(request)(firm, request.matter_id, event))
