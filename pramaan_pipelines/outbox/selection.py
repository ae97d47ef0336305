"""What chooses the rows of a drain: the live relay's rows here, a replay's in `replay.py`.

Promises: every choice is bounded in rows and bytes in the database, so that what is over the budget
is not fetched; a row that is to be marked is locked, and one that somebody else holds is passed by.
Never: chooses a row of another lane.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from typing import Any, Final, NamedTuple, Protocol, Self
from uuid import UUID

from sqlalchemy import Connection, text

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.messaging.publisher import SendResult
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.telemetry.provider import MAX_BATCH_ROWS

MAX_MESSAGE_BYTES: Final = 256 * 1024

# Reads {table}_pending_idx (event_type, id) WHERE dispatched_at IS NULL AND parked_at IS NULL. The
# type is a range of one: by an equality the primary key would be in order too, and where the
# statistics say that most rows are pending (an outage's backlog, drained since), it would be walked
# over every row that was ever sent.
SELECT_PENDING: Final = """
    SELECT {columns} FROM {table}
    WHERE dispatched_at IS NULL AND parked_at IS NULL
      AND event_type BETWEEN :event_type AND :event_type AND next_attempt_at <= now()
      AND (CAST(:only AS bigint) IS NULL OR id = :only)
    ORDER BY event_type, id
    LIMIT :max_rows
    FOR UPDATE SKIP LOCKED
"""

# The running sum cuts the batch by bytes in the database: what is over the budget is not fetched,
# and its lock goes with the commit. A body over the limit is not fetched at all, only its size.
BATCH: Final = """
    WITH due AS MATERIALIZED ({rows}), sized AS (
        SELECT *, octet_length(body) AS bytes,
               sum(least(octet_length(body), :max_message)) OVER (ORDER BY {order}) AS running
        FROM due
    )
    SELECT id, event_id, firm_id, traceparent, tracestate, created_at, again, bytes,
           CASE WHEN bytes <= :max_message THEN body END AS body
    FROM sized WHERE running <= :max_bytes ORDER BY {order}
"""
COLUMNS: Final = (
    "id, event_id, firm_id, traceparent, tracestate, created_at, "
    "dispatched_at IS NOT NULL AS again, {body} AS body"
)


@dataclass(frozen=True)
class DrainLimits:
    """The bounds of one batch, and of what a row may cost.

    Attributes:
        rows: the most rows of a batch; at most MAX_BATCH_ROWS, the bound of a span's links.
        bytes: the most body bytes of a batch held in memory, at least one message's limit.
        send_seconds: no call to the destination starts later than this after the first.
        attempts: refusals by name before a row is parked.
        pause_seconds: the first pause after a failure.
        max_pause_seconds: the longest pause.
    """

    rows: int = 500
    bytes: int = 8 * 1024 * 1024
    send_seconds: float = 20.0
    attempts: int = 8
    pause_seconds: float = 20.0
    max_pause_seconds: float = 3600.0

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MAX_BATCH_ROWS:
            raise ValueError(f"rows must be from 1 to {MAX_BATCH_ROWS}")
        if self.bytes < MAX_MESSAGE_BYTES:
            raise ValueError(f"bytes must be at least {MAX_MESSAGE_BYTES}, or no row might fit")


class Row(NamedTuple):
    """A row as a drain takes it; `again` where it was sent before, `body` None where too large."""

    id: int
    event_id: UUID
    firm_id: UUID
    traceparent: str | None
    tracestate: str | None
    created_at: datetime
    again: bool
    bytes: int
    body: str | None

    @property
    def trace(self) -> TraceContext:
        """The trace context as the producer stamped it."""
        return TraceContext(self.traceparent, self.tracestate)


Answered = Sequence[tuple[Row, SendResult]]


class Selection(Protocol):
    """Chooses the rows of one drain, inside the drain's transaction."""

    def select(self, connection: Connection, lane: Lane, limits: DrainLimits) -> list[Row]:
        """Return the rows of the next batch; none where there is nothing left to take."""

    def ids(self, connection: Connection, lane: Lane, limits: DrainLimits) -> Sequence[int] | None:
        """Return the ids of that batch without reading a body, to find one that cannot be read.

        None where its rows were sent before: they could be read then, and the fault is no row's.
        """

    def narrowed(self, row_id: int) -> Self:
        """Return the selection of one row of that batch."""

    def settle(self, connection: Connection, answered: Answered) -> None:
        """Hear, in the same transaction, what became of the rows."""


@dataclass(frozen=True)
class Due:
    """What the live relay takes: the pending rows that are due, or the one of them that is named.

    Attributes:
        only: the id of the one row; None takes all.
    """

    only: int | None = None

    def select(self, connection: Connection, lane: Lane, limits: DrainLimits) -> list[Row]:
        """Lock and return the oldest rows that are due."""
        return fetch(connection, SELECT_PENDING, lane, limits, only=self.only)

    def ids(self, connection: Connection, lane: Lane, limits: DrainLimits) -> Sequence[int]:
        """Return the ids of those rows."""
        keys = fetch_keys(connection, SELECT_PENDING, lane, limits, only=self.only)
        return [row_id for _, row_id in keys]

    def narrowed(self, row_id: int) -> Self:
        """Return the selection of that row."""
        return type(self)(row_id)

    def settle(self, connection: Connection, answered: Answered) -> None:
        """Keep nothing: what is pending is all the progress there is."""


def fetch(
    connection: Connection,
    query: str,
    lane: Lane,
    limits: DrainLimits,
    *,
    order: str = "id",
    **parameters: Any,
) -> list[Row]:
    """Return the rows of `query` that fit `limits`, in `order`."""
    columns = COLUMNS.format(body=lane.outbox.body)
    rows = query.format(table=lane.outbox.table, columns=columns)
    found = connection.execute(
        text(BATCH.format(rows=rows, order=order)),
        {
            "event_type": lane.event_type,
            "max_rows": limits.rows,
            "max_bytes": limits.bytes,
            "max_message": MAX_MESSAGE_BYTES,
            **parameters,
        },
    )
    return list(starmap(Row, found.all()))


def fetch_keys(
    connection: Connection, query: str, lane: Lane, limits: DrainLimits, **parameters: Any
) -> list[tuple[datetime, int]]:
    """Return created_at and id of what `query` finds, in its order."""
    statement = text(query.format(table=lane.outbox.table, columns="created_at, id"))
    given = {"event_type": lane.event_type, "max_rows": limits.rows, **parameters}
    return [(created_at, row_id) for created_at, row_id in connection.execute(statement, given)]
