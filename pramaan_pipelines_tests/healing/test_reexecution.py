"""Re-execution from failure, as Dagster's button does it, is safe at every op."""

import json
from typing import Any
from uuid import UUID

import pytest
from dagster import DagsterEventType, DagsterInstance, RunRequest

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines.orchestration.pointers import POINTERS
from pramaan_pipelines_tests.healing.bench import GATES as HEALING_GATES
from pramaan_pipelines_tests.healing.bench import Healing, Kept, KeptRun
from pramaan_pipelines_tests.orchestration.bench import GATES, Rail, before
from pramaan_pipelines_tests.support.first_line import first_line
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE, body

AFTER_THE_CLAIM = ("invoke", "release", "acknowledge")
STARTED = ("started", "release")


@pytest.fixture
def kept(rail: Rail) -> Kept:
    """The rail's instance, whose runs can be re-executed."""
    return Kept(rail.instance)


def pointers_of(run: KeptRun) -> dict[str, dict[str, Any]]:
    """Return what the event log keeps of each op's output."""
    kept: dict[str, dict[str, Any]] = {}
    for event in run.result.all_events:
        if event.event_type is DagsterEventType.HANDLED_OUTPUT:
            data: Any = event.event_specific_data
            kept[str(event.step_key)] = json.loads(data.metadata[POINTERS].value)
    return kept


def delivered(rail: Rail) -> tuple[RunRequest, UUID]:
    matter = rail.world.matter(rail.world.firm_a)
    rail.send(body(rail.world.firm_a, matter))
    return run_request(rail.receive()), matter


def broken_once(monkeypatch: pytest.MonkeyPatch, gate: str, rail: Rail) -> None:
    """Let the first run fail at `gate`; for the invoke it is the agent that fails."""
    if gate == "invoke":
        rail.agent.failures = 4
        return
    if gate == "parse":
        real, left = QueueConsumer.hold, [1]

        def hold(self: QueueConsumer, receipt: str) -> bool:
            if left:
                left.pop()
                raise RuntimeError("out")
            return real(self, receipt)

        monkeypatch.setattr(QueueConsumer, "hold", hold)
        return

    def out() -> None:
        raise DestinationError("out.")

    before(monkeypatch, gate, out)


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("gate", GATES)
def test_a_message_s_run_that_failed_at_any_op_is_re_executed_to_a_good_end(
    kept: Kept, rail: Rail, gate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each passed gate stays passed; there is one agent run, and the message is gone."""
    request, matter = delivered(rail)
    broken_once(monkeypatch, gate, rail)
    first = kept.first(request)
    assert first.failed == [gate]
    second = kept.from_failure(first)
    assert second.result.success
    assert second.outcome == STARTED
    assert second.tags.get(names.TAG_REASON, "mended") == "mended", "no reason of the first run"
    assert second.ran == list(GATES[GATES.index(gate) :])
    (run,) = rail.world.runs(matter)
    assert run["status"] == "succeeded"
    invoked = {str(payload.agent_run_id) for payload in rail.agent.payloads}
    assert invoked == {run["id"]}
    assert rail.depth().total == 0


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("gate", ["dedupe", *AFTER_THE_CLAIM])
def test_a_re_execution_beside_the_redelivered_message_makes_no_second_agent_run(
    kept: Kept, rail: Rail, gate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook handed the message back; it and the button meet, in either order."""
    request, matter = delivered(rail)
    broken_once(monkeypatch, gate, rail)
    monkeypatch.setattr(
        "pramaan_pipelines.orchestration.deliveries.redelivery_delay", lambda **_: 0
    )
    first = kept.first(request)
    assert first.failed == [gate]
    again = kept.first(run_request(rail.receive()))
    assert again.outcome == (STARTED if gate == "dedupe" else ("duplicate", "dedupe"))
    late = kept.from_failure(first)
    assert late.result.success
    assert late.outcome == (("duplicate", "dedupe") if gate == "dedupe" else STARTED)
    (run,) = rail.world.runs(matter)
    assert run["status"] == "succeeded"
    assert {str(payload.agent_run_id) for payload in rail.agent.payloads} == {run["id"]}
    assert rail.depth().total == 0


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("gate", ["invoke", "release"])
def test_a_re_execution_after_the_sweep_and_the_healing_changes_nothing(
    kept: Kept, healing: Healing, gate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10: pressed an hour later, it finds its fence gone."""
    rail = healing.rail
    request, matter = delivered(rail)
    broken_once(monkeypatch, gate, rail)
    first = kept.first(request)
    assert first.failed == [gate]
    healing.die(matter)
    assert [run.outcome for run in healing.heal()] == [STARTED]
    seen = (healing.job(matter), healing.world.runs(matter))
    invokes = len(rail.agent.payloads)
    late = kept.from_failure(first)
    assert late.result.success
    assert late.outcome == (("claim_lost", "invoke") if gate == "invoke" else STARTED)
    assert (healing.job(matter), healing.world.runs(matter)) == seen
    assert len(rail.agent.payloads) == invokes


@pytest.mark.usefixtures("no_pause")
def test_a_re_execution_of_a_re_execution_finds_the_first_run_s_pointers(
    kept_instance: DagsterInstance, rail: Rail
) -> None:
    """On an instance that keeps its event log on a disk."""
    kept = Kept(kept_instance)
    rail.agent.failures = 8
    request, matter = delivered(rail)
    first = kept.first(request)
    second = kept.from_failure(first)
    assert (first.failed, second.failed, second.ran) == (["invoke"], ["invoke"], [])
    third = kept.from_failure(second)
    assert third.outcome == STARTED
    assert len(rail.world.runs(matter)) == 1
    assert len({payload.agent_run_id for payload in rail.agent.payloads}) == 1


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("gate", ["coherence", "consent", "claim", *AFTER_THE_CLAIM[:2]])
def test_a_healing_run_that_failed_is_re_executed_to_a_good_end(
    kept: Kept, healing: Healing, gate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rail = healing.rail
    matter = rail.world.matter(rail.world.firm_a)
    rail.deliver(body(rail.world.firm_a, matter))
    rail.world.god.execute(
        "UPDATE ops.matter_frame_jobs SET run_status = 'failed', failed_tries = 1"
    )
    (request,) = healing.tick().run_requests or []
    rail.agent.payloads.clear()
    broken_once(monkeypatch, gate, rail)
    first = kept.first(request, healing=True)
    assert first.failed == [gate]
    second = kept.from_failure(first, healing=True)
    assert second.outcome == STARTED
    assert second.ran == list(HEALING_GATES[HEALING_GATES.index(gate) :])
    assert len(rail.world.runs(matter)) == 2
    assert healing.framed(matter)


def test_a_claim_that_was_committed_before_the_run_failed_is_found_as_a_duplicate(
    kept: Kept, healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's answer was lost behind the commit; the sweep and the healing do the rest."""
    rail = healing.rail
    request, matter = delivered(rail)
    real = FrameJobClaims.claim

    def lost(*args: object) -> None:
        real(*args)  # type: ignore[arg-type]
        raise DestinationError("out.")

    with monkeypatch.context() as patched:
        patched.setattr(FrameJobClaims, "claim", lost)
        first = kept.first(request)
    assert first.failed == ["claim"]
    second = kept.from_failure(first)
    assert second.outcome == ("duplicate", "claim")
    assert rail.agent.payloads == []
    healing.die(matter)
    assert [run.outcome for run in healing.heal()] == [STARTED]
    assert healing.framed(matter)


def leaves(value: Any, name: str = "") -> set[str]:
    """Return the names of all single values in `value`."""
    if not isinstance(value, dict):
        return {name}
    return {leaf for key, inner in value.items() for leaf in leaves(inner, key)}


def test_the_pointers_stand_in_the_event_log_and_hold_ids_only(kept: Kept, rail: Rail) -> None:
    request, _ = delivered(rail)
    pointers = pointers_of(kept.first(request))
    assert list(pointers) == list(GATES[:-1])
    ids = {"firm_id", "matter_id", "event_id", "id", "agent_run_id", "generation"}
    beside = {"kind", "type", "event_type", "schema_version", "environment", "occurred_at"}
    trace, ends = {"traceparent", "tracestate"}, {"outcome", "gate", "receipt_handle"}
    assert leaves(pointers) <= ids | beside | trace | ends


def test_an_envelope_s_pointer_is_the_validated_envelope(kept: Kept, rail: Rail) -> None:
    request, matter = delivered(rail)
    run = kept.first(request)
    found = pointers_of(run)["parse"]
    assert set(found) == {"kind", "envelope", "receipt_handle"}
    assert found["envelope"]["subject"] == {"type": "matter", "id": str(matter)}
    assert (found["envelope"]["traceparent"], found["envelope"]["tracestate"]) == (
        TRACEPARENT,
        TRACESTATE,
    )


@pytest.mark.usefixtures("no_pause")
def test_a_run_whose_events_were_purged_says_to_re_execute_the_whole(
    kept: Kept, rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    rail.agent.failures = 4
    request, _ = delivered(rail)
    first = kept.first(request)
    real = DagsterInstance.all_logs

    def purged(self: DagsterInstance, run_id: str, of_type: object = None) -> object:
        return [] if of_type is DagsterEventType.HANDLED_OUTPUT else real(self, run_id)

    monkeypatch.setattr(DagsterInstance, "all_logs", purged)
    second = kept.from_failure(first)
    assert second.failed == ["invoke"]
    told = first_line(kept.instance, second.result)
    assert "is not in the event log any more. Re-execute the whole run" in told
    assert second.tags[names.TAG_REASON] == "output_gone"
    assert len(rail.agent.payloads) == 4


def test_a_whole_re_execution_of_a_run_that_ended_well_is_a_duplicate(
    kept: Kept, rail: Rail
) -> None:
    """The receipt is stale; that is logged, and the run goes on to its end."""
    request, matter = delivered(rail)
    assert kept.first(request).outcome == STARTED
    again = kept.first(request)
    assert again.outcome == ("duplicate", "dedupe")
    assert len(rail.world.runs(matter)) == 1
    warnings = [
        entry.user_message
        for entry in kept.instance.all_logs(again.result.run_id)
        if entry.level == 30
    ]
    assert any("receipt is no longer good" in warning for warning in warnings)
