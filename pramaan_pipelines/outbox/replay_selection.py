"""What a replay takes of a day, batch by batch, and how far it has come.

Promises: each batch holds the replay's row in `ops.outbox_replays` and moves it on in its own
transaction; a run that finds it held passes by. An unsent row is locked with SKIP LOCKED, as a
relay locks it; a row that was sent is not locked, since nothing is written on it.
Never: waits for a lock while it holds one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import Any, Final, Self
from uuid import UUID

from sqlalchemy import Connection, text

from pramaan_pipelines.messaging.publisher import SendStatus
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.outbox.selection import Answered, DrainLimits, Row, fetch, fetch_keys

MAX_OWED: Final = 500
"""Rows passed by without being accepted; when there are so many, they come first."""

DAY: Final = """
    event_type = :event_type
    AND created_at >= CAST(:day AS date)::timestamp AT TIME ZONE 'UTC'
    AND created_at < (CAST(:day AS date) + 1)::timestamp AT TIME ZONE 'UTC'
"""

# Both read {table}_pending_day_idx (event_type, created_at, id) of the pending rows. First each of
# them is taken once, also one that pauses after a failure; then what is due, and so has come since,
# however late it was committed.
UNSENT_ONCE: Final = f"""
    SELECT {{columns}} FROM {{table}}
    WHERE dispatched_at IS NULL AND parked_at IS NULL AND {DAY}
      AND (created_at, id) > (:passed_at, :passed_id)
      AND (CAST(:only AS bigint) IS NULL OR id = :only)
    ORDER BY created_at, id LIMIT :max_rows FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - of constants
UNSENT_DUE: Final = f"""
    SELECT {{columns}} FROM {{table}}
    WHERE dispatched_at IS NULL AND parked_at IS NULL AND {DAY} AND next_attempt_at <= now()
    ORDER BY created_at, id LIMIT :max_rows FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - of constants
# Reads {table}_sent_day_idx (event_type, created_at, id) WHERE dispatched_at IS NOT NULL.
SENT: Final = f"""
    SELECT {{columns}} FROM {{table}}
    WHERE dispatched_at IS NOT NULL AND {DAY}
      AND (created_at, id) > (:passed_at, :passed_id) AND dispatched_at < :started_at
    ORDER BY created_at, id LIMIT :max_rows
"""  # noqa: S608 - of constants
# Reads the primary key.
OWED: Final = """
    SELECT {columns} FROM {table}
    WHERE id = ANY (:owed) AND event_type = :event_type AND dispatched_at IS NOT NULL
    ORDER BY created_at, id LIMIT :max_rows
"""

# By the primary key. A run that finds the replay held passes by, and looks again later without a
# transaction open.
LOCK: Final = text("""
    SELECT started_at, passed_at, passed_id, owed FROM ops.outbox_replays
    WHERE id = :id AND status = 'open' FOR UPDATE SKIP LOCKED
""")
STATUS: Final = text("SELECT status FROM ops.outbox_replays WHERE id = :id")
PROGRESS: Final = text("""
    UPDATE ops.outbox_replays SET
        updated_at = now(), passed_at = :passed_at, passed_id = :passed_id, owed = :owed,
        sent = sent + :sent, again = again + :again, failed = failed + :failed
    WHERE id = :id
""")
FINISH: Final = text("""
    UPDATE ops.outbox_replays SET status = 'finished', owed = '{}', updated_at = now()
    WHERE id = :id
""")


class Taking(StrEnum):
    """Which rows of the day a batch takes, in this order.

    A row that the destination never answers stops a run when it stands alone; what is before it in
    the order is done by then, and the live relay sends the rest of the unsent.
    """

    SENT = "sent before"
    UNSENT_ONCE = "unsent, each once"
    UNSENT_DUE = "unsent and due"
    OWED = "sent before and passed by"


QUERIES: Final = {
    Taking.SENT: SENT,
    Taking.UNSENT_ONCE: UNSENT_ONCE,
    Taking.UNSENT_DUE: UNSENT_DUE,
    Taking.OWED: OWED,
}
Key = tuple[datetime, int]


def before_day(day: date) -> Key:
    """Return the place before the first row of `day`.

    An index scan begins at the place and not at the day: one long ago would read all days between.
    """
    return datetime.combine(day, time.min, tzinfo=UTC), -(2**63)


@dataclass
class DayReplay:
    """The selection of one replay.

    Attributes:
        replay_id: its row in `ops.outbox_replays`.
        day: the rows' day, by created_at in UTC.
        also_sent: whether rows that were sent before the replay began are taken too.
        busy: another run had hold of the replay when this one last looked.
        finished: nothing was left to take.
        replaced: somebody has begun the replay anew.
        given_up: rows of before that this run was refused by name twice, or for good.
    """

    replay_id: UUID
    day: date
    also_sent: bool
    busy: bool = False
    finished: bool = False
    replaced: bool = False
    given_up: int = 0
    _only: int | None = None
    _taking: Taking = Taking.UNSENT_ONCE
    _passed: Key | None = None
    _owed: list[int] = field(default_factory=list)
    _unsent_passed: Key | None = None

    def select(self, connection: Connection, lane: Lane, limits: DrainLimits) -> list[Row]:
        """Take hold of the replay and return its next rows; where there are none, finish it."""
        held = connection.execute(LOCK, {"id": self.replay_id}).one_or_none()
        status = "open" if held else connection.scalar(STATUS, {"id": self.replay_id})
        self.busy = held is None and status == "open"
        self.finished, self.replaced = status == "finished", status == "abandoned"
        if held is None:
            return []
        started_at, passed_at, passed_id, self._owed = held
        self._passed = None if passed_at is None else (passed_at, passed_id)
        for taking in self._order():
            self._taking = taking
            rows = fetch(
                connection,
                QUERIES[taking],
                lane,
                limits,
                order="created_at, id",
                started_at=started_at,
                **self._parameters(),
            )
            if rows:
                return rows
        if self._only is None:
            connection.execute(FINISH, {"id": self.replay_id})
            self.finished = True
        return []

    def ids(self, connection: Connection, lane: Lane, limits: DrainLimits) -> Sequence[int] | None:
        """Return the ids of the unsent rows that the last batch was to take, and pass them."""
        if self._taking in {Taking.SENT, Taking.OWED}:
            return None
        keys = fetch_keys(connection, QUERIES[self._taking], lane, limits, **self._parameters())
        if keys and self._taking is Taking.UNSENT_ONCE:
            self._unsent_passed = keys[-1]
        return [row_id for _, row_id in keys]

    def narrowed(self, row_id: int) -> Self:
        """Return the selection of that unsent row."""
        return type(self)(self.replay_id, self.day, also_sent=False, _only=row_id)

    def settle(self, connection: Connection, answered: Answered) -> None:
        """Move the replay on past these rows; what was not accepted of them is owed."""
        of = {status: [row for row, r in answered if r.status is status] for status in SendStatus}
        accepted, last = of[SendStatus.ACCEPTED], answered[-1][0]
        given_up: list[Row] = []
        if self._taking is Taking.UNSENT_ONCE:
            self._unsent_passed = (last.created_at, last.id)
        elif self._taking is Taking.SENT:
            self._passed = (last.created_at, last.id)
            given_up = of[SendStatus.IMPOSSIBLE]
            missed = [*of[SendStatus.UNAVAILABLE], *of[SendStatus.REFUSED]]
            self._owed += [row.id for row in missed]
        elif self._taking is Taking.OWED:
            given_up = [*of[SendStatus.IMPOSSIBLE], *of[SendStatus.REFUSED]]
            ended = {row.id for row in (*accepted, *given_up)}
            self._owed = [row_id for row_id in self._owed if row_id not in ended]
        self.given_up += len(given_up)
        again = sum(row.again for row in accepted)
        connection.execute(
            PROGRESS,
            {
                "id": self.replay_id,
                "passed_at": self._passed and self._passed[0],
                "passed_id": self._passed and self._passed[1],
                "owed": self._owed,
                "sent": len(accepted) - again,
                "again": again,
                "failed": len(given_up),
            },
        )

    def _order(self) -> Sequence[Taking]:
        unsent = (Taking.UNSENT_ONCE, Taking.UNSENT_DUE)
        if self._only is not None:
            return unsent[:1]
        if not self.also_sent:
            return unsent
        many = (Taking.OWED,) if len(self._owed) >= MAX_OWED else ()
        return (*many, *Taking)

    def _parameters(self) -> dict[str, Any]:
        passed = self._unsent_passed if self._taking is Taking.UNSENT_ONCE else self._passed
        passed_at, passed_id = passed or before_day(self.day)
        return {
            "day": self.day,
            "only": self._only,
            "owed": self._owed,
            "passed_at": passed_at,
            "passed_id": passed_id,
        }
