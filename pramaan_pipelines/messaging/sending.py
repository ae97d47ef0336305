"""The sending that SQS and EventBridge share: checks, calls, threads, the deadline.

Promises: one result a message, in order; no call starts after the deadline; a fault of one message
is never told of its neighbours.
Never: raises for a message or for an outage; waits for more than the calls under way.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import BoundedSemaphore
from typing import Final, Generic, TypeVar

from pramaan_pipelines.messaging.batching import Limits, cut, refused_character
from pramaan_pipelines.messaging.clients import SENDING_THREADS
from pramaan_pipelines.messaging.faults import CALL_ERRORS, call_fault
from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult, SendStatus

AnswerT = TypeVar("AnswerT")

NO_TIME_LEFT: Final = SendResult(SendStatus.UNAVAILABLE, "no time left")
NOT_NAMED: Final = SendResult(SendStatus.UNAVAILABLE, "not named in the answer")


class BatchPublisher(ABC, Generic[AnswerT]):
    """What a publisher of batches is, apart from its service."""

    limits: Limits

    def __init__(self, *, threads: int = SENDING_THREADS) -> None:
        """Prepare to send.

        Args:
            threads: calls under way at once, at least 1, however many callers send; more than the
                client has pooled connections gains nothing.
        """
        self._threads = threads
        self._calls = BoundedSemaphore(threads)

    @abstractmethod
    def _size(self, message: OutboundMessage) -> int:
        """Return the bytes that the service counts for `message`."""

    @abstractmethod
    def _ask(self, messages: Sequence[OutboundMessage]) -> AnswerT:
        """Make one call; let whatever boto3 raises pass."""

    @abstractmethod
    def _read(self, answer: AnswerT, count: int) -> list[SendResult]:
        """Read the answer for `count` messages entry by entry, in their order."""

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        """Send all `messages`; the results stand in the same order.

        Args:
            messages: any number; they are cut into calls by count and by bytes.
            deadline: a `time.monotonic()` value in seconds; no call starts after it, and a call
                under way then ends within the client's time-outs.
        """
        sizes = [self._size(message) for message in messages]
        results = [
            self._problem(message, size) for message, size in zip(messages, sizes, strict=True)
        ]
        fit = [(at, size) for at, size in enumerate(sizes) if results[at] is None]
        calls = cut(fit, self.limits)
        batches = [[messages[index] for index in indexes] for indexes in calls]
        for indexes, answers in zip(calls, self._send_all(batches, deadline), strict=True):
            for index, answer in zip(indexes, answers, strict=True):
                results[index] = answer
        return [NOT_NAMED if result is None else result for result in results]

    def _problem(self, message: OutboundMessage, size: int) -> SendResult | None:
        """Return why no try can ever succeed, found without a call."""
        if not message.body or not message.event_type:
            return SendResult(SendStatus.IMPOSSIBLE, "empty body or event type")
        # On the bus too: what it takes ends on a queue.
        character = refused_character(message.body) or refused_character(message.event_type)
        if character:
            return SendResult(SendStatus.IMPOSSIBLE, f"character {character} is refused by SQS")
        if size > self.limits.message_bytes:
            return SendResult(
                SendStatus.IMPOSSIBLE,
                f"{size} bytes, and at most {self.limits.message_bytes} can be sent",
            )
        return None

    def _send_all(
        self, batches: list[list[OutboundMessage]], deadline: float
    ) -> list[list[SendResult]]:
        threads = min(self._threads, len(batches))
        if threads <= 1:
            return [self._send_batch(batch, deadline) for batch in batches]
        with ThreadPoolExecutor(threads, thread_name_prefix="pramaan-send") as pool:
            # Each call in its own copy of the context, so that its span has the batch's as parent.
            futures = [
                pool.submit(copy_context().run, self._send_batch, batch, deadline)
                for batch in batches
            ]
            return [future.result() for future in futures]

    def _send_batch(self, batch: list[OutboundMessage], deadline: float) -> list[SendResult]:
        try:
            with self._calls:
                # The wait for a place counts too.
                if time.monotonic() >= deadline:
                    return [NO_TIME_LEFT] * len(batch)
                answer = self._ask(batch)
        except CALL_ERRORS as error:
            fault = call_fault(error)
            if fault.status is SendStatus.UNAVAILABLE or len(batch) == 1:
                return [fault] * len(batch)
            # The service refused the call for something that at least one message is guilty of and
            # does not say which: nothing was accepted, so each may be asked alone.
            return [self._send_batch([message], deadline)[0] for message in batch]
        return self._read(answer, len(batch))
