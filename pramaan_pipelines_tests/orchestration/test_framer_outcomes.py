"""Every acknowledged outcome, per gate: where the run stopped, what it left, who acknowledged."""

from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest

from pramaan_pipelines.contracts.canary import CANARY_FIRM_ID, CANARY_SUBJECT_ID
from pramaan_pipelines.contracts.invoke import InvokeAnswer
from pramaan_pipelines.orchestration import names
from pramaan_pipelines_tests.orchestration.bench import GATES, FramerRun, Rail, before
from pramaan_pipelines_tests.support.world import TRACEPARENT, envelope


@dataclass(frozen=True)
class Event:
    """An envelope to send, and whom it is about."""

    firm: UUID
    matter: UUID
    event_id: UUID

    @classmethod
    def of(cls, rail: Rail, firm: UUID | None = None) -> "Event":
        owner = firm or rail.world.firm_a
        return cls(owner, rail.world.matter(owner), uuid4())

    @property
    def body(self) -> str:
        return envelope(self.firm, self.matter, event_id=self.event_id).model_dump_json()


def acknowledged(rail: Rail, run: FramerRun, outcome: str, gate: str, left_by: str) -> None:
    """Check the end that every acknowledged outcome shares.

    Args:
        rail: whose queue must be empty.
        run: what is looked at.
        outcome: the outcome.
        gate: where the run left the road.
        left_by: the output by which it left.
    """
    assert run.result.success
    passed = [*GATES[: GATES.index(gate) + 1], "acknowledge"]
    assert run.ran == passed
    assert run.skipped == set(GATES) - set(passed)
    assert list(run.outputs(gate)) == [left_by]
    assert run.outcome == (outcome, gate)
    assert names.TAG_REASON not in run.tags
    assert run.outputs("acknowledge")["result"] == {
        "outcome": outcome,
        "gate": gate,
        "message_deleted": True,
    }
    depth = rail.depth()
    assert (depth.visible, depth.in_flight, depth.delayed) == (0, 0, 0)
    assert rail.queue.dead_letter_depth().total == 0


def test_started_passes_every_gate_and_is_acknowledged_last(rail: Rail) -> None:
    event = Event.of(rail)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "started", "release", "result")
    assert run.outputs("release")["result"] == {"released": True}
    (row,) = rail.world.runs(event.matter)
    assert (row["status"], row["trigger_event_id"]) == ("succeeded", str(event.event_id))
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["rebuild_needed"]) == ("idle", False)
    assert run.outputs("claim") == {
        "claimed": {"agent_run_id": row["id"], "generation": job["claimed_generation"]}
    }
    assert run.materialized() == [
        "framer/agent_run",
        "framer/vega_matter_frame",
    ]
    assert len(rail.agent.payloads) == 1


def test_a_run_is_tagged_with_ids_that_an_operator_searches_by(rail: Rail) -> None:
    event = Event.of(rail)
    rail.send(event.body)
    message = rail.receive()
    tags = rail.run(message).tags
    assert {key: value for key, value in tags.items() if key.startswith("pramaan/")} == {
        names.TAG_RAIL: "framer",
        names.TAG_EVENT: str(event.event_id),
        names.TAG_FIRM: str(event.firm),
        names.TAG_MATTER: str(event.matter),
        names.TAG_MESSAGE: message.message_id,
        names.TAG_TRACE: TRACEPARENT.split("-")[1],
        names.TAG_OUTCOME: "started",
        names.TAG_GATE: "release",
    }


def test_the_second_delivery_of_an_event_is_a_duplicate_at_dedupe(rail: Rail) -> None:
    """EB-07: one agent run, one invoke, and nothing marked on the job."""
    event = Event.of(rail)
    rail.deliver(event.body)
    job = rail.world.job(event.matter)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "duplicate", "dedupe", "duplicate")
    assert rail.world.job(event.matter) == job
    assert len(rail.world.runs(event.matter)) == len(rail.agent.payloads) == 1


def test_an_event_handled_meanwhile_is_a_duplicate_at_consent_not_a_skip(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: the look again before the skip is written."""
    event = Event.of(rail)

    def meanwhile() -> None:
        rail.claimed_elsewhere(event.firm, event.matter, event.event_id)
        rail.world.set_consent(event.firm, granted=False)

    before(monkeypatch, "coherence", meanwhile)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "duplicate", "consent", "duplicate")
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["last_skip_reason"]) == ("running", None)
    assert len(rail.world.runs(event.matter)) == 1
    assert rail.agent.payloads == []


def test_an_event_whose_own_run_holds_the_job_is_a_duplicate_at_the_claim(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: the lost claim looks again for this event's run row, and marks nothing."""
    event = Event.of(rail)
    before(
        monkeypatch,
        "coherence",
        lambda: rail.claimed_elsewhere(event.firm, event.matter, event.event_id),
    )
    run = rail.deliver(event.body)
    acknowledged(rail, run, "duplicate", "claim", "duplicate")
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["rebuild_needed"]) == ("running", False)
    assert len(rail.world.runs(event.matter)) == 1
    assert rail.agent.payloads == []


def test_an_event_brought_to_its_end_meanwhile_is_a_duplicate_and_its_claim_rolls_back(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H11: the unique violation on trigger_event_id takes the claim with it."""
    event = Event.of(rail)

    def meanwhile() -> None:
        other = rail.claimed_elsewhere(event.firm, event.matter, event.event_id)
        assert rail.claims().release(other)

    before(monkeypatch, "coherence", meanwhile)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "duplicate", "claim", "duplicate")
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["claimed_generation"]) == ("idle", 1)
    assert rail.agent.payloads == []


def test_a_firm_without_consent_is_blocked_before_any_run_row_exists(rail: Rail) -> None:
    """EB-11: no run row, no invoke; the job row says why."""
    event = Event.of(rail, rail.world.firm_without_consent)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "consent_blocked", "consent", "consent_blocked")
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["last_skip_reason"]) == ("idle", "consent_blocked")
    assert job["last_skip_at"] is not None
    assert rail.world.runs(event.matter) == []
    assert rail.agent.payloads == []


def test_consent_that_was_never_asked_for_is_not_granted(rail: Rail) -> None:
    """EB-11: fail-closed; no row is no consent."""
    rail.world.set_consent(rail.world.firm_a, granted=None)
    event = Event.of(rail)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "consent_blocked", "consent", "consent_blocked")
    assert rail.world.runs(event.matter) == []


def test_consent_revoked_between_its_gate_and_the_claim_blocks_inside_the_claim(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H4: the claim's own transaction reads it again; the claim goes with it."""
    event = Event.of(rail)
    before(monkeypatch, "claim", lambda: rail.world.set_consent(event.firm, granted=False))
    run = rail.deliver(event.body)
    acknowledged(rail, run, "consent_blocked", "claim", "consent_blocked")
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["last_skip_reason"]) == ("idle", "consent_blocked")
    assert job["claimed_generation"] == 0
    assert rail.world.runs(event.matter) == []
    assert rail.agent.payloads == []


def test_a_matter_that_another_event_is_framing_loses_the_claim_and_marks_the_need(
    rail: Rail,
) -> None:
    """EB-16: rebuild_needed, for the event that is pending (H2); the holder is left alone."""
    event, other = Event.of(rail), uuid4()
    holder = rail.claimed_elsewhere(event.firm, event.matter, other)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "claim_lost", "claim", "claim_lost")
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["rebuild_needed"]) == ("running", True)
    assert job["claimed_generation"] == holder.generation
    assert job["pending_event_id"] == str(event.event_id)
    assert [row["trigger_event_id"] for row in rail.world.runs(event.matter)] == [str(other)]
    assert rail.agent.payloads == []


def test_an_expired_lease_is_claimed_anew_and_the_superseded_run_is_failed(rail: Rail) -> None:
    """EB-18, H7."""
    event = Event.of(rail)
    zombie = rail.claimed_elsewhere(event.firm, event.matter, uuid4())
    rail.lease_over(event.matter)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "started", "release", "result")
    assert [row["status"] for row in rail.world.runs(event.matter)] == ["failed", "succeeded"]
    assert not rail.claims().release(zombie)


def test_an_agent_that_accepted_is_acknowledged_and_keeps_the_job(rail: Rail) -> None:
    """H10: no release; the agent's own completion gives the job back."""
    rail.agent.answer = InvokeAnswer.ACCEPTED
    event = Event.of(rail)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "started", "invoke", "accepted")
    job = rail.world.job(event.matter)
    assert job is not None
    assert job["run_status"] == "running"
    (row,) = rail.world.runs(event.matter)
    assert (row["status"], row["finished_at"]) == ("running", None)


def test_consent_withdrawn_before_the_invoke_gives_the_claim_back_with_the_frame_owed(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H4: read once more right before the invoke, which does not happen."""
    event = Event.of(rail)
    before(monkeypatch, "invoke", lambda: rail.world.set_consent(event.firm, granted=False))
    run = rail.deliver(event.body)
    acknowledged(rail, run, "consent_blocked", "invoke", "consent_blocked")
    assert rail.agent.payloads == []
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["rebuild_needed"]) == ("idle", True)
    assert job["last_skip_reason"] == "consent_blocked"
    (row,) = rail.world.runs(event.matter)
    assert row["status"] == "cancelled"


def test_a_claim_lost_before_the_invoke_invokes_nothing(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10: the fence is on the claim's generation."""
    event = Event.of(rail)

    def taken_over() -> None:
        rail.lease_over(event.matter)
        rail.claimed_elsewhere(event.firm, event.matter, uuid4())

    before(monkeypatch, "invoke", taken_over)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "claim_lost", "invoke", "claim_lost")
    assert rail.agent.payloads == []
    assert [row["status"] for row in rail.world.runs(event.matter)] == ["failed", "running"]


def test_a_zombies_release_changes_nothing_and_its_message_is_acknowledged(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EB-18: an older generation's write matches no row, and the run says so."""
    event = Event.of(rail)

    def taken_over() -> None:
        rail.lease_over(event.matter)
        rail.claimed_elsewhere(event.firm, event.matter, uuid4())

    before(monkeypatch, "release", taken_over)
    run = rail.deliver(event.body)
    acknowledged(rail, run, "started", "release", "result")
    assert run.outputs("release")["result"] == {"released": False}
    assert [row["status"] for row in rail.world.runs(event.matter)] == ["failed", "running"]
    job = rail.world.job(event.matter)
    assert job is not None
    assert (job["run_status"], job["claimed_generation"]) == ("running", 2)


def test_the_message_is_still_on_the_queue_until_all_it_caused_is_committed(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    event, seen = Event.of(rail), []

    def look() -> None:
        (row,) = rail.world.runs(event.matter)
        job = rail.world.job(event.matter)
        assert job is not None
        seen.append((row["status"], job["run_status"], rail.depth().in_flight))

    before(monkeypatch, "acknowledge", look)
    rail.deliver(event.body)
    assert seen == [("succeeded", "idle", 1)]


def test_one_delivery_that_is_run_twice_starts_one_agent_run_and_both_runs_succeed(
    rail: Rail,
) -> None:
    """EB-07; deleting twice is normal under at-least-once delivery."""
    event = Event.of(rail)
    rail.send(event.body)
    message = rail.receive()
    first, second = rail.run(message), rail.run(message)
    assert first.outcome == ("started", "release")
    assert second.result.success
    assert second.outcome == ("duplicate", "dedupe")
    assert len(rail.agent.payloads) == 1


def test_a_deployments_canary_is_dropped_at_dedupe_and_leaves_nothing(rail: Rail) -> None:
    """It asks for nothing: no job row, no run row, no invoke, and no dead letter."""
    run = rail.deliver(envelope(CANARY_FIRM_ID, CANARY_SUBJECT_ID).model_dump_json())
    assert run.result.success
    assert run.outcome == ("duplicate", "dedupe")
    assert rail.world.job(CANARY_SUBJECT_ID) is None
    assert rail.world.runs(CANARY_SUBJECT_ID) == []
    assert rail.agent.payloads == []
    assert rail.depth().total == 0
