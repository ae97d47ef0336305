"""Bad input: each kind ends at one gate, leaves no row, and is dead after three deliveries."""

import json
import re
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.consume_span import delivery_of
from pramaan_pipelines_tests.orchestration.bench import GATES, FramerRun, Rail, before
from pramaan_pipelines_tests.support.world import body

Bad = Callable[[Rail], str]


def _changed(**changes: object) -> Bad:
    """An envelope of firm A for its own matter, changed."""
    return lambda rail: body(rail.world.firm_a, rail.world.matter(rail.world.firm_a), **changes)


def _foreign(rail: Rail) -> str:
    return body(rail.world.firm_b, rail.world.matter(rail.world.firm_a))


def _missing_field(rail: Rail) -> str:
    whole = json.loads(_changed()(rail))
    del whole["event_id"]
    return json.dumps(whole)


BAD: dict[str, tuple[Bad, str, str, list[str]]] = {
    "malformed JSON": (
        lambda _: '{"event_id": ',
        "parse",
        "malformed",
        ["body (not JSON)"],
    ),
    "an empty text": (lambda _: " ", "parse", "malformed", ["body (not JSON)"]),
    "not an object": (lambda _: "[1, 2]", "parse", "malformed", ["body (not an object)"]),
    "duplicate keys": (
        lambda _: '{"event_id": 1, "event_id": 2}',
        "parse",
        "malformed",
        ["body (duplicate keys)"],
    ),
    "an unknown field": (
        _changed(title="a title"),
        "parse",
        "malformed",
        ["<unknown> (extra_forbidden)"],
    ),
    "a field that is absent": (_missing_field, "parse", "malformed", ["event_id (missing)"]),
    "an unknown event type": (
        _changed(event_type="matter.deleted"),
        "parse",
        "malformed",
        ["event_type (literal_error)"],
    ),
    "a version to come": (
        _changed(schema_version=2),
        "parse",
        "malformed",
        ["schema_version (literal_error)"],
    ),
    "300 kB": (lambda _: "x" * 300_000, "parse", "malformed", ["body (over 256 KiB)"]),
    "another environment": (
        _changed(environment="production"),
        "environment",
        "wrong_environment",
        ["environment"],
    ),
    "a firm that does not exist": (
        lambda rail: body(uuid4(), rail.world.matter(rail.world.firm_a)),
        "coherence",
        "subject_not_visible",
        ["firm_id", "subject.id"],
    ),
    "a matter that does not exist": (
        lambda rail: body(rail.world.firm_a, uuid4()),
        "coherence",
        "subject_not_visible",
        ["firm_id", "subject.id"],
    ),
    "a matter of another firm": (
        _foreign,
        "coherence",
        "subject_not_visible",
        ["firm_id", "subject.id"],
    ),
}


def refused(rail: Rail, run: FramerRun, gate: str, reason: str, places: list[str]) -> None:
    """Check what every refusal has in common."""
    passed = list(GATES[: GATES.index(gate)])
    assert not run.result.success
    assert run.ran == passed
    assert run.failed == [gate]
    assert run.started == [*passed, gate]  # neither tried twice nor gone on
    assert run.outcome == ("refused", gate)
    assert run.tags[names.TAG_REASON] == reason
    line, metadata = run.failure(gate)
    assert line.startswith(f"refused at {gate}: envelope refused ({reason}) at: ")
    assert "dead-letter queue" in line
    assert "mend the producer" in line
    assert metadata == {"outcome": "refused", "reason": reason, "places": sorted(places)}
    assert run.hook_errors() == []
    assert rail.world.rows("SELECT 1 FROM ops.matter_frame_jobs") == []
    assert rail.world.rows("SELECT 1 FROM agents.agent_run") == []
    assert rail.agent.payloads == []


@pytest.mark.parametrize(("bad", "gate", "reason", "places"), BAD.values(), ids=BAD)
def test_bad_input_ends_at_its_gate_without_a_row_and_on_the_dead_letter_queue(
    rail: Rail, bad: Bad, gate: str, reason: str, places: list[str]
) -> None:
    """HR-21, EB-09, EB-17, EB-06: handed back at once each time, so that it takes no time-out."""
    text = bad(rail)
    rail.send(text)
    for count in (1, 2, 3):
        (message,) = rail.queue.receive(1, 0)  # visible at once
        assert message.receive_count == count
        refused(rail, rail.run(message), gate, reason, places)
    assert rail.queue.receive(1, 0) == []
    assert rail.depth().total == 0
    (dead,) = rail.queue.dead_letters().receive(1, 2)
    assert dead.body == text


@pytest.mark.parametrize(
    "trace",
    [
        {"traceparent": "", "tracestate": ""},
        {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
        {"traceparent": "absurd " * 1000, "tracestate": "\x00"},
        {"traceparent": 17, "tracestate": {"a": []}},
        {"traceparent": None},
    ],
    ids=["empty", "zeroes", "absurd", "not a text", "null"],
)
def test_an_absurd_trace_context_is_no_parent_and_no_error(
    rail: Rail, trace: dict[str, object]
) -> None:
    """EB-04: the event is handled; a trace of its own begins."""
    matter = rail.world.matter(rail.world.firm_a)
    run = rail.deliver(body(rail.world.firm_a, matter, **trace))
    assert run.outcome == ("started", "release")
    assert re.fullmatch(r"(?!0{32})[0-9a-f]{32}", run.tags[names.TAG_TRACE]), "its own"
    (payload,) = rail.agent.payloads
    assert payload.traceparent is not None
    assert payload.tracestate is None
    assert rail.depth().total == 0


def test_a_wrapper_around_a_good_envelope_is_removed(rail: Rail) -> None:
    """HR-21: EventBridge's wrapper; what it says of itself is not looked at."""
    matter = rail.world.matter(rail.world.firm_a)
    detail = json.loads(body(rail.world.firm_a, matter))
    run = rail.deliver(json.dumps({"detail-type": "matter.created", "id": [], "detail": detail}))
    assert run.outcome == ("started", "release")
    assert run.tags[names.TAG_EVENT] == detail["event_id"]


def test_what_the_sensor_found_wanting_is_refused_even_where_the_pointers_would_pass(
    rail: Rail,
) -> None:
    """HR-21: the gate validates again, and tells the sensor's places with its own."""
    text = _changed(title="a title")(rail)
    rail.send(text)
    run = rail.run(rail.receive())
    stored = delivery_of(run.record.run_config)
    assert stored is not None
    assert stored["problems"] == ["<unknown> (extra_forbidden)"]
    assert "a title" not in stored["body"]
    refused(rail, run, "parse", "malformed", ["<unknown> (extra_forbidden)"])


def _move_away(rail: Rail, matter: UUID) -> None:
    rail.world.god.execute(
        "UPDATE matters SET firm_id = %s WHERE id = %s", [rail.world.firm_b, matter]
    )


def test_a_matter_that_goes_away_before_the_claim_is_refused_inside_the_claim(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H4, EB-17: its visibility is read again in the claim's transaction, which rolls back."""
    matter = rail.world.matter(rail.world.firm_a)
    before(monkeypatch, "claim", lambda: _move_away(rail, matter))
    run = rail.deliver(body(rail.world.firm_a, matter))
    refused(rail, run, "claim", "subject_not_visible", ["firm_id", "subject.id"])
    assert rail.depth().visible == 1


def test_a_matter_that_goes_away_before_the_invoke_is_refused_without_one(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H4: not tried again, the claim given back; the next delivery finds the event handled."""
    matter = rail.world.matter(rail.world.firm_a)
    before(monkeypatch, "invoke", lambda: _move_away(rail, matter))
    run = rail.deliver(body(rail.world.firm_a, matter))
    assert (run.outcome, run.failed) == (("refused", "invoke"), ["invoke"])
    assert run.started.count("invoke") == 1
    assert rail.agent.payloads == []
    job = rail.world.job(matter)
    assert job is not None
    assert (job["run_status"], job["rebuild_needed"]) == ("idle", False)
    assert [row["status"] for row in rail.world.runs(matter)] == ["cancelled"]
    (message,) = rail.queue.receive(1, 0)
    assert rail.run(message).outcome == ("duplicate", "dedupe")
    assert rail.depth().total == 0
