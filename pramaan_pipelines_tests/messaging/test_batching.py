"""The cutting of messages into calls, as properties."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pramaan_pipelines.messaging.batching import (
    EVENTBRIDGE_LIMITS,
    SQS_LIMITS,
    Limits,
    cut,
    event_entry_bytes,
    is_json_object,
    queue_message_bytes,
    refused_character,
)

limits = st.builds(
    lambda entries, message, more: Limits(entries, message + more, message),
    st.integers(1, 12),
    st.integers(1, 50),
    st.integers(0, 200),
)


@given(st.data(), limits)
def test_every_message_is_in_one_call_in_order_and_no_call_is_over_a_limit(
    data: st.DataObject, limits: Limits
) -> None:
    sizes = data.draw(st.lists(st.integers(1, limits.message_bytes), max_size=60))
    calls = cut(enumerate(sizes), limits)
    assert [index for call in calls for index in call] == list(range(len(sizes)))
    for call in calls:
        assert 1 <= len(call) <= limits.entries
        assert sum(sizes[index] for index in call) <= limits.call_bytes


@given(st.data(), limits)
def test_no_call_is_closed_early(data: st.DataObject, limits: Limits) -> None:
    sizes = data.draw(st.lists(st.integers(1, limits.message_bytes), max_size=60))
    calls = cut(enumerate(sizes), limits)
    for call, following in pairwise(calls):
        grown = sum(sizes[index] for index in [*call, following[0]])
        assert len(call) == limits.entries or grown > limits.call_bytes


def test_the_limits_are_the_services() -> None:
    assert Limits(10, 1_048_576, 262_144) == SQS_LIMITS
    assert Limits(10, 262_143, 262_143) == EVENTBRIDGE_LIMITS


@given(st.text(), st.text(), st.text(), st.lists(st.text(), max_size=3), st.booleans())
def test_an_entry_s_size_is_the_service_s_formula(
    source: str,
    detail_type: str,
    detail: str,
    resources: list[str],
    time: bool,  # noqa: FBT001
) -> None:
    size = event_entry_bytes(
        source=source, detail_type=detail_type, detail=detail, resources=resources, time=time
    )
    texts = [source, detail_type, detail, *resources]
    assert size == (14 if time else 0) + len("".join(texts).encode())


def test_a_queue_message_s_size_counts_its_attributes() -> None:
    assert queue_message_bytes("é", {}) == 2
    assert queue_message_bytes("", {"név": "x"}) == len("név".encode()) + len("String") + 1


def allowed_by_sqs(code: int) -> bool:
    return (
        code in {0x9, 0xA, 0xD}
        or 0x20 <= code <= 0xD7FF
        or 0xE000 <= code <= 0xFFFD
        or 0x10000 <= code <= 0x10FFFF
    )


def test_every_character_is_judged_as_sqs_judges_it() -> None:
    for code in [*range(0x1_0100), 0x1F600, 0x10FFFF]:
        assert (refused_character(chr(code)) is None) == allowed_by_sqs(code), hex(code)
    assert refused_character("ab\x00c") == "U+0000"
    assert refused_character("\ud83d") == "U+D83D"


def test_what_is_a_json_object() -> None:
    assert is_json_object('{"a": 1}')
    for text in ("", "[]", "1", "null", '{"a": NaN}', '{"a": -Infinity}', "{", "[" * 100_000):
        assert not is_json_object(text)
