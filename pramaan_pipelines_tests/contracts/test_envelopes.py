"""HR-21: what a stranger may put on the queue, and what becomes of it."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pramaan_pipelines.contracts.envelopes import (
    MAX_BODY_BYTES,
    MatterCreated,
    parse_matter_created,
    pointer_body,
)
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, RefusalReason
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE, body, envelope

FIRM = UUID("11111111-1111-4111-8111-111111111111")
MATTER = UUID("22222222-2222-4222-8222-222222222222")
MARKER = "PRIVILEGED Client & Matter"
GOOD: dict[str, Any] = json.loads(body(FIRM, MATTER))
SUBJECT: dict[str, Any] = GOOD["subject"]
WRAPPER: dict[str, Any] = {
    "version": "0",
    "id": str(uuid4()),
    "detail-type": "matter.created",
    "source": "pramaan",
    "account": "000000000000",
    "time": "2026-01-01T00:00:00Z",
    "region": "us-east-1",
    "resources": [],
}


def wrapped(detail: object, **changes: object) -> str:
    return json.dumps({**WRAPPER, "detail": detail, **changes})


def changed(**changes: object) -> str:
    return json.dumps({**GOOD, **changes})


def without(name: str) -> str:
    return json.dumps({key: value for key, value in GOOD.items() if key != name})


def names(places: tuple[str, ...]) -> set[str]:
    """Return where the errors are, without their kinds."""
    return {place.split(" (")[0] if not place.startswith("body") else place for place in places}


def refused_at(text: str) -> set[str]:
    with pytest.raises(EnvelopeRefusedError) as caught:
        parse_matter_created(text)
    assert caught.value.reason is RefusalReason.MALFORMED
    return names(caught.value.places)


HOSTILE = {
    "nothing": ("", "body (not JSON)"),
    "not JSON": (MARKER, "body (not JSON)"),
    "half of a JSON": (body(FIRM, MATTER)[:-1], "body (not JSON)"),
    "two JSONs": (body(FIRM, MATTER) * 2, "body (not JSON)"),
    "a byte order mark": ("\ufeff" + body(FIRM, MATTER), "body (not JSON)"),
    "NUL around it": ("\x00" + body(FIRM, MATTER), "body (not JSON)"),
    "single quotes": (str(GOOD), "body (not JSON)"),
    "a list": (json.dumps([GOOD]), "body (not an object)"),
    "a text": (json.dumps(MARKER), "body (not an object)"),
    "null": ("null", "body (not an object)"),
    "a number": ("1", "body (not an object)"),
    "a huge number": ("9" * 5000, "body (not JSON)"),
    "a huge number inside": (f'{{"event_id": {"9" * 5000}}}', "body (not JSON)"),
    "deep objects": ('{"a":' * 40_000, "body (not JSON)"),
    "deep lists": ("[" * 100_000, "body (not JSON)"),
    "deep and closed": ('{"a":' * 20_000 + "1" + "}" * 20_000, "body (not JSON)"),
    "NaN": (changed(occurred_at=float("nan")), "body (NaN or Infinity)"),
    "Infinity": (changed(schema_version=float("-inf")), "body (NaN or Infinity)"),
    "300 kB": (changed(environment="x" * 300_000), "body (over 256 KiB)"),
    "256 KiB in bytes only": (changed() + "\u00e4" * 140_000, "body (over 256 KiB)"),
    "duplicate keys": (changed()[:-1] + f', "firm_id": "{uuid4()}"}}', "body (duplicate keys)"),
    "duplicate keys below": (
        changed(subject=0).replace(
            '"subject": 0', f'"subject": {{"type": "matter", "id": "{MATTER}", "id": "{uuid4()}"}}'
        ),
        "body (duplicate keys)",
    ),
    "a lone surrogate as a key": (
        changed(environment=MARKER, **{"\ud800": 1}),
        "body (a key is not Unicode)",
    ),
    "a lone surrogate as a key below": (
        changed(subject={**SUBJECT, "\udfff": 1}),
        "body (a key is not Unicode)",
    ),
    "an unknown field": (changed(title=MARKER), "<unknown>"),
    "a field called by a stranger": (changed(**{MARKER: 1}), "<unknown>"),
    "an unknown field below": (changed(subject={**SUBJECT, MARKER: 1}), "subject.<unknown>"),
    "upper-case UUID": (changed(firm_id=str(uuid4()).upper().replace("0", "A")), "firm_id"),
    "braced UUID": (changed(firm_id=f"{{{uuid4()}}}"), "firm_id"),
    "UUID as a URN": (changed(firm_id=f"urn:uuid:{uuid4()}"), "firm_id"),
    "UUID without hyphens": (changed(firm_id=uuid4().hex), "firm_id"),
    "UUID with a line end": (changed(event_id=f"{uuid4()}\n"), "event_id"),
    "UUID with a NUL": (changed(event_id=f"{uuid4()}\x00"), "event_id"),
    "homoglyph digits": (
        changed(event_id="\uff11" * 8 + "-1111-4111-8111-111111111111"),
        "event_id",
    ),
    "Arabic digits": (changed(event_id="\u0661" * 8 + "-1111-4111-8111-111111111111"), "event_id"),
    "UUID as a number": (changed(event_id=uuid4().int), "event_id"),
    "UUID as a list": (changed(event_id=[str(uuid4())]), "event_id"),
    "no UUID": (changed(event_id=None), "event_id"),
    "another event": (changed(event_type="document.ingest.requested"), "event_type"),
    "an unknown event": (changed(event_type=MARKER), "event_type"),
    "an event in capitals": (changed(event_type="MATTER.CREATED"), "event_type"),
    "version 2": (changed(schema_version=2), "schema_version"),
    "version 1.0": (changed(schema_version=1.0), "schema_version"),
    "version true": (changed(schema_version=True), "schema_version"),
    "version as text": (changed(schema_version="1"), "schema_version"),
    "no environment": (changed(environment=""), "environment"),
    "an environment with a line end": (changed(environment="test\n"), "environment"),
    "an environment with a NUL": (changed(environment="te\x00st"), "environment"),
    "an environment of bytes that are none": (changed(environment="\ud800"), "environment"),
    "an environment in homoglyphs": (changed(environment="t\u0435st"), "environment"),
    "a long environment": (changed(environment="t" * 32), "environment"),
    "an environment as a list": (changed(environment=["test"]), "environment"),
    "no time": (changed(occurred_at=None), "occurred_at"),
    "a time as a number": (changed(occurred_at=1_700_000_000), "occurred_at"),
    "a time as a number in quotes": (changed(occurred_at="1700000000"), "occurred_at"),
    "a time without a zone": (changed(occurred_at="2026-01-01T00:00:00"), "occurred_at"),
    "a date": (changed(occurred_at="2026-01-01"), "occurred_at"),
    "no such day": (changed(occurred_at="2026-02-30T00:00:00Z"), "occurred_at"),
    "no such zone": (changed(occurred_at="2026-01-01T00:00:00+99:99"), "occurred_at"),
    "a time with a story": (changed(occurred_at=f"2026-01-01T00:00:00Z {MARKER}"), "occurred_at"),
    "a time with endless digits": (
        changed(occurred_at=f"2026-01-01T00:00:00.{'7' * 200}Z"),
        "occurred_at",
    ),
    "a subject that is a text": (changed(subject=str(MATTER)), "subject"),
    "a subject that is a list": (changed(subject=[SUBJECT]), "subject"),
    "no subject": (changed(subject=None), "subject"),
    "an empty subject": (changed(subject={}), "subject.id"),
    "another kind of subject": (changed(subject={**SUBJECT, "type": "document"}), "subject.type"),
    "a subject without its kind": (changed(subject={"id": str(MATTER)}), "subject.type"),
    "a wrapper of another event": (
        wrapped(GOOD, **{"detail-type": "document.ingest.requested"}),
        "detail-type",
    ),
    "a wrapper that lies": (wrapped(GOOD, **{"detail-type": MARKER}), "detail-type"),
    "a wrapper of a number": (wrapped(GOOD, **{"detail-type": 1}), "detail-type"),
    "a wrapper of null": (wrapped(GOOD, **{"detail-type": None}), "detail-type"),
    "a wrapper without detail": (json.dumps(WRAPPER), "detail"),
    "a wrapper around a text": (wrapped(json.dumps(GOOD)), "detail"),
    "a wrapper around a list": (wrapped([GOOD]), "detail"),
    "a wrapper around a wrapper": (wrapped(json.loads(wrapped(GOOD))), "detail.<unknown>"),
    "a stranger inside a wrapper": (wrapped({**GOOD, MARKER: 1}), "detail.<unknown>"),
    "a wrapped envelope that is bad": (wrapped({**GOOD, "firm_id": MARKER}), "detail.firm_id"),
    "an envelope with a wrapper's field": (changed(**{"detail-type": "matter.created"}), "detail"),
    **{f"without {name}": (without(name), name) for name in GOOD if not name.startswith("trace")},
}


@pytest.mark.parametrize(("text", "place"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hr21_a_hostile_body_is_refused_at_its_place_and_no_value_of_it_is_told(
    text: str, place: str
) -> None:
    with pytest.raises(EnvelopeRefusedError) as caught:
        parse_matter_created(text)
    assert caught.value.reason is RefusalReason.MALFORMED
    assert place in names(caught.value.places)
    assert caught.value.places == tuple(sorted(set(caught.value.places)))
    for shown in (str(caught.value), repr(caught.value), pointer_body(text)):
        assert "PRIVILEGED" not in shown
        assert len(shown) < 2000
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("text", [text for text, _ in HOSTILE.values()], ids=HOSTILE.keys())
def test_hr21_the_pointer_of_a_refused_body_is_refused_at_the_same_places(text: str) -> None:
    pointer = pointer_body(text)
    assert refused_at(pointer) == refused_at(text)
    assert refused_at(pointer_body(pointer)) == refused_at(text)
    pointer.encode()
    assert "\x00" not in pointer


VALID: dict[str, str] = {
    "plain": changed(),
    "wrapped": wrapped(GOOD),
    "wrapped, with a stranger around it": wrapped(GOOD, later=MARKER),
    "without a trace": json.dumps({k: v for k, v in GOOD.items() if "trace" not in k}),
    "with a trace of nothing": changed(traceparent=None, tracestate=None),
    "with another zone": changed(occurred_at="2026-01-01T00:00:00.5+05:30"),
    "with Postgres's digits": changed(occurred_at="2026-01-01T00:00:00.123456+00:00"),
    "with white space": json.dumps(GOOD, indent=4) + "\n",
    "as large as may be": changed().ljust(MAX_BODY_BYTES),
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_hr21_the_pointer_of_a_valid_body_is_the_same_envelope(text: str) -> None:
    parsed = parse_matter_created(text)
    pointer = pointer_body(text)
    assert parse_matter_created(pointer) == parsed
    assert parsed.firm_id == FIRM
    assert parsed.matter_id == MATTER
    assert "PRIVILEGED" not in pointer
    assert pointer_body(pointer) == pointer


def test_an_envelope_comes_out_as_it_went_in() -> None:
    sent = envelope(FIRM, MATTER)
    assert parse_matter_created(sent.model_dump_json()) == sent
    assert sent.trace == (TRACEPARENT, TRACESTATE)
    with pytest.raises(ValueError, match="frozen"):
        sent.firm_id = MATTER  # type: ignore[misc]


ABSURD_TRACES: list[object] = [
    "",
    "none",
    MARKER,
    0,
    1.5,
    True,
    [],
    {},
    [TRACEPARENT],
    {"traceparent": TRACEPARENT},
    TRACEPARENT.upper(),
    TRACEPARENT + "\n",
    TRACEPARENT + "-00",
    " " + TRACEPARENT,
    TRACEPARENT[:-1],
    "ff" + TRACEPARENT[2:],
    "00-" + "0" * 32 + TRACEPARENT[35:],
    TRACEPARENT[:36] + "0" * 16 + "-03",
    TRACEPARENT[:3] + "\uff11" + TRACEPARENT[4:],
    "\ud800",
    "\x00",
    "0" * 100_000,
]


@pytest.mark.parametrize("wrap", [changed, lambda **c: wrapped({**GOOD, **c})])
@pytest.mark.parametrize("trace", ABSURD_TRACES)
def test_an_absurd_traceparent_is_no_parent_and_never_an_error(
    trace: object, wrap: Callable[..., str]
) -> None:
    """EB-04."""
    text = wrap(traceparent=trace)
    parsed = parse_matter_created(text)
    assert parsed.trace == (None, None)
    assert "PRIVILEGED" not in pointer_body(text)
    assert parse_matter_created(pointer_body(text)) == parsed


@pytest.mark.parametrize(
    "state",
    ["", 1, [], {}, MARKER, "a", "a=", "=a", "a=1\n", "a=\u00e4", "a=1," * 200, "A=1", "\ud800"],
)
def test_an_absurd_tracestate_is_dropped_and_the_parent_kept(state: object) -> None:
    """EB-04. A sentence is no tracestate: nothing that a person wrote travels in it."""
    text = changed(tracestate=state)
    assert parse_matter_created(text).trace == (TRACEPARENT, None)
    assert "PRIVILEGED" not in pointer_body(text)


ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=20)
KEYS = st.sampled_from([*GOOD, "type", "id", "detail", "detail-type", "\ud800"]) | ANY_TEXT
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.sampled_from([*GOOD.values(), MARKER, "matter", "matter.created", str(MATTER)]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=12,
)
PLANTED = st.sampled_from([MARKER, [MARKER], {MARKER: MARKER}, {"id": MARKER}, {"type": MARKER}])


@st.composite
def near_envelopes(draw: st.DrawFn) -> str:
    """An envelope, wrapped or not, with a few fields changed, planted or gone."""
    value = {**GOOD, "subject": {**SUBJECT}}
    for part in (value, value["subject"]):
        part.update(draw(st.dictionaries(KEYS, VALUES | PLANTED, max_size=2)))
        for name in draw(st.sets(st.sampled_from(sorted(part)), max_size=1)):
            del part[name]
    if draw(st.booleans()):
        value = {**WRAPPER, "detail": value}
        value.update(draw(st.dictionaries(KEYS, VALUES | PLANTED, max_size=2)))
    return json.dumps(value)


@settings(max_examples=400, deadline=None)
@given(near_envelopes() | VALUES.map(json.dumps) | ANY_TEXT.map(lambda text: text + MARKER))
def test_hr21_whatever_comes_is_an_envelope_or_a_refusal_and_tells_nothing(text: str) -> None:
    pointer = pointer_body(text)
    assert "PRIVILEGED" not in pointer
    pointer.encode()
    parsed = parsed_or_refused(text)
    if isinstance(parsed, EnvelopeRefusedError):
        assert "PRIVILEGED" not in str(parsed)
        assert refused_at(pointer) == names(parsed.places)
    else:
        assert parse_matter_created(pointer) == parsed


def parsed_or_refused(text: str) -> MatterCreated | EnvelopeRefusedError:
    try:
        return parse_matter_created(text)
    except EnvelopeRefusedError as refused:
        return refused
