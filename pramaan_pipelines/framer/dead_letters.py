"""The framer's dead letters: which messages would pass the gates now.

Promises: the judgement is that of the gates that a run would pass, from parse to coherence; the
same for the events that the bus's rule could not deliver.
Never: judges consent, which is an end of its own and no refusal.
"""

from typing import Self

from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError
from pramaan_pipelines.framer import gates
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer, ReceivedMessage
from pramaan_pipelines.messaging.letters import Letter, LetterBox
from pramaan_pipelines.messaging.publisher import Publisher
from pramaan_pipelines.messaging.queues import undeliverable_events
from pramaan_pipelines.messaging.sqs import QueueClient
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database


class DeadLetters(LetterBox):
    """What did not get through the framer queue, or to it.

    Args:
        queue: the framer queue's dead-letter queue, or that of the bus's rule.
        framer_queue: where a letter is sent again.
        database: as the service role.
        environment: ours, for the environment gate.
        moves_itself: as in `LetterBox`.
    """

    def __init__(
        self,
        queue: QueueConsumer,
        framer_queue: Publisher,
        database: Database,
        environment: str,
        *,
        moves_itself: bool = True,
    ) -> None:
        super().__init__(queue, framer_queue, moves_itself=moves_itself)
        self._database = database
        self._environment = environment

    @classmethod
    def of(cls, settings: Settings, framer_queue: QueueConsumer, database: Database) -> Self:
        """Return the dead letters of `framer_queue`, whose way back is the same queue.

        Raises:
            DestinationError: there is no dead-letter queue, or it cannot be reached.
        """
        return cls(
            framer_queue.dead_letters(),
            _framer_queue(settings),
            database,
            settings.pramaan_environment,
        )

    @classmethod
    def undeliverable(cls, settings: Settings, database: Database) -> Self:
        """Return the events that the bus's rule could not deliver to the framer queue.

        Raises:
            DestinationError: there is no such queue, or it cannot be reached.
        """
        return cls(
            undeliverable_events(settings),
            _framer_queue(settings),
            database,
            settings.pramaan_environment,
            moves_itself=False,
        )

    def judge(self, message: ReceivedMessage) -> Letter:
        """Ask the gates."""
        event_id = None
        try:
            envelope = gates.parse(message.body)
            event_id = str(envelope.event_id)
            gates.check_environment(envelope, self._environment)
            with self._database.firm(envelope.firm_id) as connection:
                gates.check_subject(
                    connection, firm_id=envelope.firm_id, matter_id=envelope.matter_id
                )
        except EnvelopeRefusedError as refused:
            return Letter(message.message_id, event_id, str(refused.reason), refused.places)
        return Letter(message.message_id, event_id, None)


def _framer_queue(settings: Settings) -> QueueClient:
    return QueueClient(client("sqs", settings), settings.require("framer_events_queue_url"))
