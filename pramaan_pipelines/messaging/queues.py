"""The queues of the stack, and where what they cannot deliver ends.

Promises: one list, for whoever looks at them all; a new queue is one entry.
Never: makes a call at import.

Source: template.yaml, which gives each its name.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.messaging.faults import CALL_ERRORS, describe
from pramaan_pipelines.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class DeadLetterQueue(StrEnum):
    """Where what could not be delivered or processed ends, as the asset graph calls it."""

    FRAMER_EVENTS = "framer_events_dead_letters"
    INGESTION = "documents_ingestion_dead_letters"
    REGISTRATION = "documents_registration_dead_letters"
    UNDELIVERABLE = "undeliverable_events"


@dataclass(frozen=True)
class WatchedQueue:
    """A queue with its dead-letter queue.

    Attributes:
        name: as the asset graph calls it.
        setting: the field of the settings that holds its URL.
        dead_letters: its dead-letter queue, the same. Plain text: Dagster stores no enum of ours.
    """

    name: str
    setting: str
    dead_letters: str


INGESTION: Final = WatchedQueue(
    "documents_ingestion_queue", "document_ingestion_queue_url", DeadLetterQueue.INGESTION.value
)
REGISTRATION: Final = WatchedQueue(
    "documents_registration_queue",
    "document_registration_queue_url",
    DeadLetterQueue.REGISTRATION.value,
)
FRAMER_EVENTS: Final = WatchedQueue(
    "framer_events_queue", "framer_events_queue_url", DeadLetterQueue.FRAMER_EVENTS.value
)
QUEUES: Final = (INGESTION, REGISTRATION, FRAMER_EVENTS)
UNDELIVERABLE: Final = DeadLetterQueue.UNDELIVERABLE.value
"""Events that the bus's rule could not deliver to the framer queue."""
DEAD_LETTERS: Final = (*(queue.dead_letters for queue in QUEUES), UNDELIVERABLE)


def consumer_of(
    settings: Settings, queue: WatchedQueue, sqs: "SQSClient | None" = None
) -> QueueConsumer:
    """Return a consumer of `queue`, on `sqs` or a client of its own; no call is made.

    Raises:
        SettingsError: its URL is not set.
    """
    return QueueConsumer(sqs or client("sqs", settings), settings.require(queue.setting))


def undeliverable_events(settings: Settings, sqs: "SQSClient | None" = None) -> QueueConsumer:
    """Return a consumer of the queue of undeliverable events, on `sqs` or a client of its own.

    Raises:
        DestinationError: there is no such queue in this account, or SQS does not answer.
    """
    sqs = sqs or client("sqs", settings)
    name = f"pramaan-undeliverable-events-{settings.pramaan_environment}"
    try:
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except CALL_ERRORS as error:
        raise DestinationError(
            f"Queue {name}: {describe(error)}. Check the region and the credentials in the "
            "environment, and that its stack is provisioned."
        ) from None
    return QueueConsumer(sqs, url)
