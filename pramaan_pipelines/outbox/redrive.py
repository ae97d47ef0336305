"""Sending parked rows again, once whatever was wrong with them is mended.

Promises: says what it would do before it does it; a redriven row is pending like any other, with
its attempts forgotten and its event_id and trace as they were.
Never: touches a row that is not parked.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import TextClause, text

from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.store.database import Database

MAX_SHOWN: Final = 50
BATCH_ROWS: Final = 10_000
"""Rows of one transaction, well within the time that a statement may take."""

# All read {table}_parked_idx (event_type, id) WHERE parked_at IS NOT NULL. The type is a range of
# one for the reason that SELECT_PENDING gives.
SELECTED: Final = """
    parked_at IS NOT NULL AND event_type BETWEEN :event_type AND :event_type
    AND (CAST(:since AS timestamptz) IS NULL OR parked_at >= :since)
    AND (CAST(:until AS timestamptz) IS NULL OR parked_at < :until)
    AND (CAST(:reason AS text) IS NULL OR strpos(parked_reason, :reason) > 0)
"""
COUNT: Final = "SELECT count(*) FROM {table} WHERE {selected}"
SHOW: Final = """
    SELECT event_id, parked_at, parked_reason FROM {table} WHERE {selected}
    ORDER BY event_type, id LIMIT :limit
"""
REDRIVEN: Final = """
    SELECT id FROM {table} WHERE {selected}
    ORDER BY event_type, id LIMIT :rows FOR UPDATE SKIP LOCKED
"""
REDRIVE: Final = f"""
    UPDATE {{table}} SET
        parked_at = NULL, parked_reason = NULL, attempts = 0, next_attempt_at = clock_timestamp()
    WHERE id = ANY (ARRAY({REDRIVEN}))
"""  # noqa: S608 - of constants


@dataclass(frozen=True)
class ParkedSelection:
    """Which parked rows of a lane; None selects all.

    Attributes:
        since: parked at this time or later.
        until: parked before this time.
        reason: a part of the reason's text, as it is written.
    """

    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ParkedRow:
    """A parked row as an operator sees it: no content."""

    event_id: UUID
    parked_at: datetime
    reason: str


@dataclass(frozen=True)
class RedriveResult:
    """What a redrive came to, or would come to.

    Attributes:
        selected: rows that the selection names.
        redriven: rows that are pending again; 0 in a dry run.
        rows: the first of those selected.
    """

    selected: int
    redriven: int
    rows: tuple[ParkedRow, ...]


def redrive_parked(
    database: Database, lane: Lane, selection: ParkedSelection, *, dry_run: bool
) -> RedriveResult:
    """Make the selected parked rows of `lane` pending again.

    Args:
        database: as the service role.
        lane: whose rows.
        selection: which of them.
        dry_run: count and show them, and change nothing.
    """
    with database.staff() as connection:
        selected = connection.scalar(*_query(COUNT, lane, selection)) or 0
        rows = connection.execute(*_query(SHOW, lane, selection, limit=MAX_SHOWN)).all()
    redriven = 0
    if not dry_run:
        # As many batches as were counted: a row that a relay parks again meanwhile is not chased.
        for _ in range(selected // BATCH_ROWS + 1):
            with database.staff() as connection:
                redriven += connection.execute(
                    *_query(REDRIVE, lane, selection, rows=BATCH_ROWS)
                ).rowcount
    return RedriveResult(selected, redriven, tuple(ParkedRow(*row) for row in rows))


def _query(
    query: str, lane: Lane, selection: ParkedSelection, **more: object
) -> tuple[TextClause, dict[str, object]]:
    return text(query.format(table=lane.outbox.table, selected=SELECTED)), {
        "event_type": str(lane.event_type),
        "since": selection.since,
        "until": selection.until,
        "reason": selection.reason,
        **more,
    }
