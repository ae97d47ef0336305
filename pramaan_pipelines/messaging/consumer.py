"""Receiving from an SQS standard queue, and saying what became of a message.

Promises: a receipt that is no longer good is an answer, not an error: the message was deleted or
has gone to another consumer, and either is normal under at-least-once delivery.
Never: deletes on its own, reads a body, or logs one.

Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

from botocore.exceptions import ClientError

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.clients import READ_SECONDS, client
from pramaan_pipelines.messaging.faults import CALL_ERRORS, describe, error_codes
from pramaan_pipelines.messaging.sqs import queue_name
from pramaan_pipelines.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType
    from mypy_boto3_sqs.type_defs import MessageTypeDef

log = logging.getLogger(__name__)

MESSAGES_A_CALL: Final = 10
LONGEST_WAIT: Final = 20
"""Seconds; SQS's limit of a long poll."""
LONGEST_HIDE: Final = 43_200
"""Seconds; SQS's limit of a visibility timeout."""


NO_SUCH_CALL: Final = frozenset(
    {"UnsupportedOperation", "InvalidAction", "UnknownOperationException", "NotImplemented"}
)
"""What a service answers that speaks SQS without message move tasks."""

_DEPTH: Final[tuple["QueueAttributeNameType", ...]] = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One delivery of one message.

    Attributes:
        message_id: the same for every delivery.
        receipt_handle: of this delivery; what `delete` and `hand_back` take.
        body: the text as it arrived.
        receive_count: deliveries so far with this one, approximately.
        sent_at: when the queue took it.
        trace_header: X-Ray's header, where the sender or the service set one.
        attributes: the String attributes beside the body.
    """

    message_id: str
    receipt_handle: str = field(repr=False)
    body: str = field(repr=False)
    receive_count: int
    sent_at: datetime
    trace_header: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many messages a queue holds, approximately: visible, being worked on, and waiting."""

    visible: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        """All messages on the queue."""
        return self.visible + self.in_flight + self.delayed


class QueueConsumer:
    """One queue that messages are received from."""

    def __init__(self, client: "SQSClient", queue_url: str) -> None:
        """Receive from the queue at `queue_url`.

        Args:
            client: one that waits longer for an answer than the longest `wait_seconds`.
            queue_url: the queue's URL.
        """
        self._client = client
        self._queue_url = queue_url

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return a consumer of the framer's queue.

        Raises:
            SettingsError: FRAMER_EVENTS_QUEUE_URL is not set.
        """
        patient = client("sqs", settings, read_seconds=LONGEST_WAIT + READ_SECONDS)
        return cls(patient, settings.require("framer_events_queue_url"))

    @property
    def destination(self) -> str:
        """The queue's name, safe to show."""
        return queue_name(self._queue_url)

    def receive(self, max_messages: int, wait_seconds: int) -> list[ReceivedMessage]:
        """Return up to `max_messages` messages, each now invisible to others.

        Only the first call waits; the loop ends at the first empty answer.

        Args:
            max_messages: at least 1; more than 10 take several calls.
            wait_seconds: how long to wait for a first message, cut to 0 to 20 s.

        Raises:
            DestinationError: the first call failed. If a later one does, what is already held is
                returned, for it would otherwise count a delivery that nobody saw.
        """
        held: list[ReceivedMessage] = []
        wait = max(0, min(wait_seconds, LONGEST_WAIT))
        while len(held) < max_messages:
            try:
                answer = self._client.receive_message(
                    QueueUrl=self._queue_url,
                    MaxNumberOfMessages=min(MESSAGES_A_CALL, max_messages - len(held)),
                    WaitTimeSeconds=0 if held else wait,
                    MessageSystemAttributeNames=[
                        "ApproximateReceiveCount",
                        "SentTimestamp",
                        "AWSTraceHeader",
                    ],
                    MessageAttributeNames=["All"],
                )
            except CALL_ERRORS as error:
                if not held:
                    raise self._unreachable(error) from None
                log.warning(
                    "receiving from %s stopped early: %s", self.destination, describe(error)
                )
                break
            received = answer.get("Messages", [])
            if not received:
                break
            held += [_received(message) for message in received]
        return held

    def delete(self, receipt_handle: str) -> bool:
        """Delete the message for good.

        Returns:
            Whether the queue took it; False when the receipt is no longer good, so that the message
            is gone or will be delivered again.

        Raises:
            DestinationError: the queue cannot be reached or is missing.
        """
        try:
            self._client.delete_message(QueueUrl=self._queue_url, ReceiptHandle=receipt_handle)
        except CALL_ERRORS as error:
            return self._stale(error, "delete")
        return True

    def hand_back(self, receipt_handle: str, delay_seconds: int = 0) -> bool:
        """Let the message be delivered again, to anyone, after `delay_seconds`.

        Args:
            receipt_handle: of the delivery to end.
            delay_seconds: cut to 0 to 43,200 s.

        Returns:
            False when the receipt is no longer good; then the message is gone or visible already.

        Raises:
            DestinationError: the queue cannot be reached or is missing.
        """
        try:
            self._client.change_message_visibility(
                QueueUrl=self._queue_url,
                ReceiptHandle=receipt_handle,
                VisibilityTimeout=max(0, min(delay_seconds, LONGEST_HIDE)),
            )
        except CALL_ERRORS as error:
            return self._stale(error, "hand back")
        return True

    def hold(self, receipt_handle: str) -> bool:
        """Keep the message to this delivery for one more visibility timeout, from now.

        Returns:
            False when the receipt is no longer good; then the message may be delivered elsewhere.

        Raises:
            DestinationError: the queue cannot be reached or is missing.
        """
        found = self._attributes("VisibilityTimeout").get("VisibilityTimeout", "")
        if not found.isdigit():
            raise DestinationError(f"Queue {self.destination} does not tell its visibility timeout")
        return self.hand_back(receipt_handle, int(found))

    def depth(self) -> QueueDepth:
        """Return how many messages the queue holds.

        Raises:
            DestinationError: the queue cannot be reached or is missing.
        """
        found = self._attributes(*_DEPTH)
        try:
            return QueueDepth(*(int(found[name]) for name in _DEPTH))
        except (KeyError, ValueError) as error:
            # Never 0 for an answer that does not say so: a backlog would look drained.
            raise self._unreachable(error) from None

    def dead_letters(self) -> "QueueConsumer":
        """Return a consumer of the queue that this one's messages end on.

        Raises:
            DestinationError: there is no such queue, or it cannot be reached.
        """
        policy = self._attributes("RedrivePolicy").get("RedrivePolicy")
        if not policy:
            raise DestinationError(
                f"Queue {self.destination} has no dead-letter queue. Provision its stack again."
            )
        *_, account, name = str(json.loads(policy)["deadLetterTargetArn"]).split(":")
        try:
            url = self._client.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
        except CALL_ERRORS as error:
            raise self._unreachable(error) from None
        return QueueConsumer(self._client, url["QueueUrl"])

    def dead_letter_depth(self) -> QueueDepth:
        """Return how many messages the dead-letter queue holds.

        Raises:
            DestinationError: there is no such queue, or it cannot be reached.
        """
        return self.dead_letters().depth()

    def start_moving_back(self) -> bool:
        """Let SQS itself move this dead-letter queue's messages back to where they came from.

        Returns:
            False where the service has no such call; nothing was moved then.

        Raises:
            DestinationError: the queue cannot be reached or is missing.

        Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html
        """
        arn = self._attributes("QueueArn").get("QueueArn", "")
        try:
            self._client.start_message_move_task(SourceArn=arn)
        except CALL_ERRORS as error:
            if isinstance(error, ClientError) and error_codes(error) & NO_SUCH_CALL:
                return False
            raise self._unreachable(error) from None
        return True

    def _attributes(self, *names: "QueueAttributeNameType") -> dict["QueueAttributeNameType", str]:
        try:
            answer = self._client.get_queue_attributes(
                QueueUrl=self._queue_url, AttributeNames=names
            )
        except CALL_ERRORS as error:
            raise self._unreachable(error) from None
        return answer.get("Attributes", {})

    def _stale(self, error: Exception, act: str) -> bool:
        """Return False for a receipt that is no longer good; raise for all else."""
        if isinstance(error, ClientError) and _receipt_is_stale(error):
            log.info(
                "%s on %s: the receipt is no longer good (%s)",
                act,
                self.destination,
                ", ".join(sorted(error_codes(error))),
            )
            return False
        raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> DestinationError:
        return DestinationError(
            f"Queue {self.destination}: {describe(error)}. Check its URL, the region and the "
            "credentials in the environment, and that its stack is provisioned."
        )


def _receipt_is_stale(error: ClientError) -> bool:
    codes = error_codes(error)
    if codes & {"ReceiptHandleIsInvalid", "MessageNotInflight"}:
        return True
    # AWS says "has expired" and "is not available for visibility timeout change" this way.
    text = str(error.response.get("Error", {}).get("Message", "")).lower().replace(" ", "")
    return "InvalidParameterValue" in codes and "receipthandle" in text


def _received(message: "MessageTypeDef") -> ReceivedMessage:
    system = message.get("Attributes", {})
    sent_ms = int(system.get("SentTimestamp", 0))
    return ReceivedMessage(
        message_id=message.get("MessageId", ""),
        receipt_handle=message.get("ReceiptHandle", ""),
        body=message.get("Body", ""),
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=datetime.fromtimestamp(sent_ms / 1000, UTC),
        trace_header=system.get("AWSTraceHeader"),
        attributes={
            name: value["StringValue"]
            for name, value in message.get("MessageAttributes", {}).items()
            if "StringValue" in value
        },
    )
