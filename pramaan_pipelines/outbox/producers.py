"""What the application calls inside its own transaction.

Promises: the row and the change that it announces commit together or not at all; the live span's
trace context is stamped on the row here and nowhere else.
Never: opens or ends a transaction; a scope under the firm is the caller's.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from pramaan_pipelines.contracts.envelopes import MatterCreated, MatterSubject
from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.errors import ScopeError
from pramaan_pipelines.telemetry.propagation import stamp_current_trace

INSERT_DOCUMENT_EVENT: Final = text("""
    INSERT INTO ops.document_ingest_outbox
        (event_id, firm_id, document_id, event_type, traceparent, tracestate)
    VALUES (:event_id, :firm_id, :document_id, :event_type, :traceparent, :tracestate)
""")

# The status moves once, whoever asks and however often: the row lock decides.
QUEUE_REGISTRATION: Final = text("""
    UPDATE public.documents SET registration_status = 'queued'
    WHERE id = :document_id AND firm_id = :firm_id AND registration_status = 'not_requested'
    RETURNING id
""")

DOCUMENT_VISIBLE: Final = text(
    "SELECT 1 FROM public.documents WHERE id = :document_id AND firm_id = :firm_id"
)

INSERT_DOMAIN_EVENT: Final = text("""
    INSERT INTO ops.domain_event_outbox
        (event_id, firm_id, event_type, envelope, traceparent, tracestate)
    VALUES (:event_id, :firm_id, :event_type, CAST(:envelope AS jsonb), :traceparent, :tracestate)
""")

INSERT_MATTER: Final = text(
    "INSERT INTO public.matters (id, firm_id, title) VALUES (:matter_id, :firm_id, :title)"
)


def insert_document_ingest_event(
    connection: Connection | Session,
    *,
    firm_id: UUID,
    document_id: UUID,
    event_type: EventType = EventType.DOCUMENT_INGEST_REQUESTED,
) -> UUID:
    """Write one outbox row for a document, stamped with the live span's trace context.

    Args:
        connection: in a transaction under `firm_id`.
        firm_id: the document's firm.
        document_id: the document.
        event_type: which of the two batons.

    Returns:
        The event_id.
    """
    event_id = uuid4()
    connection.execute(
        INSERT_DOCUMENT_EVENT,
        {
            "event_id": event_id,
            "firm_id": firm_id,
            "document_id": document_id,
            "event_type": event_type,
            **stamp_current_trace()._asdict(),
        },
    )
    return event_id


def request_registration(
    connection: Connection | Session, *, firm_id: UUID, document_id: UUID
) -> UUID | None:
    """Move the document's registration_status from not_requested to queued and write its baton.

    Called again, it changes nothing.

    Returns:
        The event_id, or None where registration had been requested before.

    Raises:
        ScopeError: the document is not visible under the caller's firm.
    """
    subject = {"document_id": document_id, "firm_id": firm_id}
    if connection.execute(QUEUE_REGISTRATION, subject).first() is None:
        if connection.execute(DOCUMENT_VISIBLE, subject).first() is None:
            raise ScopeError(
                "the document is not visible: open the scope of its firm before the request"
            )
        return None
    return insert_document_ingest_event(
        connection,
        firm_id=firm_id,
        document_id=document_id,
        event_type=EventType.DOCUMENT_REGISTRATION_REQUESTED,
    )


def emit_domain_event(connection: Connection | Session, envelope: MatterCreated) -> UUID:
    """Write a domain event to its outbox, stamped with the live span's trace context.

    Args:
        connection: in the transaction of the change that the event tells of.
        envelope: what happened; a trace context in it is replaced by the live one.

    Returns:
        The event_id.
    """
    trace = stamp_current_trace()
    stamped = envelope.model_copy(update=trace._asdict())
    connection.execute(
        INSERT_DOMAIN_EVENT,
        {
            "event_id": envelope.event_id,
            "firm_id": envelope.firm_id,
            "event_type": envelope.event_type,
            "envelope": stamped.model_dump_json(),
            **trace._asdict(),
        },
    )
    return envelope.event_id


class CreatedMatter(NamedTuple):
    """The ids of a new matter and of the event that announces it."""

    matter_id: UUID
    event_id: UUID


def create_matter(
    connection: Connection | Session, *, firm_id: UUID, title: str, environment: str
) -> CreatedMatter:
    """Insert a matter and its `matter.created` event; both commit with the caller.

    Args:
        connection: in a transaction under `firm_id`.
        firm_id: the matter's firm.
        title: stays in the matter's row; the envelope carries ids only.
        environment: which environment the event belongs to (EB-09).
    """
    matter_id = uuid4()
    connection.execute(INSERT_MATTER, {"matter_id": matter_id, "firm_id": firm_id, "title": title})
    event_id = emit_domain_event(
        connection,
        MatterCreated(
            event_id=uuid4(),
            event_type=EventType.MATTER_CREATED,
            schema_version=1,
            environment=environment,
            occurred_at=datetime.now(UTC),
            firm_id=firm_id,
            subject=MatterSubject(type="matter", id=matter_id),
        ),
    )
    return CreatedMatter(matter_id, event_id)
