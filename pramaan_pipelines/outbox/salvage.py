"""What to do when the database itself cannot read a batch: find the row, and let the others go.

Promises: a row that Postgres cannot render is parked with the reason, and its neighbours are sent;
one that takes too long is put off, not parked, for that may be the server's fault.
Never: hides a fault of the database that is no row's: a lost connection, a lock, a missing right.
"""

from dataclasses import replace
from time import monotonic
from typing import Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pramaan_pipelines.messaging.publisher import Publisher, SendStatus
from pramaan_pipelines.outbox.drain import (
    DUE,
    DrainResult,
    Failure,
    _relay_pending_outbox_events,
)
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.outbox.selection import DrainLimits, Selection
from pramaan_pipelines.outbox.telling import RowEnd, RowOutcome, tell_ends
from pramaan_pipelines.store.database import Database, sqlstate
from pramaan_pipelines.telemetry.provider import Telemetry

# https://www.postgresql.org/docs/current/errcodes-appendix.html: data exception, and program limit
# exceeded.
UNREADABLE: Final = ("22", "54")
QUERY_CANCELED: Final = "57014"

SET_ASIDE: Final = """
    UPDATE {table} SET
        last_dispatch_error = :reason,
        parked_at = CASE WHEN :hopeless THEN now() END,
        parked_reason = CASE WHEN :hopeless THEN :reason END,
        next_attempt_at = clock_timestamp() + make_interval(secs => :pause)
    WHERE id = :id AND dispatched_at IS NULL AND parked_at IS NULL
    RETURNING event_id
"""


def drain_batch(  # noqa: PLR0913, PLR0917
    database: Database,
    publisher: Publisher,
    telemetry: Telemetry,
    limits: DrainLimits,
    lane: Lane,
    selection: Selection = DUE,
) -> DrainResult:
    """Drain one batch of what `selection` takes of `lane`; row by row where it cannot be read.

    Raises:
        DBAPIError: a fault of the database that is no row's.
    """
    try:
        return _relay_pending_outbox_events(database, publisher, telemetry, limits, lane, selection)
    except DBAPIError as error:
        if not _may_be_a_rows(error):
            raise
        unreadable = error
    with database.staff() as connection:
        ids = selection.ids(connection, lane, limits)
    if ids is None:
        raise unreadable
    total, deadline = DrainResult(), monotonic() + limits.send_seconds
    for row_id in ids:
        total = _sum(total, _one(database, publisher, telemetry, limits, lane, selection, row_id))
        if total.outage is not None or monotonic() > deadline:
            break  # The rest is still due, and at least one row has its end.
    return total


def _one(  # noqa: PLR0913, PLR0917
    database: Database,
    publisher: Publisher,
    telemetry: Telemetry,
    limits: DrainLimits,
    lane: Lane,
    selection: Selection,
    row_id: int,
) -> DrainResult:
    try:
        return _relay_pending_outbox_events(
            database, publisher, telemetry, limits, lane, selection.narrowed(row_id)
        )
    except DBAPIError as error:
        if not _may_be_a_rows(error):
            raise
        hopeless = sqlstate(error) != QUERY_CANCELED
        reason = f"Postgres cannot render this row ({sqlstate(error)})"
    with database.staff() as connection:
        event_id = connection.scalar(
            text(SET_ASIDE.format(table=lane.outbox.table)),
            {
                "id": row_id,
                "reason": reason,
                "hopeless": hopeless,
                "pause": limits.max_pause_seconds,
            },
        )
    if event_id is None:
        return DrainResult()
    status = SendStatus.IMPOSSIBLE if hopeless else SendStatus.REFUSED
    outcome = RowOutcome.PARKED if hopeless else RowOutcome.FAILED
    tell_ends(telemetry, lane, [RowEnd(event_id, outcome, status=status)])
    return DrainResult(
        selected=1,
        failed=int(not hopeless),
        parked=int(hopeless),
        failures=(Failure(event_id, status, reason, hopeless),),
    )


def _may_be_a_rows(error: DBAPIError) -> bool:
    state = sqlstate(error) or ""
    return state == QUERY_CANCELED or state.startswith(UNREADABLE)


def _sum(total: DrainResult, one: DrainResult) -> DrainResult:
    return replace(
        total,
        selected=total.selected + one.selected,
        sent=total.sent + one.sent,
        again=total.again + one.again,
        failed=total.failed + one.failed,
        parked=total.parked + one.parked,
        bytes=total.bytes + one.bytes,
        outage=total.outage or one.outage,
        failures=total.failures + one.failures,
    )
