"""What fails, rather than is refused: red where it failed, and the message comes again."""

import json
import time
from typing import cast
from uuid import UUID, uuid4

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration import names
from pramaan_pipelines_tests.orchestration.bench import GATES, FramerRun, Rail, before
from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE, body

SECRET = "hunter2-do-not-show"


def the_span(spans: InMemorySpanExporter) -> ReadableSpan:
    (span,) = spans.get_finished_spans()
    return span


def mine(rail: Rail) -> tuple[UUID, str]:
    """A matter of firm A, and an envelope for it."""
    matter = rail.world.matter(rail.world.firm_a)
    return matter, body(rail.world.firm_a, matter)


def test_the_agent_gets_exactly_five_keys_after_the_run_row_was_committed(rail: Rail) -> None:
    """EB-02."""
    matter, text = mine(rail)
    rail.agent.look = lambda: rail.world.runs(matter)  # through another connection
    rail.deliver(text)
    (payload,) = rail.agent.payloads
    assert list(payload.model_dump()) == [
        "firm_id",
        "matter_id",
        "agent_run_id",
        "traceparent",
        "tracestate",
    ]
    ((row,),) = cast("list[list[dict[str, str]]]", rail.agent.seen)
    assert (row["id"], row["status"]) == (str(payload.agent_run_id), "running")
    assert (payload.firm_id, payload.matter_id) == (rail.world.firm_a, matter)
    assert json.loads(text)["event_id"] not in payload.model_dump_json()


def test_the_trace_of_the_producer_reaches_the_run_row_and_the_agent(
    rail: Rail, spans: InMemorySpanExporter
) -> None:
    """EB-04: the consume span continues the envelope's context, and is what the agent continues."""
    matter, text = mine(rail)
    rail.deliver(text)
    span = the_span(spans)
    _, trace_id, parent_id, _ = TRACEPARENT.split("-")
    assert span.name == "functions.framer_trigger.consume"
    assert span.kind is SpanKind.CONSUMER
    assert span.parent is not None
    assert span.context is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (trace_id, parent_id)
    assert span.parent.is_remote
    assert span.attributes == {"firm_id": str(rail.world.firm_a), "event.type": "matter.created"}
    assert span.status.status_code is StatusCode.UNSET
    (payload,) = rail.agent.payloads
    assert payload.traceparent is not None
    assert payload.traceparent.split("-")[1:3] == [trace_id, f"{span.context.span_id:016x}"]
    assert payload.tracestate == TRACESTATE
    (row,) = rail.world.runs(matter)
    assert (row["traceparent"], row["tracestate"]) == (payload.traceparent, TRACESTATE)


def test_a_refusal_marks_the_one_span_with_its_reason(
    rail: Rail, spans: InMemorySpanExporter
) -> None:
    run = rail.deliver("not an envelope")
    assert run.failed == ["parse"]
    span = the_span(spans)
    assert span.parent is None
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes == {
        "firm_id": "unknown",
        "event.type": "unknown",
        "error.type": "malformed",
    }


@pytest.mark.usefixtures("no_pause")
def test_an_agent_that_fails_twice_is_asked_again_with_the_same_agent_run(
    rail: Rail, spans: InMemorySpanExporter
) -> None:
    """EB-02: one run row; the agent dedupes by its id. An end that is good is told as good."""
    rail.agent.failures = 2
    matter, text = mine(rail)
    run = rail.deliver(text)
    assert run.result.success
    assert run.outcome == ("started", "release")
    (row,) = rail.world.runs(matter)
    assert [str(payload.agent_run_id) for payload in rail.agent.payloads] == [row["id"]] * 3
    assert row["status"] == "succeeded"
    assert rail.depth().total == 0
    assert names.TAG_REASON not in run.tags
    assert the_span(spans).status.status_code is StatusCode.UNSET


@pytest.mark.usefixtures("no_pause")
def test_an_agent_that_is_out_leaves_the_job_running_until_its_lease_is_over(
    rail: Rail, spans: InMemorySpanExporter
) -> None:
    """The run is red at invoke; the message comes again after a pause, and ends as a duplicate."""
    rail.agent.failures = 100
    matter, text = mine(rail)
    run = rail.deliver(text)
    assert (run.result.success, run.failed) == (False, ["invoke"])
    assert run.ran == list(GATES[:6])
    assert "acknowledge" not in run.started
    assert len(rail.agent.payloads) == 4  # bounded
    assert len({payload.agent_run_id for payload in rail.agent.payloads}) == 1
    line, metadata = run.failure("invoke")
    assert line.startswith("failed at invoke: ConnectionError: the runtime is out.")
    assert metadata == {"reason": "ConnectionError"}
    assert run.outcome == (None, "invoke")
    assert run.tags[names.TAG_REASON] == "ConnectionError"
    assert the_span(spans).attributes["error.type"] == "ConnectionError"  # type: ignore[index]
    job = rail.world.job(matter)
    assert job is not None
    assert job["run_status"] == "running"
    assert [row["status"] for row in rail.world.runs(matter)] == ["running"]
    handed_back_with_a_pause(rail)


@pytest.mark.usefixtures("no_pause")
def test_a_claim_that_is_lost_between_two_tries_of_the_invoke_is_not_invoked_again(
    rail: Rail,
) -> None:
    """H10: each try looks at the fence."""
    matter, text = mine(rail)
    rail.agent.failures = 1

    def taken_over() -> None:
        rail.lease_over(matter)
        rail.claimed_elsewhere(rail.world.firm_a, matter, uuid4())

    rail.agent.look = taken_over
    run = rail.deliver(text)
    assert run.outcome == ("claim_lost", "invoke")
    assert len(rail.agent.payloads) == 1


def test_a_run_that_waited_for_its_place_has_its_message_for_a_whole_timeout_again(
    rail: Rail,
) -> None:
    """Else the message would be delivered elsewhere while its run is at work."""
    _, text = mine(rail)
    rail.send(text)
    message = rail.receive()
    rail.queue.hand_back(message.receipt_handle, 2)  # nearly the end of its time-out
    visible: list[int] = []

    def work() -> None:
        time.sleep(2.2)
        visible.append(len(rail.queue.receive(1, 0)))

    rail.agent.look = work
    assert rail.run(message).outcome == ("started", "release")
    assert visible == [0]
    assert rail.depth().total == 0


def handed_back_with_a_pause(rail: Rail) -> None:
    """Check that the message is neither gone nor visible at once."""
    depth = rail.depth()
    assert depth.total == 1
    assert depth.visible == 0
    assert rail.queue.receive(1, 0) == []


def test_a_failure_pauses_the_message_longer_each_time(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[int] = []
    real = QueueConsumer.hand_back

    def noted(self: object, receipt_handle: str, delay_seconds: int = 0) -> bool:
        pauses.append(delay_seconds)
        return real(self, receipt_handle, 0)  # type: ignore[arg-type]

    monkeypatch.setattr(QueueConsumer, "hand_back", noted)
    monkeypatch.setattr(QueueConsumer, "hold", lambda *_: True)  # hands back to itself
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    _, text = mine(rail)
    rail.send(text)
    for _ in range(3):
        assert rail.run(rail.receive()).failed == ["dedupe"]
    assert 0 < pauses[0] < pauses[1] < pauses[2]


def told_and_handed_back(rail: Rail, run: FramerRun, gate: str) -> None:
    """Check what a failure shows: where, why, what happens next; and no password anywhere."""
    assert (run.result.success, run.failed) == (False, [gate])
    assert run.ran == list(GATES[: GATES.index(gate)])
    line, metadata = run.failure(gate)
    kind = metadata["reason"]
    assert kind in {"DatabaseUnavailableError", "OperationalError"}
    assert line.startswith(f"failed at {gate}: {kind}: ")
    assert ".." not in line
    assert "comes again after a pause" in line
    assert metadata == {"reason": kind}
    assert run.tags[names.TAG_REASON] == kind
    assert run.outcome == (None, gate)
    assert SECRET not in run.everything_stored()
    handed_back_with_a_pause(rail)


def test_a_database_that_cannot_be_reached_fails_the_run_at_the_first_gate_that_needs_it(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"postgresql://pramaan_app:{SECRET}@127.0.0.1:{free_port()}/none"
    monkeypatch.setenv("DATABASE_URL", url)
    _, text = mine(rail)
    told_and_handed_back(rail, rail.deliver(text), "dedupe")
    assert rail.world.rows("SELECT 1 FROM ops.matter_frame_jobs") == []


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("gate", ["coherence", "consent", "claim", "invoke", "release"])
def test_a_database_that_goes_away_fails_the_run_at_the_gate_where_it_stood(
    rail: Rail, gate: str, monkeypatch: pytest.MonkeyPatch, database_name: str
) -> None:
    def gone() -> None:
        god = rail.world.god
        god.execute(f'ALTER DATABASE "{database_name}" CONNECTION LIMIT 0')
        god.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND usename = 'pramaan_app'"
        )

    matter, text = mine(rail)
    before(monkeypatch, gate, gone)
    told_and_handed_back(rail, rail.deliver(text), gate)
    assert len(rail.world.runs(matter)) == (1 if gate in {"invoke", "release"} else 0)
    assert len(rail.agent.payloads) == (1 if gate == "release" else 0)


def test_a_queue_that_is_out_at_the_acknowledgement_fails_the_run_and_costs_nothing_else(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was committed: the message comes again, ends as a duplicate, and is deleted then."""
    matter, text = mine(rail)

    rail.send(text)
    message = rail.receive()
    with monkeypatch.context() as patched:

        def out(*_: object) -> bool:
            patched.setattr(QueueConsumer, "hand_back", out)
            raise DestinationError("Queue framer: out.")

        patched.setattr(QueueConsumer, "delete", out)
        run = rail.run(message)
    assert (run.ran, run.failed) == (list(GATES[:-1]), ["acknowledge"])
    assert run.failure("acknowledge")[0].startswith(
        "failed at acknowledge: DestinationError: Queue framer: out. A message"
    )
    assert run.hook_errors() == ["acknowledge"]
    assert [row["status"] for row in rail.world.runs(matter)] == ["succeeded"]
    rail.queue.hand_back(message.receipt_handle)
    assert rail.run(rail.receive()).outcome == ("duplicate", "dedupe")
    assert len(rail.agent.payloads) == 1
    assert rail.depth().total == 0


def test_a_missing_setting_fails_the_run_and_names_the_variable(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL")
    _, text = mine(rail)
    run = rail.deliver(text)
    assert not run.result.success
    assert run.started == []
    assert "DATABASE_URL is not set. Run `pramaan up`" in run.everything_stored()
    assert rail.depth().total == 1
