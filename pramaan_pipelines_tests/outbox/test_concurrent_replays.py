"""A replay beside the live relay, and two runs of one replay: nobody waits, no row goes twice."""

import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from pydantic import SecretStr

from pramaan_pipelines.outbox.replay import ReplayRun
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import Relay, event_ids
from pramaan_pipelines_tests.outbox.test_replay import at, put_at, replayed
from pramaan_pipelines_tests.support.stub import Reply, Request, Stub, accept, slowly
from pramaan_pipelines_tests.support.waiting import until
from pramaan_pipelines_tests.support.world import World

LOCK_WAIT = "SET lock_timeout = '200ms'"


class FirstCall:
    """Accepts every call, and holds the first until it is let go."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Reply:
        if not self.reached.is_set():
            self.reached.set()
            self.go_on.wait(20)
        return accept(request)


@pytest.fixture
def held(stub: Stub) -> FirstCall:
    stub.behaviour = first = FirstCall()
    return first


def test_rows_that_the_live_relay_holds_are_passed_by_and_not_waited_for(
    world: World, relay: Relay, stub: Stub, held: FirstCall
) -> None:
    events = put_at(world, relay, at("10:00"), 6)
    with ThreadPoolExecutor(1) as pool:
        live = pool.submit(relay.drain, rows=4)
        until(held.reached.is_set)
        run = replayed(relay)
        assert (run.relay.sent, run.finished, run.left.pending) == (2, True, 4)
        held.go_on.set()
        assert live.result().sent == 4
    assert Counter(event_ids(stub.requests)) == Counter(events)


def test_the_live_relay_passes_by_what_a_replay_holds_and_sends_the_rest(
    world: World, relay: Relay, stub: Stub, held: FirstCall
) -> None:
    events = put_at(world, relay, at("10:00"), 4)
    with ThreadPoolExecutor(1) as pool:
        replay = pool.submit(replayed, relay)
        until(held.reached.is_set)
        new = put_at(world, relay, at("11:00"), 2)
        assert relay.drain().sent == 2
        held.go_on.set()
        assert replay.result().finished
    assert Counter(event_ids(stub.requests)) == Counter([*events, *new])


def test_a_row_of_before_that_is_being_sent_again_is_not_locked(
    world: World, relay: Relay, held: FirstCall
) -> None:
    """Pruning, and whoever else works on sent rows, does not wait for a replay's network."""
    put_at(world, relay, at("10:00"), 3, sent=True)
    with ThreadPoolExecutor(1) as pool:
        replay = pool.submit(replayed, relay, also_sent=True)
        until(held.reached.is_set)
        world.god.execute(LOCK_WAIT)
        world.god.execute(f"DELETE FROM {relay.lane.outbox.table}")  # noqa: S608
        held.go_on.set()
        run = replay.result()
    assert (run.finished, run.relay.again) == (True, 3)


def test_two_runs_of_one_replay_share_it_and_send_each_row_once(
    world: World, relay: Relay, stub: Stub, app_url: SecretStr
) -> None:
    events = put_at(world, relay, at("10:00"), 60, sent=True)
    stub.behaviour = slowly(0.01)
    together = threading.Barrier(2)

    def one() -> ReplayRun:
        database = Database.connect(app_url, pool_size=1)
        mine = Relay(relay.lane, relay.settings, database, relay.record)
        try:
            together.wait(10)
            return replayed(mine, also_sent=True, rows=3)
        finally:
            database.close()

    with ThreadPoolExecutor(2) as pool:
        runs = [future.result() for future in [pool.submit(one), pool.submit(one)]]
    assert Counter(event_ids(stub.requests)) == Counter(events)
    assert [run.finished for run in runs] == [True, True]
    assert sum(run.relay.again for run in runs) == len(events)
    assert world.rows("SELECT status, again FROM ops.outbox_replays") == [("finished", 60)]


def test_a_run_whose_replay_was_begun_anew_ends_and_says_so(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put_at(world, relay, at("10:00"), 40, sent=True)
    with ThreadPoolExecutor(1) as pool:
        restarts: list[Future[object]] = []

        def begun_anew_meanwhile(request: Request) -> Reply:
            if not restarts:
                # It waits for the batch under way, as a restart does.
                abandon = "UPDATE ops.outbox_replays SET status = 'abandoned'"
                restarts.append(pool.submit(world.god.execute, abandon))
            return accept(request)

        stub.behaviour = begun_anew_meanwhile
        run = replayed(relay, also_sent=True, rows=2)
    assert (run.replaced, run.finished) == (True, False)
    assert 2 <= run.relay.again < len(events)
