"""The one registry of lanes: which event_type goes from which outbox to which destination.

Promises: a new lane is one entry in `LANES`; every event type has exactly one (a test holds it).
Never: two lanes that could take the same row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pramaan_pipelines.contracts.envelopes import MatterCreated, parse_matter_created
from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.errors import SettingsError
from pramaan_pipelines.messaging.eventbridge import EventBusPublisher
from pramaan_pipelines.messaging.publisher import Publisher
from pramaan_pipelines.messaging.sqs import DocumentIngestQueueClient
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.telemetry.metrics import DurationMetric
from pramaan_pipelines.telemetry.spans import SpanName


@dataclass(frozen=True)
class Outbox:
    """An outbox table, and the SQL that makes a message's body of its row.

    The body is made where the row is, so that it is measured before it is fetched. The trace
    context is taken from the row's columns as it was stamped.
    """

    table: str
    body: str


DOCUMENT_OUTBOX: Final = Outbox(
    "ops.document_ingest_outbox",
    """json_build_object(
        'event_id', event_id, 'event_type', event_type, 'firm_id', firm_id,
        'document_id', document_id, 'occurred_at', created_at,
        'traceparent', traceparent, 'tracestate', tracestate)::text""",
)
DOMAIN_OUTBOX: Final = Outbox(
    "ops.domain_event_outbox",
    """(envelope || jsonb_build_object(
        'traceparent', traceparent, 'tracestate', tracestate))::text""",
)


@dataclass(frozen=True)
class Lane:
    """One event_type, drained from one outbox to one destination.

    Attributes:
        name: names the lane's job, schedule and metadata.
        event_type: the filter, applied in SQL.
        outbox: where its rows stand.
        destination: what its rows are sent to, as the asset graph calls it.
        publisher: makes the client of its destination.
        span: the registered span of one drain.
        metric: the duration histogram of one drain.
        parse: validates a body that the producer wrote; None where the body is made of the row.
    """

    name: str
    event_type: EventType
    outbox: Outbox
    destination: str
    publisher: Callable[[Settings], Publisher]
    span: SpanName
    metric: DurationMetric
    parse: Callable[[str], MatterCreated] | None = None


DOCUMENT_INGEST: Final = Lane(
    "document_ingest_relay",
    EventType.DOCUMENT_INGEST_REQUESTED,
    DOCUMENT_OUTBOX,
    "documents_ingestion_queue",
    DocumentIngestQueueClient.from_settings,
    SpanName.DOCUMENT_INGEST_RELAY,
    DurationMetric.DOCUMENT_INGEST_RELAY,
)
DOCUMENT_REGISTRATION: Final = Lane(
    "document_registration_relay",
    EventType.DOCUMENT_REGISTRATION_REQUESTED,
    DOCUMENT_OUTBOX,
    "documents_registration_queue",
    DocumentIngestQueueClient.from_registration_settings,
    SpanName.DOCUMENT_REGISTRATION_RELAY,
    DurationMetric.DOCUMENT_REGISTRATION_RELAY,
)
DOMAIN_EVENT: Final = Lane(
    "domain_event_relay",
    EventType.MATTER_CREATED,
    DOMAIN_OUTBOX,
    "events_bus",
    EventBusPublisher.from_settings,
    SpanName.DOMAIN_EVENT_RELAY,
    DurationMetric.DOMAIN_EVENT_RELAY,
    parse_matter_created,
)

LANES: Final = (DOCUMENT_INGEST, DOCUMENT_REGISTRATION, DOMAIN_EVENT)
OUTBOXES: Final = (DOCUMENT_OUTBOX, DOMAIN_OUTBOX)


def lane_named(name: str) -> Lane:
    """Return the lane called `name`.

    Raises:
        SettingsError: there is none; the text names those that there are.
    """
    for lane in LANES:
        if lane.name == name:
            return lane
    names = ", ".join(lane.name for lane in LANES)
    raise SettingsError(f"there is no lane {name}; the lanes are: {names}")
