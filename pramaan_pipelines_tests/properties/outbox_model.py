"""What an outbox is, in plain Python: where each row stands and what its destination was given.

Promises: it predicts which rows a drain takes and where each of them is afterwards.
Never: asks the database.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from uuid import UUID

from pramaan_pipelines.messaging.publisher import SendResult, SendStatus
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.outbox.selection import DrainLimits

LIMITS: Final = DrainLimits(rows=3, attempts=2, pause_seconds=7200, max_pause_seconds=7200)
"""Few rows and attempts, so that their bounds are met; pauses that no test waits for."""


class Answer(StrEnum):
    """What the destination does with one row."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    IMPOSSIBLE = "impossible"
    UNAVAILABLE = "unavailable"
    LOST = "lost"
    """It takes the row, and its answer never arrives."""

    @property
    def taken(self) -> bool:
        """Whether the destination has the row now."""
        return self in {Answer.ACCEPTED, Answer.LOST}

    @property
    def result(self) -> SendResult:
        """What the publisher says of it."""
        if self is Answer.LOST:
            return SendResult(SendStatus.UNAVAILABLE, "the answer was lost")
        return SendResult(SendStatus(self), None if self is Answer.ACCEPTED else f"told: {self}")


class Place(StrEnum):
    """Where a row stands: always in exactly one of these."""

    PENDING = "pending"
    DISPATCHED = "dispatched"
    PARKED = "parked"


@dataclass
class Row:
    """One row of an outbox.

    Attributes:
        lane: whose it is.
        number: its id, by which a lane is ordered.
        place: where it stands.
        attempts: refusals by name since it was written or redriven.
        due: whether its pause is over.
        taken: how often the destination took it.
        windows: how often it was taken and that was not marked: a crash before the commit, or an
            answer that was lost. Nothing else lets it be sent again.
    """

    lane: Lane
    number: int
    place: Place = Place.PENDING
    attempts: int = 0
    due: bool = True
    taken: int = 0
    windows: int = 0


@dataclass
class OutboxModel:
    """All rows by event, and those that a drain under way holds."""

    rows: dict[UUID, Row] = field(default_factory=dict)
    held: set[UUID] = field(default_factory=set)

    def next_batch(self, lane: Lane) -> list[UUID]:
        """Return what a drain of `lane` takes now: the oldest that are due and free."""
        free = [
            (row.number, event)
            for event, row in self.rows.items()
            if row.lane is lane and row.place is Place.PENDING and row.due
            if event not in self.held
        ]
        return [event for _, event in sorted(free)][: LIMITS.rows]

    def take(self, events: Iterable[UUID], answers: Iterable[Answer]) -> None:
        """Let the destination answer; what it took it has, whatever becomes of the drain."""
        for event, answer in zip(events, answers, strict=True):
            row = self.rows[event]
            assert row.place is Place.PENDING
            assert row.taken <= row.windows, "sent again though its acceptance was marked"
            row.taken += answer.taken

    def commit(self, events: Sequence[UUID], answers: Sequence[Answer]) -> None:
        """Mark what the answers say."""
        for event, answer in zip(events, answers, strict=True):
            row = self.rows[event]
            if answer is Answer.ACCEPTED:
                row.place = Place.DISPATCHED
                continue
            row.due = False
            row.windows += answer is Answer.LOST
            row.attempts += answer in {Answer.REFUSED, Answer.IMPOSSIBLE}
            spent = answer is Answer.REFUSED and row.attempts >= LIMITS.attempts
            if answer is Answer.IMPOSSIBLE or spent:
                row.place = Place.PARKED

    def roll_back(self, events: Sequence[UUID], answers: Sequence[Answer]) -> None:
        """Forget the drain; what was taken meanwhile may be sent again."""
        for event, answer in zip(events, answers, strict=True):
            self.rows[event].windows += answer.taken

    def redrive(self, lane: Lane) -> int:
        """Make the parked rows of `lane` pending, and return how many they were."""
        parked = [r for r in self.rows.values() if r.lane is lane and r.place is Place.PARKED]
        for row in parked:
            row.place, row.attempts, row.due = Place.PENDING, 0, True
        return len(parked)

    def all_due(self) -> None:
        """Let every pause end."""
        for row in self.rows.values():
            row.due = True

    def pending(self) -> list[UUID]:
        """Return what still has to be sent."""
        return [event for event, row in self.rows.items() if row.place is Place.PENDING]

    def parked(self) -> list[UUID]:
        """Return what waits for a person."""
        return [event for event, row in self.rows.items() if row.place is Place.PARKED]
