"""Forged and hostile envelopes by kind: how each is made, and where and why it is refused.

A kind is counted when it was generated and refused for its own reason; see test_envelopes.py.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final, NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.contracts.outcomes import RefusalReason
from pramaan_pipelines_tests.support.world import ENVIRONMENT, TRACEPARENT, envelope

Body = st.SearchStrategy[str]


class Ids(NamedTuple):
    """What a forger knows: two firms, and a matter of each."""

    firm_a: UUID
    matter_a: UUID
    firm_b: UUID
    matter_b: UUID


@dataclass(frozen=True)
class Kind:
    """One kind of envelope that must be refused.

    Attributes:
        make: bodies of this kind, from what a forger knows.
        places: a pattern; each place that the refusal names must match it.
        reason: why.
        gate: where.
    """

    make: Callable[[Ids], Body]
    places: str
    reason: RefusalReason = RefusalReason.MALFORMED
    gate: str = "parse"


def good(ids: Ids) -> dict[str, Any]:
    """Return the fields of an envelope of firm A for its own matter."""
    fields: dict[str, Any] = json.loads(envelope(ids.firm_a, ids.matter_a).model_dump_json())
    return fields


def wrapped(detail: object, **changes: object) -> dict[str, object]:
    """Return EventBridge's wrapper around `detail`."""
    return {
        "version": "0",
        "id": "6f0a4d0e-0000-4000-8000-000000000000",
        "detail-type": "matter.created",
        "source": "pramaan",
        "time": "2026-01-01T00:00:00Z",
        "resources": [],
        "detail": detail,
    } | changes


FIELDS: Final = ("event_id", "firm_id", "occurred_at", "event_type", "schema_version")
FIELDS_TOO: Final = (*FIELDS, "environment", "subject", "subject.type", "subject.id")
IDS: Final = ("event_id", "firm_id", "subject.id")
TEXT: Final = st.text(st.characters(codec="utf-8"), max_size=30)
OTHER_TYPES: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(max_value=-2),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda n: n != 1),
    st.lists(TEXT, max_size=3),
    st.just({}),
)
CONFUSED: Final = {
    "a": "\u0430",
    "c": "\u0441",
    "d": "\u0501",
    "e": "\u0435",
    "i": "\u0456",
    "m": "\u217f",
    "n": "\u0578",
    "o": "\u043e",
    "r": "\u0433",
    "s": "\u0455",
    "t": "\u03c4",
    "u": "\u057d",
    "v": "\u03bd",
    "0": "\uff10",
    "1": "\uff11",
    "2": "\u0662",
    "4": "\uff14",
    "8": "\uff18",
    "-": "\u2010",
    ".": "\u2024",
}
"""Letters of other scripts that look like these, and digits that Python takes for digits."""


def _changed(fields: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    name, _, inner = place.partition(".")
    return {**fields, name: {**fields[name], inner: value} if inner else value}


def _at(fields: dict[str, Any], place: str) -> str:
    name, _, inner = place.partition(".")
    return str(fields[name][inner] if inner else fields[name])


def _either_way(fields: st.SearchStrategy[dict[str, Any]]) -> Body:
    """The body as it is, and in EventBridge's wrapper."""
    return st.one_of(fields, fields.map(wrapped)).map(json.dumps)


def _field(places: tuple[str, ...], values: Callable[[str], st.SearchStrategy[Any]]) -> Any:
    """One field of a good envelope changed; `values` is given what stood there."""

    def make(ids: Ids) -> Body:
        fields = good(ids)
        return _either_way(
            st.sampled_from(places).flatmap(
                lambda place: values(_at(fields, place)).map(
                    lambda value: _changed(fields, place, value)
                )
            )
        )

    return make


def _fields(change: Callable[[dict[str, Any]], st.SearchStrategy[dict[str, Any]]]) -> Any:
    return lambda ids: _either_way(change(good(ids)))


def _text(change: Callable[[str], Body]) -> Any:
    return lambda ids: change(json.dumps(good(ids)))


def _envelope(ids: Ids, *, event: UUID, firm: UUID, matter: UUID) -> dict[str, Any]:
    return _changed(good(ids), "subject.id", str(matter)) | {
        "event_id": str(event),
        "firm_id": str(firm),
    }


def _confused(text: str) -> st.SearchStrategy[str]:
    at = [number for number, letter in enumerate(text) if letter in CONFUSED]
    return st.sampled_from(at).map(lambda n: text[:n] + CONFUSED[text[n]] + text[n + 1 :])


def _in_the_middle(text: str, inserted: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda at, what: text[:at] + what + text[at:], st.integers(0, len(text)), inserted
    )


def _nested(text: str) -> Body:
    def nest(depth: int, opens: str, closes: str) -> st.SearchStrategy[str]:
        deep = opens * depth + closes * depth
        return st.sampled_from([deep, opens * depth, text[:-1] + f', "deeper": {deep}}}'])

    return st.one_of(
        st.sampled_from([10, 200, 5_000, 60_000]).flatmap(lambda n: nest(n, "[", "]")),
        st.sampled_from([10, 200, 5_000, 30_000]).flatmap(lambda n: nest(n, '{"a":', "}")),
    )


def _keyed(change: Callable[[str], st.SearchStrategy[str]]) -> Any:
    """One key of a good envelope renamed."""
    return _fields(
        lambda fields: st.sampled_from(FIELDS).flatmap(
            lambda name: change(name).map(
                lambda other: {(other if k == name else k): v for k, v in fields.items()}
            )
        )
    )


def _doubled(ids: Ids) -> Body:
    fields = good(ids)

    def double(name: str, value: object) -> str:
        return json.dumps(fields)[:-1] + f', "{name}": {json.dumps(value)}}}'

    values = st.sampled_from([str(ids.firm_b), str(ids.matter_b), None, 1])
    plain = st.builds(double, st.sampled_from(FIELDS), values)
    inner = values.map(
        lambda value: json.dumps(fields).replace(
            '"type": "matter"', f'"type": "matter", "id": {json.dumps(value)}'
        )
    )
    return st.one_of(
        plain, inner, plain.map(lambda text: f'{{"detail-type": 1, "detail": {text}}}')
    )


def _swapped(ids: Ids) -> Body:
    event = UUID(good(ids)["event_id"])
    orders = [
        order
        for order in permutations((event, ids.firm_a, ids.matter_a))
        if order[1:] != (ids.firm_a, ids.matter_a)
    ]
    return _either_way(
        st.sampled_from(orders).map(lambda o: _envelope(ids, event=o[0], firm=o[1], matter=o[2]))
    )


def _anothers(ids: Ids) -> Body:
    pairs = [(ids.firm_a, ids.matter_b), (ids.firm_b, ids.matter_a)]
    return _either_way(
        st.builds(
            lambda pair, event: _envelope(ids, event=event, firm=pair[0], matter=pair[1]),
            st.sampled_from(pairs),
            st.uuids(),
        )
    )


def _nobodys(ids: Ids) -> Body:
    unknown = st.uuids() | st.sampled_from([UUID(int=0), UUID(int=2**128 - 1)])
    return _either_way(
        st.one_of(
            unknown.map(lambda i: _envelope(ids, event=i, firm=i, matter=ids.matter_a)),
            unknown.map(lambda i: _envelope(ids, event=i, firm=ids.firm_a, matter=i)),
        )
    )


def _lying(ids: Ids) -> Body:
    others = [str(e) for e in EventType if e is not EventType.MATTER_CREATED]
    kinds = st.one_of(
        st.sampled_from([*others, "Matter.Created", " matter.created", "matter.created\u200b", ""]),
        TEXT.filter(lambda text: text != "matter.created"),
        OTHER_TYPES,
    )
    return kinds.map(lambda kind: json.dumps(wrapped(good(ids), **{"detail-type": kind})))


def _within(ids: Ids) -> Body:
    inside = st.one_of(
        st.integers(1, 5).map(lambda n: _deep_wrapper(good(ids), n)),
        st.sampled_from([json.dumps(good(ids)), None, [good(ids)], 1]),
    )
    return inside.map(lambda detail: json.dumps(wrapped(detail)))


def _deep_wrapper(detail: dict[str, Any], depth: int) -> dict[str, Any]:
    for _ in range(depth):
        detail = wrapped(detail)
    return detail


UUIDS: Final[tuple[Callable[[str], str], ...]] = (
    str.upper,
    lambda text: text.replace("-", ""),
    lambda text: f"{{{text}}}",
    lambda text: f"urn:uuid:{text}",
    lambda text: f" {text}",
    lambda text: f"{text}\n",
    lambda text: text[:-1],
    lambda text: text + "0",
    lambda text: f"{text}' OR '1'='1",
)
TIMES: Final = (
    1_700_000_000,
    "1700000000",
    "2026-01-01",
    "2026-01-01T00:00:00",
    "2026-13-01T00:00:00Z",
    "2026-01-01T25:00:00Z",
    "2026-01-01T00:00:00.1234567890Z",
    "now",
    "P1D",
    "",
)
HUGE: Final = (
    "1" + "0" * 5_000,
    "1e400",
    "-1e400",
    "1e-400",
    "9" * 20,
    "1" + "0" * 400,
    "-" + "9" * 4_000,
)

KINDS: Final[Mapping[str, Kind]] = {
    "another type in a field": Kind(
        _field(FIELDS_TOO, lambda _: OTHER_TYPES), r"(detail\.)?(\w|\.)+ \(.*"
    ),
    "nested depth": Kind(
        _text(_nested), r"body \(not (JSON|an object)\)|<unknown> .*|\w+ \(missing\)"
    ),
    "a huge number": Kind(
        _text(
            lambda text: st.sampled_from(HUGE).flatmap(
                lambda number: st.sampled_from(
                    [
                        text.replace('"schema_version": 1', f'"schema_version": {number}'),
                        text.replace('"event_type"', f'"more": {number}, "event_type"'),
                    ]
                )
            )
        ),
        r"body \(not JSON\)|schema_version \(.*|<unknown> .*",
    ),
    "a number that is none": Kind(
        _text(
            lambda text: st.sampled_from(["NaN", "Infinity", "-Infinity"]).map(
                lambda number: text.replace('"schema_version": 1', f'"schema_version": {number}')
            )
        ),
        r"body \(NaN or Infinity\)",
    ),
    "duplicate keys": Kind(_doubled, r"body \(duplicate keys\)"),
    "homoglyphs in a key": Kind(
        _keyed(_confused), r"(detail\.)?(<unknown> \(extra_forbidden\)|\w+ \(missing\))"
    ),
    "homoglyphs in a value": Kind(
        _field(("event_type", "subject.type", "event_id", "firm_id", "subject.id"), _confused),
        r"(detail\.)?(event_type|subject\.type|\w+_id|subject\.id) \(.*",
    ),
    "NUL in a value": Kind(
        _field(
            ("event_type", "subject.type", *IDS, "environment", "occurred_at"),
            lambda text: _in_the_middle(text, st.just("\x00")),
        ),
        r"(detail\.)?(\w|\.)+ \(.*",
    ),
    "NUL in a key": Kind(
        _keyed(lambda name: _in_the_middle(name, st.just("\x00"))),
        r"(detail\.)?(<unknown> \(extra_forbidden\)|\w+ \(missing\))",
    ),
    "a raw control character": Kind(
        _text(
            lambda text: st.sampled_from("\x00\x01\x08\x0b\x1f").map(
                lambda raw: text.replace("matter.created", f"matter{raw}.created")
            )
        ),
        r"body \(not JSON\)",
    ),
    "invalid UTF-8": Kind(
        _text(
            lambda text: st.sampled_from([b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8"]).flatmap(
                lambda raw: _in_the_middle(text, st.just(raw.decode(errors="surrogateescape")))
            )
        ),
        r"body \(not UTF-8\)",
    ),
    "half a character in a value": Kind(
        _field(
            ("event_type", "subject.type", *IDS, "environment", "occurred_at"),
            lambda text: _in_the_middle(
                text, st.sampled_from(["\ud800", "\udfff", "\ude00\ud83d"])
            ),
        ),
        r"(detail\.)?(\w|\.)+ \(.*",
    ),
    "half a character in a key": Kind(
        _keyed(lambda name: _in_the_middle(name, st.sampled_from(["\ud800", "\udfff"]))),
        r"body \(a key is not Unicode\)",
    ),
    "oversize": Kind(
        _text(
            lambda text: st.sampled_from(["x", " ", "\u00e9", "\U0001f600"]).map(
                lambda filler: text[:-1] + f', "filler": "{filler * 263_000}"}}'
            )
        ),
        r"body \(over 256 KiB\)",
    ),
    "cut short": Kind(
        _text(lambda text: st.integers(0, len(text) - 1).map(lambda at: text[:at])),
        r"body \(not JSON\)",
    ),
    "no object": Kind(
        lambda ids: st.one_of(
            st.lists(TEXT, max_size=3), TEXT, st.integers(), st.none(), st.just([good(ids)])
        ).map(json.dumps),
        r"body \(not an object\)",
    ),
    "an unknown field": Kind(
        _fields(
            lambda fields: st.builds(
                lambda name, value: {**fields, name: value},
                TEXT.filter(lambda name: name not in {*fields, "detail-type"}),
                TEXT,
            )
        ),
        r"(detail\.)?<unknown> \(extra_forbidden\)",
    ),
    "a field that is absent": Kind(
        _fields(
            lambda fields: st.sampled_from((*FIELDS, "environment", "subject")).map(
                lambda name: {k: v for k, v in fields.items() if k != name}
            )
        ),
        r"(detail\.)?\w+ \(missing\)",
    ),
    "an id in another spelling": Kind(
        _field(IDS, lambda text: st.sampled_from(UUIDS).map(lambda spell: spell(text))),
        r"(detail\.)?(event_id|firm_id|subject\.id) \(.*",
    ),
    "a time in another spelling": Kind(
        _field(("occurred_at",), lambda _: st.sampled_from(TIMES)), r"(detail\.)?occurred_at \(.*"
    ),
    "another version": Kind(
        _field(
            ("schema_version",), lambda _: st.sampled_from([0, 2, 99, -1, True, 1.0, "1", "v1"])
        ),
        r"(detail\.)?schema_version \(.*",
    ),
    "another event": Kind(
        _field(
            ("event_type",),
            lambda _: st.sampled_from([str(e) for e in EventType if "matter" not in e]) | TEXT,
        ),
        r"(detail\.)?event_type \(.*",
    ),
    "a lying detail-type": Kind(_lying, r"detail-type \(.*"),
    "a wrapper around no envelope": Kind(_within, r"detail(\.\S+)? \(.*"),
    "another environment": Kind(
        _field(
            ("environment",),
            lambda _: st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True).filter(
                lambda name: name != ENVIRONMENT
            ),
        ),
        r"environment",
        RefusalReason.WRONG_ENVIRONMENT,
        "environment",
    ),
    "the right firm with another's matter": Kind(
        _anothers, r"firm_id|subject\.id", RefusalReason.SUBJECT_NOT_VISIBLE, "coherence"
    ),
    "swapped ids": Kind(
        _swapped, r"firm_id|subject\.id", RefusalReason.SUBJECT_NOT_VISIBLE, "coherence"
    ),
    "ids of nobody": Kind(
        _nobodys, r"firm_id|subject\.id", RefusalReason.SUBJECT_NOT_VISIBLE, "coherence"
    ),
}

ANY_JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TRACES: Final = st.one_of(
    ANY_JSON,
    st.sampled_from(
        [
            TRACEPARENT,
            TRACEPARENT.upper(),
            TRACEPARENT + "-more",
            "ff" + TRACEPARENT[2:],
            "00-" + "0" * 32 + "-" + "0" * 16 + "-00",
            "0" * 50_000,
            "\x00",
            "\ud800",
            "a=1," * 400,
            "k=" + "v" * 600,
        ]
    ),
    st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True),
)
"""What may stand where a trace context should: of any shape, and never a reason to refuse."""


def with_traces(ids: Ids) -> Body:
    """Return good envelopes of firm A with any trace context."""
    return _either_way(
        st.builds(
            lambda event, parent, state: (
                good(ids) | {"event_id": str(event), "traceparent": parent, "tracestate": state}
            ),
            st.uuids(),
            TRACES,
            TRACES,
        )
    )


def kinds_section() -> str:
    """Return the kinds as the page shows them."""
    lines = ["| an envelope with | is refused at | because it is |", "|---|---|---|"]
    lines += [f"| {title} | {kind.gate} | {kind.reason} |" for title, kind in KINDS.items()]
    return "\n".join([*lines, "| a trace context of any shape | nowhere: it is no parent | |"])
