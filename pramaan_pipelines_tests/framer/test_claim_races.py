"""Claims that meet: many at once, and what changes while one waits for the row."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import SecretStr

from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, Outcome, RefusalReason
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.framer.bench import (
    LEASE_SECONDS,
    TRACE,
    again,
    age,
    asked,
    holding,
    job,
    remove_matter,
    statuses,
    won,
)
from pramaan_pipelines_tests.support.waiting import until_blocked
from pramaan_pipelines_tests.support.world import World

CLAIMERS = 64


def all_at_once(requests: list[FrameRequest], url: SecretStr) -> list[Claim | Outcome]:
    """Claim from as many threads, each with a connection of its own."""
    together = threading.Barrier(len(requests))

    def one(request: FrameRequest) -> Claim | Outcome:
        database = Database.connect(url, pool_size=1)
        try:
            with database.firm(request.firm_id):
                """Connect before the start, so that they meet."""
            together.wait(30)
            return FrameJobClaims(database, lease_seconds=LEASE_SECONDS).claim(request, TRACE)
        finally:
            database.close()

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests))


def ends(answers: list[Claim | Outcome]) -> Counter[str]:
    return Counter("won" if isinstance(answer, Claim) else str(answer) for answer in answers)


def test_eb_16_of_sixty_four_events_at_once_exactly_one_wins_with_one_agent_run(
    world: World, app_url: SecretStr
) -> None:
    first = asked(world)
    requests = [again(first) for _ in range(CLAIMERS)]
    answers = all_at_once(requests, app_url)
    assert ends(answers) == {"won": 1, "claim_lost": CLAIMERS - 1}
    (run,) = world.runs(first.matter_id)
    (claim,) = [answer for answer in answers if isinstance(answer, Claim)]
    assert run["id"] == str(claim.agent_run_id)
    found = job(world, first)
    assert (found["claimed_generation"], found["rebuild_needed"]) == (1, True)
    losers = {str(r.event_id) for r in requests} - {run["trigger_event_id"]}
    assert found["pending_event_id"] in losers


def test_h1_of_sixty_four_deliveries_of_one_event_the_losers_mark_nothing(
    world: World, app_url: SecretStr
) -> None:
    request = asked(world)
    answers = all_at_once([request] * CLAIMERS, app_url)
    assert ends(answers) == {"won": 1, "duplicate": CLAIMERS - 1}
    found = job(world, request)
    assert (found["rebuild_needed"], found["pending_event_id"]) == (False, None)
    assert len(world.runs(request.matter_id)) == 1


def test_eb_18_of_sixteen_take_overs_at_once_exactly_one_wins(
    world: World, claims: FrameJobClaims, app_url: SecretStr
) -> None:
    request = asked(world)
    won(claims, request)
    age(world, request)
    answers = all_at_once([again(request) for _ in range(16)], app_url)
    assert ends(answers) == {"won": 1, "claim_lost": 15}
    assert statuses(world, request) == ["failed", "running"]
    assert job(world, request)["claimed_generation"] == 2


def test_h1_a_claim_that_waited_for_its_own_event_s_claim_is_a_duplicate(
    world: World, claims: FrameJobClaims
) -> None:
    """The run row was not committed yet when the loser began."""
    request = asked(world)
    with ThreadPoolExecutor(1) as pool:
        with world.database.firm(world.firm_a) as connection:
            assert isinstance(claims._claim(connection, request, TRACE), Claim)
            loser = pool.submit(claims.claim, request, TRACE)
            until_blocked(world)
        assert loser.result() is Outcome.DUPLICATE
    assert job(world, request)["rebuild_needed"] is False
    assert len(world.runs(request.matter_id)) == 1


def test_h4_consent_revoked_while_the_claim_waits_means_no_run_row_and_no_claim(
    world: World, claims: FrameJobClaims
) -> None:
    first = asked(world)
    claims.release(won(claims, first))
    before = job(world, first)
    request = again(first)
    with ThreadPoolExecutor(1) as pool:
        with holding(world, request):
            claim = pool.submit(claims.claim, request, TRACE)
            until_blocked(world)  # it is past every gate, and inside its transaction
            world.set_consent(world.firm_a, granted=False)
        assert claim.result() is Outcome.CONSENT_BLOCKED
    after = job(world, first)
    assert statuses(world, first) == ["succeeded"]
    assert (after["run_status"], after["claimed_generation"]) == ("idle", 1)
    assert after["last_skip_reason"] == "consent_blocked"
    assert after["last_skip_at"]
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"last_skip_reason", "last_skip_at", "updated_at"}


def test_h4_a_matter_gone_while_the_claim_waits_means_no_run_row_and_no_claim(
    world: World, claims: FrameJobClaims
) -> None:
    first = asked(world)
    claims.release(won(claims, first))
    before = job(world, first)
    request = again(first)
    with ThreadPoolExecutor(1) as pool:
        with holding(world, request):
            claim = pool.submit(claims.claim, request, TRACE)
            until_blocked(world)
            remove_matter(world.god, request.matter_id)
        with pytest.raises(EnvelopeRefusedError) as refused:
            claim.result()
    assert refused.value.reason is RefusalReason.SUBJECT_NOT_VISIBLE
    assert job(world, first) == before
    assert statuses(world, first) == ["succeeded"]


def test_h4_a_claim_without_consent_never_writes_a_run_row_and_keeps_the_skip(
    world: World, claims: FrameJobClaims
) -> None:
    """EB-11: whichever gate was skipped or run again."""
    request = asked(world, firm=world.firm_without_consent)
    assert claims.claim(request, TRACE) is Outcome.CONSENT_BLOCKED
    assert world.runs(request.matter_id) == []
    found = job(world, request)
    assert (found["run_status"], found["claimed_generation"]) == ("idle", 0)
    assert found["last_skip_reason"] == "consent_blocked"


def test_a_release_and_a_lost_claim_that_meet_lose_no_mark(
    world: World, claims: FrameJobClaims
) -> None:
    """The loser either sees the release and wins, or its mark outlives the release."""
    request = asked(world)
    holder = won(claims, request)
    second = again(request)
    with ThreadPoolExecutor(2) as pool:
        with holding(world, request):
            released = pool.submit(claims.release, holder)
            until_blocked(world, 1)
            answer = pool.submit(claims.claim, second, TRACE)
            until_blocked(world, 2)
        assert released.result()
        answered = answer.result()
    found = job(world, request)
    if isinstance(answered, Claim):
        assert (found["run_status"], answered.generation) == ("running", 2)
    else:
        assert answered is Outcome.CLAIM_LOST
        assert (found["run_status"], found["rebuild_needed"]) == ("idle", True)
        assert found["pending_event_id"] == str(second.event_id)
