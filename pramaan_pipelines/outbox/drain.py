"""One drain: one batch of one lane in one transaction, under one span.

Promises: exactly the rows that the selection names are taken; for the relays those are the lane's
pending rows, oldest first. A row is marked as dispatched in the transaction that held it while it
was sent, and each row gets its own end.
Never: re-stamps a trace context, sends a row of another lane, lets a row's fault stop its
neighbours, or counts an outage against a row.

The order inside the transaction is the guarantee: lock, send, mark, commit. A crash before the
destination accepts sends the row later; a crash after it sends the row twice, with one event_id.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError
from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.contracts.trace import trace_id_of
from pramaan_pipelines.messaging.publisher import (
    OutboundMessage,
    Publisher,
    SendResult,
    SendStatus,
)
from pramaan_pipelines.outbox.lanes import (
    DOCUMENT_INGEST,
    DOCUMENT_REGISTRATION,
    DOMAIN_EVENT,
    Lane,
)
from pramaan_pipelines.outbox.selection import Answered, DrainLimits, Due, Row, Selection
from pramaan_pipelines.outbox.telling import RowEnd, RowOutcome, tell_ends
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.propagation import link_from_trace_context
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines.telemetry.spans import manual_span, mark_failed

DUE: Final = Due()

MARK_SENT: Final = """
    UPDATE {table} SET dispatched_at = now(), last_dispatch_error = NULL
    WHERE id = ANY(:ids)
"""

# `blame` is 1 for a row that was refused by name and 0 for an outage, which costs a row nothing
# but a pause and never parks it. The pause doubles with each refusal, spread so that rows do not
# return as one herd; it begins when the answer is known, not when the transaction began.
MARK_UNSENT: Final = """
    UPDATE {table} AS o SET
        last_dispatch_error = f.error,
        attempts = o.attempts + f.blame,
        next_attempt_at = clock_timestamp() + make_interval(secs => (0.5 + random() / 2) * CASE
            WHEN f.blame = 0 THEN :pause
            ELSE least(:pause * 2 ^ least(o.attempts, 30), :max_pause) END),
        parked_at = CASE WHEN f.hopeless OR o.attempts + 1 >= :max_attempts AND f.blame = 1
                         THEN now() END,
        parked_reason = CASE WHEN f.hopeless OR o.attempts + 1 >= :max_attempts AND f.blame = 1
                             THEN f.error END
    FROM unnest(CAST(:ids AS bigint[]), CAST(:errors AS text[]),
                CAST(:blames AS integer[]), CAST(:hopeless AS boolean[]))
         AS f(id, error, blame, hopeless)
    WHERE o.id = f.id
    RETURNING o.id, o.parked_at IS NOT NULL
"""


class Failure(NamedTuple):
    """A row that was not sent, and why."""

    event_id: UUID
    status: SendStatus
    detail: str
    parked: bool


@dataclass(frozen=True)
class DrainResult:
    """What one batch came to.

    Attributes:
        selected: rows taken.
        sent: rows accepted, and marked as dispatched where they were not yet.
        again: those of them that had been sent before.
        failed: rows not sent, to be tried again.
        parked: rows that will not be tried again until somebody redrives them.
        bytes: body bytes of the rows sent.
        outage: what the destination said when the fault was not a row's; None when all is well.
        failures: each row that was not sent.
    """

    selected: int = 0
    sent: int = 0
    again: int = 0
    failed: int = 0
    parked: int = 0
    bytes: int = 0
    outage: str | None = None
    failures: tuple[Failure, ...] = field(default=())


def relay_pending_document_ingest_events(
    database: Database, publisher: Publisher, telemetry: Telemetry, limits: DrainLimits
) -> DrainResult:
    """Drain one batch of `document.ingest.requested` to the ingestion queue."""
    return _relay_pending_outbox_events(database, publisher, telemetry, limits, DOCUMENT_INGEST)


def relay_pending_document_registration_events(
    database: Database, publisher: Publisher, telemetry: Telemetry, limits: DrainLimits
) -> DrainResult:
    """Drain one batch of `document.registration.requested` to the registrar queue."""
    return _relay_pending_outbox_events(
        database, publisher, telemetry, limits, DOCUMENT_REGISTRATION
    )


def relay_pending_domain_events(
    database: Database, publisher: Publisher, telemetry: Telemetry, limits: DrainLimits
) -> DrainResult:
    """Drain one batch of `matter.created` to the event bus."""
    return _relay_pending_outbox_events(database, publisher, telemetry, limits, DOMAIN_EVENT)


def _relay_pending_outbox_events(  # noqa: PLR0913, PLR0917
    database: Database,
    publisher: Publisher,
    telemetry: Telemetry,
    limits: DrainLimits,
    lane: Lane,
    selection: Selection = DUE,
) -> DrainResult:
    """Drain one batch of what `selection` takes of `lane`: the body that every relay shares."""
    with (
        manual_span(telemetry.tracer, lane.span) as span,
        telemetry.timed(lane.metric) as timing,
        database.staff() as connection,
    ):
        rows = selection.select(connection, lane, limits)
        if telemetry.heard and span.is_recording():
            for row in rows:
                if link := link_from_trace_context(row.trace):
                    span.add_link(link.context)
        span.set_attribute("messaging.batch.message_count", len(rows))
        if not rows:
            return DrainResult()
        answered = list(zip(rows, _send(publisher, lane, limits, rows), strict=True))
        result, ends = _mark(connection, lane, limits, answered)
        selection.settle(connection, answered)
        if result.outage is not None:
            mark_failed(span, SendStatus.UNAVAILABLE)
            timing.failed(SendStatus.UNAVAILABLE)
    tell_ends(telemetry, lane, ends)
    return result


def _send(
    publisher: Publisher, lane: Lane, limits: DrainLimits, rows: Sequence[Row]
) -> list[SendResult]:
    """Return the answer for each row, in order; what must not be sent is answered here."""
    problems = [_problem(lane, row) for row in rows]
    messages = [
        OutboundMessage(str(row.event_id), lane.event_type, row.body or "", row.trace)
        for row, problem in zip(rows, problems, strict=True)
        if problem is None
    ]
    answers = iter(
        publisher.send(messages, deadline=monotonic() + limits.send_seconds) if messages else ()
    )
    return [
        next(answers) if problem is None else SendResult(SendStatus.IMPOSSIBLE, problem)
        for problem in problems
    ]


def _problem(lane: Lane, row: Row) -> str | None:
    """Return why a row must never be sent; None where it may be.

    An envelope that names another firm or event than its row would act under that name: row level
    security has looked at the row's columns only.
    """
    if row.body is None:
        return "body over 256 KiB"
    if lane.parse is None:
        return None
    try:
        envelope = lane.parse(row.body)
    except EnvelopeRefusedError as refused:
        return safe_text(f"no envelope of this event, at: {', '.join(refused.places)}")
    if (envelope.event_id, envelope.firm_id) != (row.event_id, row.firm_id):
        return "the envelope names another event or firm than its row"
    return None


def _mark(
    connection: Connection,
    lane: Lane,
    limits: DrainLimits,
    answered: Answered,
) -> tuple[DrainResult, list[RowEnd]]:
    """Write each row's end. One that was sent before keeps the first: its retention counts on."""
    table = lane.outbox.table
    sent = [row for row, result in answered if result.status is SendStatus.ACCEPTED]
    if new := [row.id for row in sent if not row.again]:
        connection.execute(text(MARK_SENT.format(table=table)), {"ids": new})
    unsent = [(row, result) for row, result in answered if result.status is not SendStatus.ACCEPTED]
    parked: set[int] = set()
    if pending := [(row, result) for row, result in unsent if not row.again]:
        marked = connection.execute(
            text(MARK_UNSENT.format(table=table)),
            {
                "ids": [row.id for row, _ in pending],
                "errors": [_error(result) for _, result in pending],
                "blames": [
                    int(result.status is not SendStatus.UNAVAILABLE) for _, result in pending
                ],
                "hopeless": [result.status is SendStatus.IMPOSSIBLE for _, result in pending],
                "pause": limits.pause_seconds,
                "max_pause": limits.max_pause_seconds,
                "max_attempts": limits.attempts,
            },
        )
        parked = {row_id for row_id, is_parked in marked if is_parked}
    outages = Counter(_error(r) for _, r in unsent if r.status is SendStatus.UNAVAILABLE)
    total = DrainResult(
        selected=len(answered),
        sent=len(sent),
        again=len(sent) - len(new),
        failed=len(unsent) - len(parked),
        parked=len(parked),
        bytes=sum(row.bytes for row in sent),
        outage=outages.most_common(1)[0][0] if outages else None,
        failures=tuple(
            Failure(row.event_id, result.status, _error(result), row.id in parked)
            for row, result in unsent
        ),
    )
    return total, [_end(row, result, is_parked=row.id in parked) for row, result in answered]


def _end(row: Row, result: SendResult, *, is_parked: bool) -> RowEnd:
    trace_id = trace_id_of(row.traceparent)
    if result.status is SendStatus.ACCEPTED:
        outcome = RowOutcome.RESENT if row.again else RowOutcome.SENT
        return RowEnd(row.event_id, outcome, trace_id)
    outcome = RowOutcome.PARKED if is_parked else RowOutcome.FAILED
    return RowEnd(row.event_id, outcome, trace_id, result.status)


def _error(result: SendResult) -> str:
    return result.detail or str(result.status)
