"""How messages are cut into calls, and which could never be part of one.

Promises: every index appears in exactly one call, in order; no call exceeds its service's limits.
Never: touches the network, or changes a message.

Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
and https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevent-size.html
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call of a service may hold.

    Attributes:
        entries: messages a call.
        call_bytes: bytes of all messages of a call.
        message_bytes: bytes of one message.
    """

    entries: int
    call_bytes: int
    message_bytes: int


SQS_LIMITS: Final = Limits(entries=10, call_bytes=KIB * KIB, message_bytes=256 * KIB)
"""A message may be 1 MiB by now, but 256 KiB is what every queue in every region takes."""

EVENTBRIDGE_LIMITS: Final = Limits(
    entries=10, call_bytes=256 * KIB - 1, message_bytes=256 * KIB - 1
)
"""The sum of all entries of a call must be *less than* 256 KiB."""

TIME_BYTES: Final = 14

# What SQS takes is #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF; a
# class that names the few others is compiled in a hundredth of the time.
_REFUSED_BY_SQS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def cut(sizes: Iterable[tuple[int, int]], limits: Limits) -> list[list[int]]:
    """Cut messages into calls.

    Args:
        sizes: (index, bytes) of each message; none over `limits.message_bytes`.
        limits: of one call.

    Returns:
        The indexes of each call, in the order given.
    """
    calls: list[list[int]] = []
    held = 0
    for index, size in sizes:
        if not calls or len(calls[-1]) == limits.entries or held + size > limits.call_bytes:
            calls.append([])
            held = 0
        calls[-1].append(index)
        held += size
    return calls


def utf8_bytes(text: str) -> int:
    """Return the length of `text` on the wire, in bytes; a lone surrogate counts as three."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def queue_message_bytes(body: str, attributes: Mapping[str, str]) -> int:
    """Return the size of an SQS message: its body, and each attribute's name, type and value.

    Args:
        body: the message's text.
        attributes: its attributes, all of type String.
    """
    return utf8_bytes(body) + sum(
        utf8_bytes(name) + len("String") + utf8_bytes(value) for name, value in attributes.items()
    )


def event_entry_bytes(
    *, source: str, detail_type: str, detail: str, resources: Sequence[str] = (), time: bool = False
) -> int:
    """Return the size of a PutEvents entry by the service's own formula.

    Args:
        source: Source.
        detail_type: DetailType.
        detail: Detail.
        resources: Resources.
        time: whether the entry names its Time.
    """
    texts = (source, detail_type, detail, *resources)
    return TIME_BYTES * time + sum(utf8_bytes(text) for text in texts)


def refused_character(text: str) -> str | None:
    """Name the first character that SQS refuses, or return None.

    One of them in one body makes SQS refuse the whole batch.

    Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
    """
    found = _REFUSED_BY_SQS.search(text)
    return f"U+{ord(found.group()):04X}" if found else None


def is_json_object(text: str) -> bool:
    """Whether `text` is a JSON object as RFC 8259 has it (no NaN, no Infinity)."""
    try:
        return isinstance(json.loads(text, parse_constant=_no_constant), dict)
    except (ValueError, RecursionError):
        return False


def _no_constant(name: str) -> Any:
    raise ValueError(name)
