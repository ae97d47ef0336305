"""The dead letters of the document queues, whose consumers are services of others.

Promises: a message of ours is told by its event's id, and goes back to the queue it came from; one
that no relay of ours can have sent is told as malformed.
Never: knows why a consumer gave a message up; its own log says that.
"""

import json
from uuid import UUID

from pramaan_pipelines.contracts.outcomes import RefusalReason
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import ReceivedMessage
from pramaan_pipelines.messaging.letters import Letter, LetterBox
from pramaan_pipelines.messaging.queues import WatchedQueue, consumer_of
from pramaan_pipelines.messaging.sqs import QueueClient
from pramaan_pipelines.settings import Settings


class DocumentLetters(LetterBox):
    """The dead letters of one document queue."""

    @classmethod
    def of(cls, settings: Settings, queue: WatchedQueue) -> "DocumentLetters":
        """Return the dead letters of `queue`.

        Raises:
            SettingsError: the queue's URL is not set.
            DestinationError: there is no dead-letter queue, or it cannot be reached.
        """
        sqs = client("sqs", settings)
        return cls(
            consumer_of(settings, queue, sqs).dead_letters(),
            QueueClient(sqs, settings.require(queue.setting)),
        )

    def judge(self, message: ReceivedMessage) -> Letter:
        """Say whether it is a message of ours, as a lane or the bus puts it on a queue."""
        try:
            body = json.loads(message.body)
            event_id = str(UUID(body.get("detail", body)["event_id"]))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return Letter(message.message_id, None, str(RefusalReason.MALFORMED), ("event_id",))
        return Letter(message.message_id, event_id, None)
