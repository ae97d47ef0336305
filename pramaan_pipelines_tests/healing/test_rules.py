"""H1 to H13 as far as healing has a part in them; the message's part stands in ../framer.

`grep -rn "def test_h[0-9]"` finds every rule.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import psycopg
import pytest
from pydantic import SecretStr

from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, Outcome, SkipReason
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.framer.completion import complete_frame, extend_frame_lease
from pramaan_pipelines.framer.healing import FrameHealing, OwedFrame
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.framer.bench import (
    LEASE_SECONDS,
    TRACE,
    again,
    age,
    asked,
    job,
    remove_matter,
    statuses,
    won,
)
from pramaan_pipelines_tests.healing.bench import (
    BOUND,
    GATES,
    fail,
    failed,
    healing_job,
    healing_of,
    owed_after_a_lost_claim,
    set_tries,
    triggers,
)
from pramaan_pipelines_tests.support.waiting import until_blocked
from pramaan_pipelines_tests.support.world import World


def completed(world: World, claim: Claim, *, succeeded: bool = True) -> bool:
    return complete_frame(
        world.database,
        firm_id=claim.firm_id,
        agent_run_id=claim.agent_run_id,
        succeeded=succeeded,
    )


def alive(world: World, claim: Claim) -> bool:
    return extend_frame_lease(
        world.database, firm_id=claim.firm_id, agent_run_id=claim.agent_run_id
    )


def test_h1_an_event_that_healing_framed_is_a_duplicate_and_marks_nothing(
    world: World, claims: FrameJobClaims
) -> None:
    """Its message comes again while the healing run of its own event holds the job."""
    lost = owed_after_a_lost_claim(world, claims)
    won(claims, healing_of(lost))
    before = job(world, lost)
    assert claims.claim(lost, TRACE) is Outcome.DUPLICATE
    assert job(world, lost) == before
    assert before["rebuild_needed"] is False


def test_h2_healing_begins_behind_dedupe_with_the_gates_of_a_message() -> None:
    nodes = {node.name for node in healing_job().graph.node_defs}
    assert nodes == set(GATES)


def test_h2_a_healing_claim_is_triggered_by_the_event_that_is_pending(
    world: World, claims: FrameJobClaims
) -> None:
    lost = owed_after_a_lost_claim(world, claims)
    claim = won(claims, healing_of(lost))
    assert triggers(world, lost.matter_id)[-1] == str(lost.event_id)
    found = job(world, lost)
    assert (found["run_status"], found["pending_event_id"]) == ("running", None)
    assert (found["rebuild_needed"], found["claimed_generation"]) == (False, claim.generation)


def test_h2_a_pending_event_that_has_its_run_row_is_not_named_again(
    world: World, claims: FrameJobClaims
) -> None:
    """Named again, its claim would be H11's duplicate at every look."""
    lost = owed_after_a_lost_claim(world, claims)
    world.god.execute(
        "UPDATE agents.agent_run SET trigger_event_id = %s WHERE matter_id = %s",
        [lost.event_id, lost.matter_id],
    )
    won(claims, healing_of(lost))
    assert triggers(world, lost.matter_id) == [str(lost.event_id), None]


def test_h2_a_failed_frame_without_a_pending_event_has_no_trigger(
    world: World, claims: FrameJobClaims
) -> None:
    """The event of the run that failed has its run row; dedupe would end the healing there."""
    matter = failed(world, claims)
    (event,) = triggers(world, matter)
    won(claims, FrameRequest(world.firm_a, matter, None))
    assert triggers(world, matter) == [event, None]


def test_h3_of_eight_healing_claims_at_once_one_wins_and_the_others_mark_nothing(
    world: World, claims: FrameJobClaims, app_url: SecretStr
) -> None:
    lost = owed_after_a_lost_claim(world, claims)
    together = Barrier(8)

    def heal(_: int) -> Claim | Outcome:
        database = Database.connect(app_url, pool_size=1)
        try:
            with database.firm(world.firm_a):
                """Connect before the start, so that they meet."""
            together.wait(30)
            own = FrameJobClaims(database, lease_seconds=LEASE_SECONDS)
            return own.claim(healing_of(lost), TRACE)
        finally:
            database.close()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(heal, range(8)))
    (claim,) = [answer for answer in answers if isinstance(answer, Claim)]
    assert answers.count(Outcome.CLAIM_LOST) == 7
    found = job(world, lost)
    assert (found["claimed_generation"], found["rebuild_needed"]) == (claim.generation, False)
    assert found["pending_event_id"] is None
    assert statuses(world, lost) == ["succeeded", "running"]


def test_h3_a_need_that_is_gone_between_the_look_and_the_claim_is_not_claimed(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    lost = owed_after_a_lost_claim(world, claims)
    assert owing.owed(6) == [OwedFrame(world.firm_a, lost.matter_id)]
    assert claims.release(won(claims, again(lost)))  # a message frames it meanwhile
    before = (job(world, lost), world.runs(lost.matter_id))
    assert claims.claim(healing_of(lost), TRACE) is Outcome.CLAIM_LOST
    assert (job(world, lost), world.runs(lost.matter_id)) == before


def test_h3_a_running_job_is_not_healed_even_where_its_lease_is_over(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    """It is the sweep that ends it; the need that a lost claim left stays for later."""
    first = asked(world)
    won(claims, first)
    claims.claim(again(first), TRACE)
    age(world, first)
    before = job(world, first)
    assert owing.owed(6) == []
    assert claims.claim(healing_of(first), TRACE) is Outcome.CLAIM_LOST
    assert job(world, first) == before


@pytest.mark.parametrize("tries", [BOUND, BOUND + 1])
def test_h3_a_failed_job_is_claimed_within_its_bound_and_not_beyond(
    world: World, claims: FrameJobClaims, owing: FrameHealing, tries: int
) -> None:
    matter = failed(world, claims, tries)
    owed = [] if tries > BOUND else [OwedFrame(world.firm_a, matter)]
    assert owing.owed(6) == owed
    answer = claims.claim(FrameRequest(world.firm_a, matter, None), TRACE)
    assert isinstance(answer, Claim) is bool(owed)


def test_h3_an_event_that_is_owed_is_claimed_however_often_the_frame_failed(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    """Else an event that came while the last try ran would have no end."""
    lost = owed_after_a_lost_claim(world, claims)
    set_tries(world, lost.matter_id, BOUND + 7)
    assert len(owing.owed(6)) == 1
    won(claims, healing_of(lost))


def test_h3_a_healing_run_for_a_matter_without_a_job_makes_none(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    assert claims.claim(healing_of(request), TRACE) is Outcome.CLAIM_LOST
    assert world.job(request.matter_id) is None


def test_h4_consent_that_is_gone_at_the_healing_claim_leaves_the_frame_owed_and_no_run_row(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    lost = owed_after_a_lost_claim(world, claims)
    before = job(world, lost)
    world.set_consent(world.firm_a, granted=False)
    assert claims.claim(healing_of(lost), TRACE) is Outcome.CONSENT_BLOCKED
    after = job(world, lost)
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"last_skip_reason", "last_skip_at", "updated_at"}
    assert statuses(world, lost) == ["succeeded"]
    assert owing.owed(6) == []
    world.set_consent(world.firm_a, granted=True)
    assert owing.owed(6) == [OwedFrame(world.firm_a, lost.matter_id)]


def test_h4_a_matter_that_is_gone_at_the_healing_claim_rolls_it_back(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    lost = owed_after_a_lost_claim(world, claims)
    before = job(world, lost)
    remove_matter(world.god, lost.matter_id)
    with pytest.raises(EnvelopeRefusedError):
        claims.claim(healing_of(lost), TRACE)
    assert job(world, lost) == before
    assert owing.owed(6) == []


def test_h5_a_healing_run_s_skip_leaves_status_need_and_tries(
    world: World, claims: FrameJobClaims
) -> None:
    matter = failed(world, claims, 2)
    request = FrameRequest(world.firm_a, matter, None)
    assert claims.record_skip(request, SkipReason.CONSENT_BLOCKED) is Outcome.CONSENT_BLOCKED
    found = job(world, request)
    assert (found["run_status"], found["failed_tries"]) == ("failed", 2)
    assert found["last_skip_reason"] == "consent_blocked"


def test_h6_a_sweep_after_a_healing_claim_fails_that_run_and_not_the_first_one(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    lost = owed_after_a_lost_claim(world, claims)
    won(claims, healing_of(lost))
    age(world, lost)
    assert sweep.sweep().failed == 1
    assert statuses(world, lost) == ["succeeded", "failed"]
    assert job(world, lost)["run_status"] == "failed"


def test_h7_a_message_that_takes_a_healing_claim_over_fails_its_run(
    world: World, claims: FrameJobClaims
) -> None:
    lost = owed_after_a_lost_claim(world, claims)
    zombie = won(claims, healing_of(lost))
    age(world, lost)
    heir = won(claims, again(lost))
    assert statuses(world, lost) == ["succeeded", "failed", "running"]
    assert not completed(world, zombie)
    assert completed(world, heir)
    assert statuses(world, lost) == ["succeeded", "failed", "succeeded"]


def test_h7_a_healing_claim_fails_a_run_that_an_older_generation_left_running(
    world: World, claims: FrameJobClaims
) -> None:
    """A service that shares the table may fail a job without ours."""
    request = asked(world)
    won(claims, request)
    world.god.execute("UPDATE ops.matter_frame_jobs SET run_status = 'failed'")
    won(claims, healing_of(request))
    assert statuses(world, request) == ["failed", "running"]


def test_h8_sweep_and_failed_completion_count_one_each_and_healing_goes_on_counting(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    request = asked(world)
    fail(world, won(claims, request))
    assert job(world, request)["failed_tries"] == 1
    won(claims, healing_of(request))
    assert job(world, request)["failed_tries"] == 1
    age(world, request)
    sweep.sweep()
    assert job(world, request)["failed_tries"] == 2
    fail(world, won(claims, healing_of(request)))
    assert job(world, request)["failed_tries"] == 3
    won(claims, again(request))  # a message
    assert job(world, request)["failed_tries"] == 0


def test_h8_a_frame_that_came_about_forgets_its_tries(world: World, claims: FrameJobClaims) -> None:
    matter = failed(world, claims, 2)
    request = FrameRequest(world.firm_a, matter, None)
    assert completed(world, won(claims, request))
    assert job(world, request)["failed_tries"] == 0


@pytest.mark.parametrize("succeeded", [True, False])
def test_h9_a_completion_after_the_sweep_changes_nothing(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep, *, succeeded: bool
) -> None:
    """Failed never becomes succeeded, and one failure is not counted twice."""
    request = asked(world)
    late = won(claims, request)
    age(world, request)
    sweep.sweep()
    before = (job(world, request), world.runs(request.matter_id))
    assert not completed(world, late, succeeded=succeeded)
    assert (job(world, request), world.runs(request.matter_id)) == before


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_h9_a_second_completion_changes_nothing(
    world: World, claims: FrameJobClaims, *, first: bool, second: bool
) -> None:
    request = asked(world)
    claim = won(claims, request)
    assert completed(world, claim, succeeded=first)
    before = (job(world, request), world.runs(request.matter_id))
    assert not completed(world, claim, succeeded=second)
    assert (job(world, request), world.runs(request.matter_id)) == before


def test_h10_completion_and_heartbeat_fence_on_the_runs_own_generation(
    world: World, claims: FrameJobClaims
) -> None:
    """The job is running, on a newer generation: the late one must not speak for its heir."""
    request = asked(world)
    zombie = won(claims, request)
    age(world, request)
    heir = won(claims, again(request))
    age(world, request, 100)
    before = (job(world, request), world.runs(request.matter_id))
    assert not alive(world, zombie)
    assert not completed(world, zombie)
    assert not completed(world, zombie, succeeded=False)
    assert (job(world, request), world.runs(request.matter_id)) == before
    assert alive(world, heir)
    assert completed(world, heir)


def test_h10_another_firm_s_run_is_nobody_s_to_complete(
    world: World, claims: FrameJobClaims
) -> None:
    request = asked(world)
    claim = won(claims, request)
    before = (job(world, request), world.runs(request.matter_id))
    for firm, run in ((world.firm_b, claim.agent_run_id), (world.firm_a, uuid4())):
        named = {"firm_id": firm, "agent_run_id": run}
        assert not extend_frame_lease(world.database, **named)
        assert not complete_frame(world.database, **named, succeeded=True)
    assert (job(world, request), world.runs(request.matter_id)) == before


def test_h10_a_run_of_another_rail_is_nobody_s_to_complete(
    world: World, claims: FrameJobClaims
) -> None:
    """It has no generation."""
    request = asked(world)
    claim = won(claims, request)
    world.god.execute("UPDATE agents.agent_run SET claimed_generation = NULL")
    assert not alive(world, claim)
    assert not completed(world, claim)
    assert statuses(world, request) == ["running"]


def test_h11_a_pending_event_that_gets_its_run_row_meanwhile_takes_the_healing_claim_with_it(
    world: World,
    claims: FrameJobClaims,
    owing: FrameHealing,
    server: EmbeddedPostgres,
    database_name: str,
) -> None:
    """The unique index decides; the frame stays owed, and the next look names no event."""
    lost = owed_after_a_lost_claim(world, claims)
    before = job(world, lost)
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(server.admin_url(database_name)) as other,
    ):
        other.execute(
            "INSERT INTO agents.agent_run (firm_id, matter_id, agent_key, status, trigger_event_id)"
            " VALUES (%s, %s, 'vega_matter_frame', 'failed', %s)",
            [lost.firm_id, lost.matter_id, lost.event_id],
        )
        answer = pool.submit(claims.claim, healing_of(lost), TRACE)
        until_blocked(world)
        other.commit()
        assert answer.result() is Outcome.DUPLICATE
    assert job(world, lost) == before
    assert len(owing.owed(6)) == 1
    won(claims, healing_of(lost))
    assert triggers(world, lost.matter_id).count(str(lost.event_id)) == 1
