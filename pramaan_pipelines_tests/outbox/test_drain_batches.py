"""What one batch holds: bounds, order, and what belongs to no lane."""

import json
import threading

import psycopg
import pytest
from sqlalchemy import text

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.outbox.backlog import any_due, backlog, unclaimed_events
from pramaan_pipelines.outbox.lanes import DOCUMENT_REGISTRATION, DOMAIN_EVENT, LANES
from pramaan_pipelines.outbox.producers import insert_document_ingest_event
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.counting import Count
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import Relay, event_ids, put, row, rows
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Stub, bodies, slowly
from pramaan_pipelines_tests.support.waiting import until
from pramaan_pipelines_tests.support.world import World


def test_an_empty_lane_selects_nothing_and_calls_nobody(
    world: World, relay: Relay, stub: Stub
) -> None:
    assert world.pending(relay.lane.event_type) == 0
    result = relay.drain()
    assert (result.selected, result.sent, result.outage) == (0, 0, None)
    assert stub.requests == []
    assert len(relay.record.spans(str(relay.lane.span))) == 1


def test_a_batch_is_bounded_in_rows_and_the_oldest_go_first(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put(world, relay.lane, 25)
    taken = []
    while relay.drain(rows=10).selected:
        taken.append(event_ids(stub.requests))
        stub.requests.clear()
    assert [set(batch) for batch in taken] == [
        set(events[:10]),
        set(events[10:20]),
        set(events[20:]),
    ]
    assert taken[0] == events[:10]  # one call: in the order of the batch


def test_a_batch_is_bounded_in_bytes_and_the_rest_follows(
    world: World, stub: Stub, stubbed: Settings, database: Database, record: TelemetryRecord
) -> None:
    relay = Relay(DOCUMENT_REGISTRATION, stubbed, database, record)
    # As an application's own table may hold them, which has no such check.
    world.god.execute(
        "ALTER TABLE ops.document_ingest_outbox "
        "DROP CONSTRAINT document_ingest_outbox_tracestate_check"
    )
    events = put(world, DOCUMENT_REGISTRATION, 5, tracestate="y" * 100_000)
    results = [relay.drain(bytes=256 * 1024) for _ in range(4)]
    assert [r.selected for r in results] == [2, 2, 1, 0]
    assert [r.sent for r in results] == [2, 2, 1, 0]
    assert results[0].bytes > 200_000
    assert event_ids(stub.requests) == events


def test_a_row_larger_than_the_whole_byte_budget_does_not_stand_at_the_head_for_ever(
    world: World, stubbed: Settings, database: Database, record: TelemetryRecord
) -> None:
    relay = Relay(DOMAIN_EVENT, stubbed, database, record)
    put(world, DOMAIN_EVENT, more={"x": "y" * 400_000})
    (good,) = put(world, DOMAIN_EVENT)
    results = [relay.drain(bytes=256 * 1024) for _ in range(3)]
    assert [(r.sent, r.parked) for r in results] == [(0, 1), (1, 0), (0, 0)]
    assert row(world, DOMAIN_EVENT, good)["dispatched_at"]


def test_a_batch_s_bounds_are_checked_when_they_are_set() -> None:
    for wrong in ({"rows": 0}, {"rows": 1001}, {"bytes": 256 * 1024 - 1}):
        with pytest.raises(ValueError, match="must be"):
            DrainLimits(**wrong)


def test_a_batch_is_bounded_in_time_and_what_was_left_costs_no_try(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put(world, relay.lane, 100)
    stub.behaviour = slowly(0.3)
    result = relay.drain(send_seconds=0.2)
    assert result.sent <= 40  # the calls that were under way
    assert (result.failed, result.parked) == (100 - result.sent, 0)
    assert result.outage == "no time left"
    assert {r["attempts"] for r in rows(world, relay.lane, events)} == {0}


def test_a_row_that_commits_late_is_still_sent(
    world: World, relay: Relay, stub: Stub, server: EmbeddedPostgres, database_name: str
) -> None:
    """Its id is lower than those of rows that were sent long before."""
    with psycopg.connect(server.admin_url(database_name)) as slow:
        late_world = World(world.database, slow, world.firm_a, world.firm_b, world.firm_a)
        (late,) = put(late_world, relay.lane)
        (early,) = put(world, relay.lane)
        assert relay.drain().sent == 1
        slow.commit()
    assert relay.drain().sent == 1
    assert event_ids(stub.requests) == [early, late]
    assert row(world, relay.lane, late)["id"] < row(world, relay.lane, early)["id"]


def test_a_producer_never_waits_for_a_drain(
    world: World, relay: Relay, stub: Stub, database: Database
) -> None:
    put(world, relay.lane)
    held, go_on = threading.Event(), threading.Event()
    accept = stub.behaviour

    def wait(request: dict[str, object]) -> tuple[int, object]:
        held.set()
        go_on.wait(10)
        return accept(request)

    stub.behaviour = wait
    draining = threading.Thread(target=relay.drain)
    draining.start()
    until(held.is_set)
    document = world.document(world.firm_a)
    with database.firm(world.firm_a) as connection:
        connection.execute(text("SET LOCAL lock_timeout = '1s'"))
        insert_document_ingest_event(connection, firm_id=world.firm_a, document_id=document)
    go_on.set()
    draining.join()
    assert relay.drain().selected == 0


def test_a_pending_row_whose_type_has_no_lane_is_found_and_left_alone(
    world: World, relay: Relay, stub: Stub, database: Database
) -> None:
    """A baton that no runner picks up is never silent."""
    events = put(world, relay.lane, 2, event_type="document.shredded")
    (stray,) = put(world, DOMAIN_EVENT, event_type="document.ingest.requested")
    before = rows(world, relay.lane, events)
    assert relay.drain().selected == 0
    assert stub.requests == []
    assert rows(world, relay.lane, events) == before
    with database.staff() as connection:
        assert unclaimed_events(connection) == {
            f"{relay.lane.outbox.table}: document.shredded": Count(2),
            "ops.domain_event_outbox: document.ingest.requested": Count(1),
        }
    assert row(world, DOMAIN_EVENT, stray)["dispatched_at"] is None


def test_rows_of_known_types_are_not_unclaimed(world: World, database: Database) -> None:
    for lane in LANES:
        put(world, lane)
    with database.staff() as connection:
        assert unclaimed_events(connection) == {}


def test_backlog_counts_what_is_pending_how_old_it_is_and_what_is_parked(
    world: World, relay: Relay, database: Database
) -> None:
    table = relay.lane.outbox.table
    sent, parked, paused, *_ = put(world, relay.lane, 5)
    put(world, relay.lane, 7, event_type="document.shredded")
    world.god.execute(
        f"UPDATE {table} SET dispatched_at = now(), created_at = now() - interval '9 hours' "  # noqa: S608
        "WHERE event_id = %s",
        [sent],
    )
    world.god.execute(
        f"UPDATE {table} SET parked_at = now(), created_at = now() - interval '8 hours' "  # noqa: S608
        "WHERE event_id = %s",
        [parked],
    )
    world.god.execute(
        f"UPDATE {table} SET next_attempt_at = now() + interval '1 hour', "  # noqa: S608
        "created_at = now() - interval '100 seconds' WHERE event_id = %s",
        [paused],
    )
    with database.staff() as connection:
        found = backlog(connection, relay.lane)
        assert any_due(connection, relay.lane)
    assert (found.pending, found.parked) == (Count(3), Count(1))
    assert 100 <= found.oldest_seconds < 110


def test_nothing_is_due_in_an_empty_lane_or_one_that_pauses(
    world: World, relay: Relay, database: Database
) -> None:
    with database.staff() as connection:
        assert not any_due(connection, relay.lane)
        empty = backlog(connection, relay.lane)
        assert (empty.pending, empty.oldest_seconds, empty.parked) == (Count(0), 0, Count(0))
    put(world, relay.lane)
    world.god.execute(
        f"UPDATE {relay.lane.outbox.table} SET next_attempt_at = now() + interval '1 minute'"  # noqa: S608
    )
    with database.staff() as connection:
        assert not any_due(connection, relay.lane)
        assert backlog(connection, relay.lane).pending == Count(1)


def test_a_message_holds_ids_and_trace_only(world: World, relay: Relay, stub: Stub) -> None:
    put(world, relay.lane)
    relay.drain()
    (body,) = bodies(stub.requests[0])
    common = {"event_id", "event_type", "firm_id", "occurred_at", "traceparent", "tracestate"}
    own = (
        {"schema_version", "environment", "subject"}
        if relay.lane is DOMAIN_EVENT
        else {"document_id"}
    )
    assert set(json.loads(body)) == common | own
