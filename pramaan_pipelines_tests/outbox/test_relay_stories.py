"""What the relay's story promises, over the real protocols: row -> relay -> queue."""

import json
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

from pramaan_pipelines.contracts.envelopes import DocumentEnvelope, parse_matter_created
from pramaan_pipelines.outbox.lanes import (
    DOCUMENT_INGEST,
    DOCUMENT_REGISTRATION,
    DOMAIN_EVENT,
    Lane,
)
from pramaan_pipelines.outbox.producers import request_registration
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import Relay, event_ids, put, received, row, rows
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Stub, bodies
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE, World

OTHER_TRACE = "00-" + "c" * 32 + "-" + "d" * 16 + "-01"


@pytest.fixture
def real(provisioned: Settings, database: Database, record: TelemetryRecord) -> Relay:
    """The registration relay to the emulator."""
    return Relay(DOCUMENT_REGISTRATION, provisioned, database, record)


def test_relay_drains_registration_rows_marks_dispatched_and_is_idempotent(
    world: World, real: Relay
) -> None:
    """The queued body carries the trace as stored; a second drain selects nothing."""
    document = world.document(world.firm_a)
    with (
        real.record.telemetry.tracer.start_as_current_span("upload"),
        world.database.firm(world.firm_a) as connection,
    ):
        event = request_registration(connection, firm_id=world.firm_a, document_id=document)
    stored = row(world, DOCUMENT_REGISTRATION, str(event))
    assert stored["dispatched_at"] is None
    assert stored["traceparent"]

    first = real.drain()
    assert (first.selected, first.sent, first.failed, first.parked) == (1, 1, 0, 0)
    sent = row(world, DOCUMENT_REGISTRATION, str(event))
    assert sent["dispatched_at"] is not None
    assert sent["last_dispatch_error"] is None
    assert (sent["traceparent"], sent["tracestate"]) == (
        stored["traceparent"],
        stored["tracestate"],
    )
    assert real.drain().selected == 0

    (message,) = received(real.settings, real.settings.document_registration_queue_url, 1)
    body = json.loads(message["Body"])
    assert body["traceparent"] == stored["traceparent"]
    assert body["tracestate"] == stored["tracestate"]
    envelope = DocumentEnvelope.model_validate(body)
    assert (envelope.event_id, envelope.document_id) == (event, document)
    assert first.bytes == len(message["Body"].encode())
    status = world.one("SELECT registration_status FROM documents WHERE id = %s", document)
    assert status == "queued"  # the relay moves the message and no status


def test_relay_ignores_ingest_rows(world: World, real: Relay) -> None:
    (ingest,) = put(world, DOCUMENT_INGEST)
    (registration,) = put(world, DOCUMENT_REGISTRATION)
    before = row(world, DOCUMENT_INGEST, ingest)
    assert real.drain().selected == 1
    assert row(world, DOCUMENT_INGEST, ingest) == before
    assert before["dispatched_at"] is None
    assert row(world, DOCUMENT_REGISTRATION, registration)["dispatched_at"]
    received(real.settings, real.settings.document_ingestion_queue_url, 0)


def test_relay_ignores_registration_rows(
    world: World, provisioned: Settings, database: Database, record: TelemetryRecord
) -> None:
    (ingest,) = put(world, DOCUMENT_INGEST)
    (registration,) = put(world, DOCUMENT_REGISTRATION)
    before = row(world, DOCUMENT_REGISTRATION, registration)
    assert Relay(DOCUMENT_INGEST, provisioned, database, record).drain().selected == 1
    assert row(world, DOCUMENT_REGISTRATION, registration) == before
    assert before["dispatched_at"] is None
    assert row(world, DOCUMENT_INGEST, ingest)["dispatched_at"]
    (message,) = received(provisioned, provisioned.document_ingestion_queue_url, 1)
    assert json.loads(message["Body"])["event_id"] == ingest
    received(provisioned, provisioned.document_registration_queue_url, 0)


def _check_span(record: TelemetryRecord, lane: Lane, firm: str) -> None:
    (span,) = record.spans(str(lane.span))
    assert span.kind is SpanKind.CONSUMER
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [
        TRACEPARENT.split("-")[1],
        "c" * 32,
    ]
    assert span.parent is None
    assert firm not in span.to_json()  # no firm_id in a relay's telemetry


def test_relay_wraps_batch_in_registration_span_with_trace_links(
    world: World, stubbed: Settings, database: Database, record: TelemetryRecord
) -> None:
    put(world, DOCUMENT_REGISTRATION)
    put(world, DOCUMENT_REGISTRATION, traceparent=OTHER_TRACE)
    Relay(DOCUMENT_REGISTRATION, stubbed, database, record).drain()
    assert str(DOCUMENT_REGISTRATION.span) == "functions.document_registration_relay.batch"
    _check_span(record, DOCUMENT_REGISTRATION, str(world.firm_a))


def _check_metric(record: TelemetryRecord, name: str) -> dict[str, Any]:
    (point,) = record.histogram_points(name)
    assert point.count == 1
    assert 0 < point.sum < 60  # seconds
    return dict(point.attributes)


def test_relay_emits_registration_duration_metric(world: World, real: Relay) -> None:
    put(world, DOCUMENT_REGISTRATION)
    real.drain()
    labels = _check_metric(real.record, "pramaan.document_registration_relay.duration")
    assert labels == {"service": "pramaan-pipelines", "environment": "test"}
    assert real.record.histogram_points("pramaan.document_ingest_relay.duration") == []


def test_the_metric_is_recorded_in_finally_with_the_error_s_type(
    world: World, stubbed: Settings, database: Database, record: TelemetryRecord
) -> None:
    world.god.execute("ALTER TABLE ops.document_ingest_outbox RENAME TO gone")
    with pytest.raises(Exception, match="does not exist"):
        Relay(DOCUMENT_REGISTRATION, stubbed, database, record).drain()
    labels = _check_metric(record, "pramaan.document_registration_relay.duration")
    assert set(labels) == {"service", "environment", "error.type"}
    assert labels["error.type"] == "ProgrammingError"
    (span,) = record.spans("functions.document_registration_relay.batch")
    assert not span.status.is_ok
    assert span.events == ()  # an exception's text may hold values


# ---- the same for the domain lane: row -> bus -> rule -> framer queue -------------------------


def test_domain_relay_drains_through_bus_and_rule_to_the_framer_queue_and_is_idempotent(
    world: World, provisioned: Settings, database: Database, record: TelemetryRecord
) -> None:
    relay = Relay(DOMAIN_EVENT, provisioned, database, record)
    with record.telemetry.tracer.start_as_current_span("matter.create"):
        created = world.created_matter(world.firm_a)
    stored = row(world, DOMAIN_EVENT, str(created.event_id))
    first = relay.drain()
    assert (first.selected, first.sent) == (1, 1)
    assert row(world, DOMAIN_EVENT, str(created.event_id))["dispatched_at"]
    assert relay.drain().selected == 0

    (message,) = received(provisioned, provisioned.framer_events_queue_url, 1)
    envelope = parse_matter_created(message["Body"])
    assert (envelope.event_id, envelope.matter_id) == (created.event_id, created.matter_id)
    assert (envelope.traceparent, envelope.tracestate) == (
        stored["traceparent"],
        stored["tracestate"],
    )
    assert envelope.traceparent
    (point,) = record.histogram_points("pramaan.domain_event_relay.duration")
    assert point.count == 2
    assert dict(point.attributes) == {"service": "pramaan-pipelines", "environment": "test"}


def test_domain_relay_wraps_batch_in_its_span_with_trace_links(
    world: World, stubbed: Settings, database: Database, record: TelemetryRecord
) -> None:
    put(world, DOMAIN_EVENT)
    put(world, DOMAIN_EVENT, traceparent=OTHER_TRACE)
    Relay(DOMAIN_EVENT, stubbed, database, record).drain()
    assert str(DOMAIN_EVENT.span) == "functions.domain_event_relay.batch"
    _check_span(record, DOMAIN_EVENT, str(world.firm_a))


# ---- what every lane keeps --------------------------------------------------------------------


def test_each_relay_takes_the_rows_of_its_own_lane_only(
    world: World, any_lane: Lane, stub: Stub, stubbed: Settings, record: TelemetryRecord
) -> None:
    lanes = (DOCUMENT_INGEST, DOCUMENT_REGISTRATION, DOMAIN_EVENT)
    written = {lane.name: put(world, lane, 2) for lane in lanes}
    assert Relay(any_lane, stubbed, world.database, record).drain().sent == 2
    assert sorted(event_ids(stub.requests)) == sorted(written[any_lane.name])
    for other in lanes:
        marked = [bool(r["dispatched_at"]) for r in rows(world, other, written[other.name])]
        assert marked == [other is any_lane] * 2


def test_the_trace_is_carried_and_never_stamped_anew_inside_another_live_span(
    world: World, relay: Relay, stub: Stub
) -> None:
    (event,) = put(world, relay.lane)
    before = row(world, relay.lane, event)
    with relay.record.telemetry.tracer.start_as_current_span("somebody else's"):
        relay.drain()
    (body,) = bodies(stub.requests[0])
    sent = json.loads(body)
    assert (sent["traceparent"], sent["tracestate"]) == (TRACEPARENT, TRACESTATE)
    after = row(world, relay.lane, event)
    assert (after["traceparent"], after["tracestate"]) == (TRACEPARENT, TRACESTATE)
    (span,) = relay.record.spans(str(relay.lane.span))
    (live,) = relay.record.spans("somebody else's")
    assert span.parent is None
    assert span.context.trace_id != live.context.trace_id
    assert {k for k in before if before[k] != after[k]} == {"dispatched_at"}


def test_a_row_s_columns_win_over_a_trace_inside_its_envelope(
    world: World, stub: Stub, stubbed: Settings, database: Database, record: TelemetryRecord
) -> None:
    put(world, DOMAIN_EVENT, more={"traceparent": OTHER_TRACE, "tracestate": "forged=1"})
    Relay(DOMAIN_EVENT, stubbed, database, record).drain()
    sent = json.loads(bodies(stub.requests[0])[0])
    assert (sent["traceparent"], sent["tracestate"]) == (TRACEPARENT, TRACESTATE)


def test_rows_without_a_trace_are_sent_without_one_and_link_nothing(
    world: World, relay: Relay, stub: Stub
) -> None:
    put(world, relay.lane, traceparent=None, tracestate=None)
    put(world, relay.lane, traceparent="00-" + "0" * 32 + "-" + "0" * 16 + "-00", tracestate=None)
    with relay.record.telemetry.tracer.start_as_current_span("live"):
        assert relay.drain().sent == 2
    first, second = (json.loads(body) for body in bodies(stub.requests[0]))
    assert (first["traceparent"], first["tracestate"]) == (None, None)
    assert second["traceparent"] == "00-" + "0" * 32 + "-" + "0" * 16 + "-00"
    (span,) = relay.record.spans(str(relay.lane.span))
    assert span.links == ()


def test_two_hundred_links_are_kept(world: World, relay: Relay) -> None:
    """The SDK alone keeps 128."""
    put(world, relay.lane, 200)
    assert relay.drain().sent == 200
    (span,) = relay.record.spans(str(relay.lane.span))
    assert len(span.links) == 200
    assert span.dropped_links == 0


def test_where_nobody_hears_the_span_no_link_is_made(world: World, relay: Relay) -> None:
    """They would be half of what a drain costs this process."""
    put(world, relay.lane, 2)
    unheard = replace(relay.record, telemetry=replace(relay.record.telemetry, heard=False))
    assert replace(relay, record=unheard).drain().sent == 2
    (span,) = relay.record.spans(str(relay.lane.span))
    assert span.links == ()
