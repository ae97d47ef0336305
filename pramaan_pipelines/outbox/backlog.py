"""What waits: per lane, and what no lane will ever take.

Promises: reads the partial indexes of pending and parked rows only, so that asking is cheap at any
size; a baton that no runner picks up is counted and named.
Never: changes a row.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

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

UNCLAIMED: Final = """
    SELECT event_type, count(*) FROM {table}
    WHERE dispatched_at IS NULL AND parked_at IS NULL AND event_type <> ALL(:known)
    GROUP BY event_type ORDER BY event_type
"""


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
    """Return the pending rows whose event_type no lane drains: type and count."""
    found: dict[str, int] = {}
    for outbox in OUTBOXES:
        known = [str(lane.event_type) for lane in LANES if lane.outbox is outbox]
        rows = connection.execute(text(UNCLAIMED.format(table=outbox.table)), {"known": known})
        for event_type, count in rows:
            found[f"{outbox.table}: {event_type}"] = count
    return found
