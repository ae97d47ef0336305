"""Every dead-letter queue by its name, for whoever presses a button.

Promises: each name of the stack's dead-letter queues opens one; the list is closed.
Never: makes a call for a queue that was not asked for.
"""

from collections.abc import Sequence

from pramaan_pipelines.contracts.text import counted
from pramaan_pipelines.framer.dead_letters import DeadLetters
from pramaan_pipelines.messaging.letters import Letter, LetterBox, Which
from pramaan_pipelines.messaging.queues import (
    FRAMER_EVENTS,
    INGESTION,
    REGISTRATION,
    DeadLetterQueue,
    consumer_of,
)
from pramaan_pipelines.outbox.dead_letters import DocumentLetters
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database


def open_letter_box(name: DeadLetterQueue, settings: Settings, database: Database) -> LetterBox:
    """Return the dead-letter queue called `name`, with its way back.

    Raises:
        SettingsError: a URL that it needs is not set.
        DestinationError: there is no such queue, or it cannot be reached.
    """
    match name:
        case DeadLetterQueue.FRAMER_EVENTS:
            return DeadLetters.of(settings, consumer_of(settings, FRAMER_EVENTS), database)
        case DeadLetterQueue.UNDELIVERABLE:
            return DeadLetters.undeliverable(settings, database)
        case DeadLetterQueue.INGESTION:
            return DocumentLetters.of(settings, INGESTION)
        case DeadLetterQueue.REGISTRATION:
            return DocumentLetters.of(settings, REGISTRATION)


def told(letters: Sequence[Letter], redriven: Which | None) -> tuple[list[str], int]:
    """Return what a terminal shows of `letters`, and how many were asked for and not taken.

    Args:
        letters: as a look or a redrive returned them.
        redriven: which of them were to be sent again; None where it was a look.
    """
    lines = [
        f"{letter.message_id}  {letter.event_id or '-':<36}  {_verdict(letter)}"
        + ("  sent again" if letter.redriven else "")
        for letter in letters
    ]
    passing = sum(letter.reason is None for letter in letters)
    lines.append(f"{counted(len(letters), 'dead letter')}: {passing} would pass the gates now.")
    asked = {None: 0, Which.PASSING: passing, Which.ALL: len(letters)}[redriven]
    left = asked - sum(letter.redriven for letter in letters)
    if left:
        lines.append(f"Not taken by the queue they came from: {left}; they stay where they are.")
    return lines, left


def _verdict(letter: Letter) -> str:
    if letter.reason is None:
        return "would pass now"
    return letter.reason + (f", at: {', '.join(letter.places)}" if letter.places else "")
