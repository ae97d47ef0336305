"""The framer's story in one breath, at the core: every end that an event can come to."""

import json

from pramaan_pipelines.contracts.outcomes import Outcome, SkipReason
from pramaan_pipelines.framer import gates
from pramaan_pipelines.framer.claims import Claim, Fence, FrameJobClaims, FrameRequest
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines_tests.framer.bench import age, job, statuses
from pramaan_pipelines_tests.support.world import ENVIRONMENT, World


def visit(world: World, claims: FrameJobClaims, body: str) -> Claim | Outcome:
    """Take a message's body through gates 1 to 6, in the order of the contract."""
    envelope = gates.parse(body)
    gates.check_environment(envelope, ENVIRONMENT)
    firm, matter = envelope.firm_id, envelope.matter_id
    request = FrameRequest(firm, matter, envelope.event_id)
    with world.database.firm(firm) as connection:
        if gates.is_handled(connection, firm_id=firm, event_id=envelope.event_id):
            return Outcome.DUPLICATE
        gates.check_subject(connection, firm_id=firm, matter_id=matter)
        consents = gates.load_egress_consent(connection, firm_id=firm)
    if not consents:
        return claims.record_skip(request, SkipReason.CONSENT_BLOCKED)
    return claims.claim(request, envelope.trace)


def test_consent_skip_then_claim_then_duplicate_then_claim_lost_then_reclaim_then_zombie_loses(
    world: World, claims: FrameJobClaims, sweep: StaleFrameJobSweep
) -> None:
    """EB-11, EB-16, EB-07, EB-18; the trace of the producer is on every run row (EB-04)."""
    firm = world.firm_without_consent
    created = world.created_matter(firm)
    ((first,),) = world.rows("SELECT envelope::text FROM ops.domain_event_outbox")
    request = FrameRequest(firm, created.matter_id, created.event_id)
    trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"

    def event(number: int) -> str:
        name = f"00000000-0000-4000-8000-{number:012d}"
        return json.dumps({**json.loads(first), "event_id": name, "traceparent": trace})

    # No consent: the skip is on the job row, and nothing is on the run rail.
    assert visit(world, claims, first) is Outcome.CONSENT_BLOCKED
    assert job(world, request)["last_skip_reason"] == "consent_blocked"
    assert statuses(world, request) == []

    # Consent, and the event is replayed: claim and run row.
    world.set_consent(firm, granted=True)
    dead = visit(world, claims, first)
    assert isinstance(dead, Claim)
    assert job(world, request)["run_status"] == "running"
    assert statuses(world, request) == ["running"]
    assert claims.fence(dead) is Fence.HELD

    # The same message again, then another event while the first is being built.
    assert visit(world, claims, first) is Outcome.DUPLICATE
    assert job(world, request)["rebuild_needed"] is False
    assert visit(world, claims, event(2)) is Outcome.CLAIM_LOST
    assert job(world, request)["rebuild_needed"] is True

    # The worker dies; its lease ends; the next event takes over, and the zombie's write loses.
    age(world, request)
    heir = visit(world, claims, event(3))
    assert isinstance(heir, Claim)
    assert (dead.generation, heir.generation) == (1, 2)
    assert job(world, request)["rebuild_needed"] is False
    assert claims.fence(dead) is Fence.LOST
    assert not claims.release(dead)
    assert statuses(world, request) == ["failed", "running"]

    # The heir dies too: swept, and its late write loses as well.
    age(world, request)
    assert sweep.sweep().failed == 1
    assert not claims.release(heir)
    assert job(world, request)["run_status"] == "failed"
    assert statuses(world, request) == ["failed", "failed"]

    # A last event ends in a frame.
    last = visit(world, claims, event(4))
    assert isinstance(last, Claim)
    assert claims.fence(last) is Fence.HELD
    assert claims.release(last)
    assert job(world, request)["run_status"] == "idle"
    runs = world.runs(created.matter_id)
    assert [run["status"] for run in runs] == ["failed", "failed", "succeeded"]
    assert [run["traceparent"] for run in runs] == [None, trace, trace]
