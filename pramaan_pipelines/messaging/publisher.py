"""What a lane needs of its destination, whatever the service behind it.

Promises: `send` answers for every message, in order, and says whose fault a failure is.
Never: raises for a message or for an outage; only a programming error may escape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pramaan_pipelines.contracts.trace import TraceContext


class SendStatus(StrEnum):
    """What became of one message."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """Refused by name for an unknown reason; a later try may succeed."""
    IMPOSSIBLE = "impossible"
    """No try will ever succeed: too large, or characters that the service refuses."""
    UNAVAILABLE = "unavailable"
    """Not the message's fault: throttling, 5xx, time-out, refused connection, expired credentials,
    a destination that is missing, or no time left before the deadline."""


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """One message on its way out.

    Attributes:
        event_id: the dedupe key of the consumer, as text.
        event_type: EventBridge's detail-type.
        body: the JSON text of the envelope.
        trace: what the row stored, carried untouched.
    """

    event_id: str
    event_type: str
    body: str
    trace: TraceContext


@dataclass(frozen=True, slots=True)
class SendResult:
    """The answer for one message.

    Attributes:
        status: what became of it.
        detail: when not accepted, the service's error code and a short text that is safe to store.
        message_id: when accepted, the id that the service gave it.
    """

    status: SendStatus
    detail: str | None = None
    message_id: str | None = None


class Publisher(Protocol):
    """A queue or a bus that messages are sent to."""

    @property
    def destination(self) -> str:
        """The queue's or the bus's name, safe to show."""
        ...

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        """Send all `messages`; the results stand in the same order.

        Args:
            messages: any number; they are cut into calls by count and by bytes.
            deadline: a `time.monotonic()` value in seconds; no call starts after it, and a call
                under way then ends within the client's time-outs.
        """
        ...

    def verify(self) -> None:
        """Check that the destination exists.

        Raises:
            DestinationError: it is missing or cannot be reached.
        """
        ...
