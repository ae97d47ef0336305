"""A row that Postgres itself cannot render stops nobody but itself."""

from dataclasses import replace

import pytest
from sqlalchemy.exc import DBAPIError

from pramaan_pipelines.outbox.lanes import DOCUMENT_REGISTRATION, Lane, Outbox
from pramaan_pipelines.outbox.relay import run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import TIMEOUTS, Database
from pramaan_pipelines_tests.outbox.bench import event_ids, put, row
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Stub
from pramaan_pipelines_tests.support.world import World

DIVIDED_BY_ZERO = "(1 / (length(event_type) - length(event_type)))::text"
SLEPT_OVER = "pg_sleep(60)::text"


def lane_that_cannot_render(event_id: str, failing: str) -> Lane:
    """Return the lane with a body that fails in the server for one row, as a huge one does."""
    real = DOCUMENT_REGISTRATION.outbox
    body = f"CASE WHEN event_id = '{event_id}' THEN {failing} ELSE {real.body} END"
    return replace(DOCUMENT_REGISTRATION, outbox=Outbox(real.table, body))


def relay(lane: Lane, settings: Settings, database: Database, record: TelemetryRecord) -> object:
    return run_relay(
        lane,
        database=database,
        publisher=lane.publisher(settings),
        telemetry=record.telemetry,
        limits=DrainLimits(),
        budget_seconds=10,
    )


def test_a_row_that_postgres_cannot_render_is_parked_and_its_neighbours_flow(
    world: World, stubbed: Settings, database: Database, record: TelemetryRecord, stub: Stub
) -> None:
    before, bad, after = put(world, DOCUMENT_REGISTRATION, 3)
    relay(lane_that_cannot_render(bad, DIVIDED_BY_ZERO), stubbed, database, record)
    assert sorted(event_ids(stub.requests)) == sorted([before, after])
    found = row(world, DOCUMENT_REGISTRATION, bad)
    assert found["parked_at"]
    assert found["parked_reason"] == "Postgres cannot render this row (22012)"
    assert found["dispatched_at"] is None


def test_a_fault_that_is_no_row_s_is_not_hidden(
    world: World, stubbed: Settings, database: Database, record: TelemetryRecord
) -> None:
    (event,) = put(world, DOCUMENT_REGISTRATION)
    world.god.execute("REVOKE SELECT ON ops.document_ingest_outbox FROM pramaan_app")
    with pytest.raises(DBAPIError):
        relay(DOCUMENT_REGISTRATION, stubbed, database, record)
    assert row(world, DOCUMENT_REGISTRATION, event)["parked_at"] is None


def test_a_row_that_takes_too_long_is_put_off_and_not_parked(
    world: World,
    stubbed: Settings,
    database: Database,
    record: TelemetryRecord,
    stub: Stub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be the server's fault: a person is not asked for, and the neighbours flow."""
    monkeypatch.setitem(TIMEOUTS, "statement_ms", "1000")
    slow, good = put(world, DOCUMENT_REGISTRATION, 2)
    relay(lane_that_cannot_render(slow, SLEPT_OVER), stubbed, database, record)
    assert event_ids(stub.requests) == [good]
    found = row(world, DOCUMENT_REGISTRATION, slow)
    assert (found["parked_at"], found["dispatched_at"]) == (None, None)
    assert found["last_dispatch_error"] == "Postgres cannot render this row (57014)"
