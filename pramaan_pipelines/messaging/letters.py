"""A dead-letter queue: what stands on it, and sending it again.

Promises: a look changes nothing but the messages' receive counts; a message is deleted here only
after the queue it goes back to took its copy, so that a redrive that dies half-way repeats and
never loses (H13).
Never: shows a body; what is told of a message is its id, its event's id and a reason.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from time import monotonic
from typing import Final

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.messaging.consumer import QueueConsumer, ReceivedMessage
from pramaan_pipelines.messaging.publisher import OutboundMessage, Publisher, SendStatus

LOGGER = logging.getLogger(__name__)
MAX_LETTERS: Final = 1000
HOLD_SECONDS: Final = 120
"""A letter that was looked at stays hidden so long, so that one look meets each once."""
SEND_SECONDS: Final = 10.0


class Which(StrEnum):
    """Which dead letters to send again."""

    PASSING = "passing"
    ALL = "all"


@dataclass(frozen=True)
class Letter:
    """A dead letter as an operator sees it.

    Attributes:
        message_id: SQS's id.
        event_id: the envelope's, where there is one.
        reason: why it would be refused now; None where it would not.
        places: where, never a value.
        redriven: whether the queue it came from has it again.
    """

    message_id: str
    event_id: str | None
    reason: str | None
    places: tuple[str, ...] = ()
    redriven: bool = False


class LetterBox(ABC):
    """One dead-letter queue, with the way back.

    Args:
        queue: the dead-letter queue.
        back: where a letter is sent again.
        moves_itself: whether SQS knows the way back too, which it does of a queue's own dead
            letters, and not of what EventBridge put there.
    """

    def __init__(self, queue: QueueConsumer, back: Publisher, *, moves_itself: bool = True) -> None:
        self._queue = queue
        self._back = back
        self._moves_itself = moves_itself

    @abstractmethod
    def judge(self, message: ReceivedMessage) -> Letter:
        """Say what would become of `message` if it were sent again now."""

    def look(self, limit: int = MAX_LETTERS) -> list[Letter]:
        """Return up to `limit` letters, each with what would become of it now."""
        return self._each(limit, lambda _, letter: letter)

    def redrive(self, which: Which, *, dry_run: bool, limit: int = MAX_LETTERS) -> list[Letter]:
        """Send up to `limit` letters to where they came from.

        Args:
            which: those that nothing would refuse now, or all.
            dry_run: look, and send nothing.
            limit: the most letters received.

        Returns:
            Every letter that was received, with whether it was sent.
        """
        if dry_run:
            return self.look(limit)
        if which is Which.ALL:
            letters = self.look(limit)
            # SQS's own task knows no limit: it is asked only where the look came to the end.
            if self._moves_itself and len(letters) < limit and self._queue.start_moving_back():
                return [replace(letter, redriven=True) for letter in letters]
        taking = True

        def send(message: ReceivedMessage, letter: Letter) -> Letter:
            nonlocal taking
            if not taking or (which is Which.PASSING and letter.reason is not None):
                return letter
            sent = self._send(message)
            # A queue that is out is out for the others too, and each would wait for it.
            taking = sent is not SendStatus.UNAVAILABLE
            return replace(letter, redriven=sent is SendStatus.ACCEPTED)

        return self._each(limit, send)

    def _each(self, limit: int, act: Callable[[ReceivedMessage, Letter], Letter]) -> list[Letter]:
        """Judge up to `limit` letters and act on each; what is not deleted is given back at once.

        That holds for an end by an error too, so that the next look finds everything.
        """
        letters: list[Letter] = []
        held: dict[str, None] = {}
        try:
            for message in self._receive(limit, held):
                letter = act(message, self.judge(message))
                if letter.redriven:
                    # Until here the message is on both queues; the framer dedupes by its event.
                    self._queue.delete(message.receipt_handle)
                    del held[message.receipt_handle]
                letters.append(letter)
        finally:
            for receipt in held:
                self._queue.hand_back(receipt, 0)
        return letters

    def _receive(self, limit: int, held: dict[str, None]) -> Iterator[ReceivedMessage]:
        seen: set[str] = set()
        while len(seen) < limit:
            batch = self._queue.receive(min(10, limit - len(seen)), 0)
            held.update((message.receipt_handle, None) for message in batch)
            fresh = [message for message in batch if message.message_id not in seen]
            for message in batch:
                self._queue.hand_back(message.receipt_handle, HOLD_SECONDS)
            if not fresh:
                return
            seen |= {message.message_id for message in fresh}
            yield from fresh

    def _send(self, message: ReceivedMessage) -> SendStatus:
        again = OutboundMessage(
            event_id=message.message_id,
            event_type=message.attributes.get("event_type", "unknown"),
            body=message.body,
            trace=TraceContext.of(
                message.attributes.get("traceparent"), message.attributes.get("tracestate")
            ),
        )
        (result,) = self._back.send([again], deadline=monotonic() + SEND_SECONDS)
        if result.status is not SendStatus.ACCEPTED:
            LOGGER.warning(
                "dead letter %s was not taken again: %s", message.message_id, result.detail
            )
        return result.status
