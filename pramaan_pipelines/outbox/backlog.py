"""What waits: per lane, and what no lane will ever take.

Promises: reads the partial indexes of pending and parked rows only, and counts to a limit, so that
asking is cheap at any size; a baton that no runner picks up is counted and named; in any scope
but the staff worker's it raises ScopeError, rather than count one firm's rows, or none.
Never: changes a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from pramaan_pipelines.contracts.event_types import shown_type
from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.outbox.lanes import LANES, OUTBOXES, Lane
from pramaan_pipelines.store.counting import COUNT_LIMIT, Count, by_index
from pramaan_pipelines.store.database import require_staff

# Each reads {table}_pending_idx (event_type, id), in the order in which a drain takes the rows. The
# type is a range of one, because an equality would let the planner sort by the primary key instead,
# and walk over every row that was ever sent; of an EXISTS it would drop the order.
ANY_DUE: Final = """
    SELECT (
        SELECT 1 FROM {table}
        WHERE dispatched_at IS NULL AND parked_at IS NULL
          AND event_type BETWEEN :event_type AND :event_type AND next_attempt_at <= now()
        ORDER BY event_type, id LIMIT 1) IS NOT NULL
"""
PENDING: Final = """
    SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0) FROM (
        SELECT created_at FROM {table}
        WHERE dispatched_at IS NULL AND parked_at IS NULL
          AND event_type BETWEEN :event_type AND :event_type
        ORDER BY event_type, id LIMIT :limit
    ) AS first
"""
# {table}_parked_idx (event_type, id).
PARKED: Final = """
    SELECT count(*) FROM (
        SELECT 1 FROM {table} WHERE parked_at IS NOT NULL AND event_type = :event_type LIMIT :limit
    ) AS first
"""
OLDEST: Final = """
    SELECT event_id, created_at, last_dispatch_error FROM {table}
    WHERE dispatched_at IS NULL AND parked_at IS NULL
      AND event_type BETWEEN :event_type AND :event_type
    ORDER BY event_type, id LIMIT :limit
"""
STUCK: Final = """
    SELECT event_id, parked_at, parked_reason FROM {table}
    WHERE parked_at IS NOT NULL AND event_type BETWEEN :event_type AND :event_type
    ORDER BY event_type, id LIMIT :limit
"""

# A loose scan of {table}_pending_idx (event_type, id): one probe a type, however many rows it has.
# A stranger may give each row a type of its own, so the probes are limited too.
UNCLAIMED: Final = """
    WITH RECURSIVE kinds AS (
        (SELECT event_type FROM {table}
         WHERE dispatched_at IS NULL AND parked_at IS NULL
         ORDER BY event_type LIMIT 1)
        UNION ALL
        SELECT (SELECT next.event_type FROM {table} AS next
                WHERE next.dispatched_at IS NULL AND next.parked_at IS NULL
                  AND next.event_type > kinds.event_type
                ORDER BY next.event_type LIMIT 1)
        FROM kinds WHERE kinds.event_type IS NOT NULL
    ), strange AS (
        SELECT event_type FROM kinds
        WHERE event_type IS NOT NULL AND event_type <> ALL(:known) LIMIT :kinds
    )
    SELECT left(event_type, 60), (
        SELECT count(*) FROM (
            SELECT 1 FROM {table} AS pending
            WHERE pending.dispatched_at IS NULL AND pending.parked_at IS NULL
              AND pending.event_type = strange.event_type
            LIMIT :limit
        ) AS first)
    FROM strange
    UNION ALL
    -- An application's own table may hold rows without any type.
    SELECT 'none', count(*) FROM (
        SELECT 1 FROM {table}
        WHERE dispatched_at IS NULL AND parked_at IS NULL AND event_type IS NULL LIMIT :limit
    ) AS first HAVING count(*) > 0
"""
MAX_KINDS: Final = 20
"""Types without a lane that are looked at, in an outbox."""
MAX_KINDS_NAMED: Final = 5
OTHERS: Final = "other types"


@dataclass(frozen=True)
class Backlog:
    """What stands in one lane.

    Attributes:
        pending: rows not yet sent.
        oldest_seconds: age of the oldest pending row (among those counted), on the database's
            clock; 0 when none.
        parked: rows that wait for a person.
    """

    pending: Count
    oldest_seconds: float
    parked: Count


@dataclass(frozen=True)
class WaitingRow:
    """A row that waits, as an operator sees it: no content.

    Attributes:
        event_id: of the row.
        since: when it was created, or parked.
        reason: the last error, or why it was parked; None where there was none yet.
    """

    event_id: UUID
    since: datetime
    reason: str | None


def any_due(connection: Connection, lane: Lane) -> bool:
    """Tell whether a drain of `lane` would take a row now."""
    require_staff(connection)
    found = connection.scalar(
        text(ANY_DUE.format(table=lane.outbox.table)), {"event_type": lane.event_type}
    )
    return bool(found)


def backlog(connection: Connection, lane: Lane, limit: int = COUNT_LIMIT) -> Backlog:
    """Count what stands in `lane`, up to `limit` rows pending and as many parked."""
    require_staff(connection)
    by_index(connection)
    asked = {"event_type": lane.event_type, "limit": limit + 1}
    pending, oldest = connection.execute(text(PENDING.format(table=lane.outbox.table)), asked).one()
    parked = connection.scalar(text(PARKED.format(table=lane.outbox.table)), asked) or 0
    return Backlog(Count.of(pending, limit), float(oldest), Count.of(parked, limit))


def oldest_pending(connection: Connection, lane: Lane, limit: int) -> list[WaitingRow]:
    """Return the first `limit` rows that a drain of `lane` would come to."""
    return _named(connection, OLDEST, lane, limit)


def first_parked(connection: Connection, lane: Lane, limit: int) -> list[WaitingRow]:
    """Return the first `limit` parked rows of `lane`."""
    return _named(connection, STUCK, lane, limit)


def _named(connection: Connection, query: str, lane: Lane, limit: int) -> list[WaitingRow]:
    require_staff(connection)
    by_index(connection)
    rows = connection.execute(
        text(query.format(table=lane.outbox.table)),
        {"event_type": lane.event_type, "limit": limit},
    )
    return [
        WaitingRow(event_id, since, None if reason is None else safe_text(reason))
        for event_id, since, reason in rows
    ]


def unclaimed_events(connection: Connection, limit: int = COUNT_LIMIT) -> dict[str, Count]:
    """Return pending rows whose event_type no lane drains: a few types, safe to show, and counts.

    Counts stop at `limit` rows a type. Of 20 types of an outbox the most frequent five are named;
    the rest are one entry.
    """
    require_staff(connection)
    by_index(connection)
    found: dict[str, Count] = {}
    for outbox in OUTBOXES:
        known = [str(lane.event_type) for lane in LANES if lane.outbox is outbox]
        rows = list(
            connection.execute(
                text(UNCLAIMED.format(table=outbox.table)),
                {"known": known, "kinds": MAX_KINDS + 1, "limit": limit + 1},
            )
        )
        rows.sort(key=lambda row: (-row[1], row[0]))
        for place, (kind, number) in enumerate(rows):
            told = shown_type(kind) if place < MAX_KINDS_NAMED else OTHERS
            name, count = f"{outbox.table}: {told}", Count.of(number, limit)
            # Two strangers may look alike once they are made safe to show.
            found[name] = found.get(name, Count(0)) + count
        if len(rows) > MAX_KINDS:
            found[f"{outbox.table}: {OTHERS}"] += Count(0, more=True)
    return found


def told_of_kinds(unclaimed: Mapping[str, Count]) -> str:
    """Return what `unclaimed_events` found as one line."""
    return ", ".join(f"{kind} ({count})" for kind, count in unclaimed.items())
