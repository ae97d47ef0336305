"""Sending to an SQS standard queue.

Promises: SendMessageBatch, its answer read entry by entry; the trace goes out as it was stored, in
the body and beside it, there also as AWSTraceHeader where OTEL_PROPAGATORS names `xray`.
Never: makes or changes a body, or treats a fault of the queue as one of the message.

Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.batching import SQS_LIMITS, queue_message_bytes
from pramaan_pipelines.messaging.clients import SENDING_THREADS, client
from pramaan_pipelines.messaging.faults import CALL_ERRORS, describe, entry_fault
from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult, SendStatus
from pramaan_pipelines.messaging.sending import NOT_NAMED, BatchPublisher
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.telemetry.propagation import xray_header

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import (
        SendMessageBatchRequestEntryTypeDef,
        SendMessageBatchResultTypeDef,
    )


def queue_name(queue_url: str) -> str:
    """Return the name at the end of a queue's URL, which is safe to show."""
    return queue_url.rstrip("/").rsplit("/", 1)[-1]


def message_attributes(message: OutboundMessage) -> dict[str, str]:
    """Return what travels beside the body, for consumers and tracers that do not open it.

    A stored trace that is not well formed stays out: it could make SQS refuse the message.
    """
    trace = TraceContext.of(*message.trace)
    named = {"event_type": message.event_type, **trace._asdict()}
    return {name: value for name, value in named.items() if value}


class QueueClient(BatchPublisher["SendMessageBatchResultTypeDef"]):
    """One queue that messages are sent to; a `Publisher`."""

    limits = SQS_LIMITS

    def __init__(
        self, client: "SQSClient", queue_url: str, *, threads: int = SENDING_THREADS
    ) -> None:
        """Send to the queue at `queue_url`.

        Args:
            client: from `clients.client`; shared between the threads.
            queue_url: the queue's URL.
            threads: calls under way at once.
        """
        super().__init__(threads=threads)
        self._client = client
        self._queue_url = queue_url

    @property
    def destination(self) -> str:
        """The queue's name, safe to show."""
        return queue_name(self._queue_url)

    def verify(self) -> None:
        """Check that the queue exists.

        Raises:
            DestinationError: it is missing or cannot be reached.
        """
        try:
            answer = self._client.get_queue_attributes(
                QueueUrl=self._queue_url, AttributeNames=["QueueArn"]
            )
            # An answer without it comes from something that is not SQS.
            answer["Attributes"]["QueueArn"]
        except CALL_ERRORS as error:
            raise DestinationError(
                f"Queue {self.destination}: {describe(error)}. Check its URL, the region and the "
                "credentials in the environment, and that its stack is provisioned."
            ) from None

    def _size(self, message: OutboundMessage) -> int:
        return queue_message_bytes(message.body, message_attributes(message))

    def _ask(self, messages: Sequence[OutboundMessage]) -> "SendMessageBatchResultTypeDef":
        return self._client.send_message_batch(
            QueueUrl=self._queue_url,
            Entries=[_entry(index, message) for index, message in enumerate(messages)],
        )

    def _read(self, answer: "SendMessageBatchResultTypeDef", count: int) -> list[SendResult]:
        named: dict[str, SendResult] = {}
        for sent in answer.get("Successful", ()):
            named[sent.get("Id", "")] = SendResult(
                SendStatus.ACCEPTED, message_id=sent.get("MessageId")
            )
        # Failed is read last: an entry in both lists is sent again rather than lost.
        for failed in answer.get("Failed", ()):
            named[failed.get("Id", "")] = entry_fault(
                failed.get("Code"),
                failed.get("Message"),
                sender_fault=failed.get("SenderFault", False),
            )
        return [named.get(str(index), NOT_NAMED) for index in range(count)]


class DocumentIngestQueueClient(QueueClient):
    """The queues of the two document batons."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return a client of the ingestion queue.

        Raises:
            SettingsError: DOCUMENT_INGESTION_QUEUE_URL is not set.
        """
        return cls(client("sqs", settings), settings.require("document_ingestion_queue_url"))

    @classmethod
    def from_registration_settings(cls, settings: Settings) -> Self:
        """Return a client of the registration queue.

        Raises:
            SettingsError: DOCUMENT_REGISTRATION_QUEUE_URL is not set.
        """
        return cls(client("sqs", settings), settings.require("document_registration_queue_url"))


def _entry(index: int, message: OutboundMessage) -> "SendMessageBatchRequestEntryTypeDef":
    entry: SendMessageBatchRequestEntryTypeDef = {
        "Id": str(index),
        "MessageBody": message.body,
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value}
            for name, value in message_attributes(message).items()
        },
    }
    header = xray_header(message.trace)
    if header is not None:
        # Of no weight: a system attribute does not count towards a message's size.
        entry["MessageSystemAttributes"] = {
            "AWSTraceHeader": {"DataType": "String", "StringValue": header}
        }
    return entry
