"""The fixed set of events that the demo pushes, and how each should end.

Promises: the good are written by the producers in a firm's own scope, inside a live span; the bad
go where a stranger could put them: on the bus or on the queue.
Never: needs more than the service's own privileges.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Final
from uuid import UUID, uuid4

from opentelemetry.trace import Tracer, format_trace_id

from pramaan_pipelines.contracts.envelopes import MatterCreated, MatterSubject
from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.contracts.outcomes import Outcome, RefusalReason
from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.seed import ASHA, BANYAN, CEDAR, FIRMS, ensure_firm, new_document
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.eventbridge import EventBusPublisher
from pramaan_pipelines.messaging.publisher import OutboundMessage, Publisher, SendStatus
from pramaan_pipelines.messaging.sqs import QueueClient
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOCUMENT_REGISTRATION
from pramaan_pipelines.outbox.producers import (
    create_matter,
    insert_document_ingest_event,
    request_registration,
)
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.propagation import stamp_current_trace

DELIVERED: Final = "delivered"
"""How a document's event ends here: as a message on its queue, which the demo takes off."""

SEND_SECONDS: Final = 10.0


@dataclass
class Case:
    """One event, how it should end, and how it did.

    Attributes:
        name: what is tried.
        expected: an outcome, `refused: reason`, or `delivered`.
        firm_id: under which its rows stand; None where there is no envelope.
        matter_id: of a matter that was created; None elsewhere.
        event_id: of the row and the envelope; None where the body is no envelope.
        trace_id: of the producer's span, 32 hex digits.
        lane: of a document's relay.
        message_id: of the SQS message, once known.
        run_ids: the Dagster runs it made.
        became: as `expected`; None while it is under way.
        faults: what should not have happened.
    """

    name: str
    expected: str
    firm_id: UUID | None = None
    matter_id: UUID | None = None
    event_id: UUID | None = None
    trace_id: str | None = None
    lane: str | None = None
    message_id: str | None = None
    run_ids: tuple[str, ...] = ()
    became: str | None = None
    faults: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether it ended as it should."""
        return self.became == self.expected and not self.faults


def _matter_of(case: Case) -> UUID:
    if case.matter_id is None:
        raise LocalStackError(f"{case.name} is no matter's case")
    return case.matter_id


def refused(reason: RefusalReason) -> str:
    """Return how a refused case is told."""
    return f"{Outcome.REFUSED}: {reason}"


class Pusher:
    """Pushes the cases onto the road.

    Args:
        settings: of the stack.
        database: as the service role.
        tracer: whose spans the producers run in.
    """

    def __init__(self, settings: Settings, database: Database, tracer: Tracer) -> None:
        self._settings = settings
        self._database = database
        self._tracer = tracer
        self._bus = EventBusPublisher.from_settings(settings)
        self._queue = QueueClient(
            client("sqs", settings), settings.require("framer_events_queue_url")
        )
        for firm in FIRMS:
            with database.firm(firm.id) as connection:
                ensure_firm(connection, firm)

    def documents(self) -> Iterator[Case]:
        """Push documents into both lanes."""
        for number in (1, 2, 3):
            with self._span() as trace_id, self._database.firm(ASHA.id) as connection:
                document = new_document(connection, ASHA.id, None)
                event = insert_document_ingest_event(
                    connection, firm_id=ASHA.id, document_id=document
                )
            yield Case(
                f"document {number} uploaded",
                DELIVERED,
                firm_id=ASHA.id,
                event_id=event,
                trace_id=trace_id,
                lane=DOCUMENT_INGEST.name,
            )
        for number in (1, 2):
            with self._span() as trace_id, self._database.firm(BANYAN.id) as connection:
                document = new_document(connection, BANYAN.id, None)
                first = request_registration(connection, firm_id=BANYAN.id, document_id=document)
                again = request_registration(connection, firm_id=BANYAN.id, document_id=document)
            yield Case(
                f"document {number} indexed, registration asked for twice",
                DELIVERED,
                firm_id=BANYAN.id,
                event_id=first,
                trace_id=trace_id,
                lane=DOCUMENT_REGISTRATION.name,
                faults=() if again is None else ("two registration rows",),
            )

    def matters(self) -> Iterator[Case]:
        """Create matters, in firms with and without consent."""
        for name, firm, expected in (
            ("matter created", ASHA, Outcome.STARTED),
            ("another matter of that firm", ASHA, Outcome.STARTED),
            ("matter of another firm", BANYAN, Outcome.STARTED),
            ("matter of a firm without consent", CEDAR, Outcome.CONSENT_BLOCKED),
        ):
            with self._span() as trace_id, self._database.firm(firm.id) as connection:
                created = create_matter(
                    connection,
                    firm_id=firm.id,
                    title="A sample matter",
                    environment=self._settings.pramaan_environment,
                )
            yield Case(
                name,
                str(expected),
                firm_id=firm.id,
                matter_id=created.matter_id,
                event_id=created.event_id,
                trace_id=trace_id,
            )

    def duplicate_of(self, case: Case) -> Case:
        """Send the event of one of Asha's cases that has ended once more."""
        envelope = self._envelope(ASHA.id, _matter_of(case), event_id=case.event_id)
        return Case(
            "the same event again",
            str(Outcome.DUPLICATE),
            event_id=case.event_id,
            trace_id=envelope.trace.trace_id,
            message_id=self._send(self._queue, envelope.model_dump_json()),
        )

    def hostile(self, victim: Case) -> Iterator[Case]:
        """Put on the bus and on the queue what should never get through."""
        matter = _matter_of(victim)
        own = self._envelope(BANYAN.id, matter)
        foreign = self._envelope(ASHA.id, matter, environment="elsewhere")
        for name, envelope, reason in (
            ("a firm names another firm's matter", own, RefusalReason.SUBJECT_NOT_VISIBLE),
            ("another environment's event", foreign, RefusalReason.WRONG_ENVIRONMENT),
        ):
            self._send(self._bus, envelope.model_dump_json())
            yield Case(
                name,
                refused(reason),
                firm_id=envelope.firm_id,
                event_id=envelope.event_id,
                trace_id=envelope.trace.trace_id,
            )
        fields = json.loads(self._envelope(ASHA.id, matter).model_dump_json())
        for name, body in (
            ("a body that is not JSON", "{not json"),
            ("a body that is not an object", "[1, 2, 3]"),
            ("an unknown field", json.dumps({**fields, "title": "anything"})),
            ("an unknown event type", json.dumps({**fields, "event_type": "matter.sold"})),
            ("a body of 300 kB", json.dumps({**fields, "padding": "x" * 300_000})),
        ):
            # Past the publisher's own checks, as a stranger would.
            sqs = client("sqs", self._settings)
            url = self._settings.require("framer_events_queue_url")
            sent = sqs.send_message(QueueUrl=url, MessageBody=body)
            yield Case(name, refused(RefusalReason.MALFORMED), message_id=sent["MessageId"])

    @contextmanager
    def _span(self) -> Iterator[str]:
        with self._tracer.start_as_current_span("demo.request") as span:
            yield format_trace_id(span.get_span_context().trace_id)

    def _envelope(
        self,
        firm_id: UUID,
        matter_id: UUID,
        *,
        event_id: UUID | None = None,
        environment: str | None = None,
    ) -> MatterCreated:
        with self._span():
            trace = stamp_current_trace()
        return MatterCreated(
            event_id=event_id or uuid4(),
            event_type=EventType.MATTER_CREATED,
            schema_version=1,
            environment=environment or self._settings.pramaan_environment,
            occurred_at=datetime.now(UTC),
            firm_id=firm_id,
            subject=MatterSubject(type="matter", id=matter_id),
            **trace._asdict(),
        )

    def _send(self, publisher: Publisher, body: str) -> str | None:
        event = json.loads(body)
        message = OutboundMessage(
            event["event_id"], event["event_type"], body, stamp_current_trace()
        )
        (result,) = publisher.send([message], deadline=monotonic() + SEND_SECONDS)
        if result.status is not SendStatus.ACCEPTED:
            raise LocalStackError(f"{publisher.destination} took no event: {result.detail}")
        return result.message_id
