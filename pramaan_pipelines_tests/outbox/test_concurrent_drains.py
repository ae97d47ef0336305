"""Two relays on one lane, and a drain that dies in the one window for a duplicate."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import SecretStr
from sqlalchemy.exc import OperationalError

from pramaan_pipelines.outbox.relay import RelayRun, run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import Relay, event_ids, put, row, rows
from pramaan_pipelines_tests.support.stub import Reply, Request, Stub, accept, slowly
from pramaan_pipelines_tests.support.waiting import until
from pramaan_pipelines_tests.support.world import World

ROWS = 600


@pytest.mark.parametrize("relays", [2, 10])
def test_relays_at_once_send_each_row_once_and_leave_none(
    world: World, relay: Relay, stub: Stub, app_url: SecretStr, relays: int
) -> None:
    events = put(world, relay.lane, ROWS)
    stub.behaviour = slowly(0.002)
    together = threading.Barrier(relays)

    def one() -> RelayRun:
        database = Database.connect(app_url, pool_size=1)
        publisher = relay.lane.publisher(relay.settings)
        try:
            together.wait(10)
            return run_relay(
                relay.lane,
                database=database,
                publisher=publisher,
                telemetry=relay.record.telemetry,
                limits=DrainLimits(rows=40),
            )
        finally:
            database.close()

    with ThreadPoolExecutor(relays) as pool:
        runs = [future.result() for future in [pool.submit(one) for _ in range(relays)]]
    assert sum(run.sent > 0 for run in runs) > 1  # they did work at the same time
    assert sum(run.sent for run in runs) == ROWS
    assert sum(run.failed + run.parked for run in runs) == 0
    counted = Counter(event_ids(stub.requests))
    assert set(counted) == set(events)
    assert set(counted.values()) == {1}
    assert world.pending(relay.lane.event_type) == 0


def test_rows_that_another_drain_holds_are_passed_over_and_not_waited_for(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put(world, relay.lane, 6)
    held, go_on = threading.Event(), threading.Event()

    def first_waits(request: Request) -> Reply:
        if not held.is_set():
            held.set()
            go_on.wait(10)
        return accept(request)

    stub.behaviour = first_waits
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(relay.drain, rows=4)
        until(held.is_set)
        quick = relay.drain(rows=4)
        go_on.set()
        assert (slow.result().sent, quick.sent) == (4, 2)
    assert sorted(event_ids(stub.requests)) == sorted(events)


def test_a_drain_cut_between_acceptance_and_commit_sends_again_with_the_same_event_id(
    world: World, relay: Relay, stub: Stub
) -> None:
    """The one window for a duplicate; event_id is for the consumer's dedupe."""
    events = put(world, relay.lane, 3)

    def accept_and_cut(request: Request) -> Reply:
        cut = world.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND usename = 'pramaan_app' "
            "AND state = 'idle in transaction'"
        )
        assert cut == [(True,)]
        return accept(request)

    stub.behaviour = accept_and_cut
    with pytest.raises(OperationalError):
        relay.drain()
    for found in rows(world, relay.lane, events):
        assert found["dispatched_at"] is None
        assert found["attempts"] == 0
    (point,) = relay.record.histogram_points(str(relay.lane.metric))
    assert point.attributes["error.type"] == "OperationalError"

    stub.behaviour = accept
    assert relay.drain().sent == 3
    assert event_ids(stub.requests) == [*events, *events]
    assert all(row(world, relay.lane, event)["dispatched_at"] for event in events)
