"""The skip that is kept on the job row, and the last look before the invoke."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pramaan_pipelines.contracts.outcomes import (
    EnvelopeRefusedError,
    Outcome,
    RefusalReason,
    SkipReason,
)
from pramaan_pipelines.framer.claims import Claim, Fence, FrameJobClaims
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines_tests.framer.bench import (
    TRACE,
    again,
    age,
    asked,
    job,
    remove_matter,
    statuses,
    won,
)
from pramaan_pipelines_tests.support.waiting import until_blocked
from pramaan_pipelines_tests.support.world import World

BLOCKED = SkipReason.CONSENT_BLOCKED


def test_eb_11_a_skip_is_kept_on_the_job_row_and_leaves_no_run_row(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    assert claims.record_skip(request, BLOCKED) is Outcome.CONSENT_BLOCKED
    found = job(world, request)
    assert (found["last_skip_reason"], found["run_status"]) == ("consent_blocked", "idle")
    assert (found["claimed_generation"], found["rebuild_needed"]) == (0, False)
    assert found["last_skip_at"]
    assert world.runs(request.matter_id) == []
    won(claims, request)  # a replay frames it once consent is there


def test_h5_a_skip_never_overwrites_a_running_row_s_status(
    world: World, claims: FrameJobClaims
) -> None:
    first = asked(world)
    claim = won(claims, first)
    before = job(world, first)
    assert claims.record_skip(again(first), BLOCKED) is Outcome.CONSENT_BLOCKED
    after = job(world, first)
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"last_skip_reason", "last_skip_at", "updated_at"}
    assert after["run_status"] == "running"
    assert claims.release(claim)


def test_h5_a_skip_of_an_event_that_has_its_run_row_is_a_duplicate_and_writes_nothing(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    won(claims, request)
    before = job(world, request)
    assert claims.record_skip(request, BLOCKED) is Outcome.DUPLICATE
    assert job(world, request) == before


def test_h5_a_skip_that_waited_for_its_own_event_s_claim_is_a_duplicate(
    world: World, claims: FrameJobClaims
) -> None:
    """The run row was not committed yet when the skip began to look."""
    request = asked(world)
    with ThreadPoolExecutor(1) as pool:
        with world.database.firm(world.firm_a) as connection:
            assert isinstance(claims._claim(connection, request, TRACE), Claim)
            skip = pool.submit(claims.record_skip, request, BLOCKED)
            until_blocked(world)
        assert skip.result() is Outcome.DUPLICATE
    found = job(world, request)
    assert (found["run_status"], found["last_skip_reason"]) == ("running", None)


def test_a_held_claim_passes_the_fence_and_nothing_changes(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    claim = won(claims, request)
    before = (job(world, request), world.runs(request.matter_id))
    assert claims.fence(claim) is Fence.HELD
    assert (job(world, request), world.runs(request.matter_id)) == before


@pytest.mark.parametrize("consents", [True, False])
def test_a_claim_that_was_reclaimed_swept_or_released_is_lost_at_the_fence(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep, *, consents: bool
) -> None:
    """With or without consent: a lost claim changes nothing of its heir's."""
    released, swept, reclaimed = (asked(world) for _ in range(3))
    lost = [won(claims, request) for request in (released, swept, reclaimed)]
    claims.release(lost[0])
    age(world, swept)
    sweep.sweep()
    age(world, reclaimed)
    won(claims, again(reclaimed))
    world.set_consent(world.firm_a, granted=consents)
    for request, claim in zip((released, swept, reclaimed), lost, strict=True):
        before = (job(world, request), world.runs(request.matter_id))
        assert claims.fence(claim) is Fence.LOST
        assert (job(world, request), world.runs(request.matter_id)) == before


@pytest.mark.parametrize("granted", [False, None], ids=["revoked", "absent"])
def test_h4_consent_withdrawn_before_the_invoke_gives_the_claim_back_with_the_frame_still_owed(
    world: World, claims: FrameJobClaims, *, granted: bool | None
) -> None:
    request = asked(world)
    claim = won(claims, request)
    world.set_consent(world.firm_a, granted=granted)
    assert claims.fence(claim) is Fence.CONSENT_WITHDRAWN
    found = job(world, request)
    assert (found["run_status"], found["rebuild_needed"]) == ("idle", True)
    assert found["last_skip_reason"] == "consent_blocked"
    assert found["claimed_generation"] == 1
    (run,) = world.runs(request.matter_id)
    assert run["status"] == "cancelled"
    assert run["finished_at"]
    assert not claims.release(claim)
    world.set_consent(world.firm_a, granted=True)
    assert claims.fence(claim) is Fence.LOST
    assert won(claims, again(request)).generation == 2


def test_h4_a_matter_gone_before_the_invoke_gives_the_claim_back_and_is_refused(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    claim = won(claims, request)
    assert claims.claim(again(request), TRACE) is Outcome.CLAIM_LOST
    remove_matter(world.god, request.matter_id)
    with pytest.raises(EnvelopeRefusedError) as refused:
        claims.fence(claim)
    assert refused.value.reason is RefusalReason.SUBJECT_NOT_VISIBLE
    found = job(world, request)
    assert (found["run_status"], found["rebuild_needed"]) == ("idle", False)
    assert statuses(world, request) == ["cancelled"]
    assert claims.fence(claim) is Fence.LOST
