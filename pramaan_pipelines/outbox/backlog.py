"""What waits: per lane, and what no lane will ever take.

Promises: reads the partial indexes of pending and parked rows only, so that asking is cheap at any
size; a baton that no runner picks up is counted and named.
Never: changes a row.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.outbox.lanes import LANES, OUTBOXES, Lane

# One index probe: is anything due now?
ANY_DUE: Final = """
    SELECT EXISTS (
        SELECT 1 FROM {table}
        WHERE dispatched_at IS NULL AND parked_at IS NULL
          AND event_type = :event_type AND next_attempt_at <= now())
"""

BACKLOG: Final = """
    SELECT
        count(*) FILTER (WHERE parked_at IS NULL),
        coalesce(extract(epoch FROM now() - min(created_at) FILTER (WHERE parked_at IS NULL)), 0),
        count(*) FILTER (WHERE parked_at IS NOT NULL)
    FROM {table}
    WHERE event_type = :event_type AND (
        (dispatched_at IS NULL AND parked_at IS NULL) OR parked_at IS NOT NULL)
"""

# A type is a stranger's text: a piece of it, and of the first rows only, is enough to know it by.
UNCLAIMED: Final = """
    SELECT left(event_type, 60) AS kind, count(*) FROM (
        SELECT event_type FROM {table}
        WHERE dispatched_at IS NULL AND parked_at IS NULL AND event_type <> ALL(:known)
        LIMIT 10000
    ) AS pending
    GROUP BY kind ORDER BY count(*) DESC, kind LIMIT 6
"""
MAX_KINDS: Final = 5


@dataclass(frozen=True)
class Backlog:
    """What stands in one lane.

    Attributes:
        pending: rows not yet sent.
        oldest_seconds: age of the oldest pending row, on the database's clock; 0 when none.
        parked: rows that wait for a person.
    """

    pending: int
    oldest_seconds: float
    parked: int


def any_due(connection: Connection, lane: Lane) -> bool:
    """Tell whether a drain of `lane` would take a row now."""
    found = connection.scalar(
        text(ANY_DUE.format(table=lane.outbox.table)), {"event_type": lane.event_type}
    )
    return bool(found)


def backlog(connection: Connection, lane: Lane) -> Backlog:
    """Count what stands in `lane`."""
    pending, oldest, parked = connection.execute(
        text(BACKLOG.format(table=lane.outbox.table)), {"event_type": lane.event_type}
    ).one()
    return Backlog(pending, float(oldest), parked)


def unclaimed_events(connection: Connection) -> dict[str, int]:
    """Return pending rows whose event_type no lane drains: a few types, safe to show, and counts.

    Counts stop at 10,000 rows of an outbox; of many types the most frequent are named.
    """
    found: dict[str, int] = {}
    for outbox in OUTBOXES:
        known = [str(lane.event_type) for lane in LANES if lane.outbox is outbox]
        rows = connection.execute(text(UNCLAIMED.format(table=outbox.table)), {"known": known})
        for number, (event_type, count) in enumerate(rows):
            named = number < MAX_KINDS
            told = safe_text(event_type, 60) if named else "and more types"
            found[f"{outbox.table}: {told}"] = count
    return found
