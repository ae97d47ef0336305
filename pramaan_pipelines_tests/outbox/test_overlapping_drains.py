"""Two drains of one run: only behind a full batch, each row once, and one end for both."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from threading import Barrier, BrokenBarrierError

import pytest
from sqlalchemy.exc import DBAPIError

from pramaan_pipelines.messaging.publisher import OutboundMessage, Publisher, SendResult
from pramaan_pipelines.outbox.relay import DRAINS_AT_ONCE, RelayRun, StoppedReason, run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines_tests.outbox.bench import Relay, put
from pramaan_pipelines_tests.support.stub import Reply, Request, Stub, accept, error, slowly
from pramaan_pipelines_tests.support.world import World

ROWS = 10
"""A drain's; so that each drain makes one call."""


def run(
    relay: Relay,
    *,
    at_once: int = DRAINS_AT_ONCE,
    budget_seconds: float = 45,
    max_bytes: int = 0,
    publisher: Publisher | None = None,
) -> RelayRun:
    return run_relay(
        relay.lane,
        database=relay.database,
        publisher=publisher or relay.lane.publisher(relay.settings),
        telemetry=relay.record.telemetry,
        limits=DrainLimits(rows=ROWS, **({"bytes": max_bytes} if max_bytes else {})),
        budget_seconds=budget_seconds,
        at_once=at_once,
    )


def sent(stub: Stub) -> Counter[str]:
    """Count what was sent by the row's name in its call."""
    return Counter(str(entry) for request in stub.requests for entry in request["Entries"])


class Meeting:
    """Holds each call but the first until another is under way."""

    def __init__(self) -> None:
        self.met = 0
        self._barrier = Barrier(2, timeout=10)
        self._calls = 0
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            self._calls += 1
            first = self._calls == 1
        if not first:
            try:
                self._barrier.wait()
                self.met += 1
            except BrokenBarrierError:
                pass
        return accept(request)


def test_behind_a_full_batch_two_drains_are_under_way_and_every_row_goes_once(
    world: World, relay: Relay, stub: Stub
) -> None:
    put(world, relay.lane, 5 * ROWS)
    stub.behaviour = meeting = Meeting()
    done = run(relay)
    assert meeting.met == 4
    assert (done.stopped_reason, done.selected, done.sent) == (StoppedReason.EMPTY, 50, 50)
    assert set(sent(stub).values()) == {1}
    assert world.pending(relay.lane.event_type) == 0
    # Each drain has a span and a duration of its own; each of the two ends with an empty one.
    assert done.drains == 7
    assert len(relay.record.spans(str(relay.lane.span))) == 7


def test_a_batch_that_is_not_full_is_drained_alone(world: World, relay: Relay, stub: Stub) -> None:
    put(world, relay.lane, ROWS - 1)
    done = run(relay)
    assert (done.drains, done.sent) == (2, ROWS - 1)
    assert stub.peak == 1
    assert run(relay).drains == 1


def test_drains_follow_one_another_where_one_at_once_is_asked_for(
    world: World, relay: Relay, stub: Stub
) -> None:
    put(world, relay.lane, 4 * ROWS)
    stub.behaviour = slowly(0.05)
    assert run(relay, at_once=1).sent == 4 * ROWS
    assert stub.peak == 1


def test_an_outage_that_one_drain_meets_ends_both(world: World, relay: Relay, stub: Stub) -> None:
    put(world, relay.lane, 20 * ROWS)
    calls: list[Request] = []

    def behaviour(request: Request) -> Reply:
        calls.append(request)
        return accept(request) if len(calls) == 1 else error(500, "InternalFailure")

    stub.behaviour = behaviour
    done = run(relay)
    assert done.stopped_reason is StoppedReason.OUTAGE
    # At the most the call under way in the other drain, and one that it had just begun.
    assert len(stub.requests) <= 4
    assert world.pending(relay.lane.event_type) == 20 * ROWS - ROWS


def test_time_that_is_spent_ends_both_and_the_rest_stays_pending(
    world: World, relay: Relay, stub: Stub
) -> None:
    put(world, relay.lane, 20 * ROWS)
    stub.behaviour = slowly(0.2)
    done = run(relay, budget_seconds=0.3)
    assert done.stopped_reason is StoppedReason.BUDGET
    assert done.sent < 20 * ROWS
    assert world.pending(relay.lane.event_type) == 20 * ROWS - done.sent


def test_a_fault_of_the_database_in_either_drain_is_raised_and_loses_nothing(
    world: World, relay: Relay, stub: Stub
) -> None:
    """Whichever thread it strikes: each drain's own transaction is all that is rolled back."""
    put(world, relay.lane, 6 * ROWS)
    calls: list[Request] = []

    def behaviour(request: Request) -> Reply:
        calls.append(request)
        if len(calls) > 1:
            world.god.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE usename = 'pramaan_app' AND datname = current_database()"
            )
        return accept(request)

    stub.behaviour = behaviour
    with pytest.raises(DBAPIError):
        run(relay)
    stub.behaviour = accept
    run(relay)
    assert world.pending(relay.lane.event_type) == 0
    assert len(sent(stub)) == 6 * ROWS


class Broken:
    """A publisher that fails with an error of nobody's in one of the two drains, once it runs."""

    def __init__(self, relay: Relay, *, beside: bool) -> None:
        self._inner = relay.lane.publisher(relay.settings)
        self._beside = beside
        self._calls = 0

    @property
    def destination(self) -> str:
        return self._inner.destination

    def verify(self) -> None:
        self._inner.verify()

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        self._calls += 1
        in_other = threading.current_thread().name.startswith("pramaan-drain")
        if self._calls > 1 and in_other is self._beside:
            raise LookupError
        return self._inner.send(messages, deadline=deadline)


@pytest.mark.parametrize("beside", [True, False])
def test_an_error_in_either_drain_ends_both_and_is_raised(
    world: World, relay: Relay, stub: Stub, *, beside: bool
) -> None:
    put(world, relay.lane, 20 * ROWS)
    stub.behaviour = slowly(0.05)
    with pytest.raises(LookupError):
        run(relay, publisher=Broken(relay, beside=beside))
    assert 0 < world.pending(relay.lane.event_type) < 20 * ROWS
    assert len(stub.requests) < 19


class Interrupting(Broken):
    """Interrupts the main thread while that one, with nothing left to take, waits for the other."""

    def __init__(self, relay: Relay, world: World) -> None:
        super().__init__(relay, beside=True)
        self._world, self._relay = world, relay

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        if threading.current_thread() is not threading.main_thread():
            self._calls += 1
            if self._calls == 1:
                while self._world.pending(self._relay.lane.event_type) > ROWS:
                    time.sleep(0.02)
                time.sleep(0.5)
                put(self._world, self._relay.lane, 20 * ROWS)
                os.kill(os.getpid(), signal.SIGINT)
        return self._inner.send(messages, deadline=deadline)


def test_an_interrupt_while_one_drain_waits_for_the_other_ends_that_one_too(
    world: World, relay: Relay, stub: Stub
) -> None:
    """A run that was terminated must not send on behind its own end."""
    put(world, relay.lane, 3 * ROWS)
    stub.behaviour = slowly(0.1)
    with pytest.raises(KeyboardInterrupt):
        run(relay, publisher=Interrupting(relay, world))
    assert not [t for t in threading.enumerate() if t.name.startswith("pramaan-drain")]
    assert world.pending(relay.lane.event_type) == 20 * ROWS
    assert set(sent(stub).values()) == {1}


def test_two_drains_share_the_bytes_of_one(
    world: World, relay: Relay, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    original = DrainLimits.__post_init__

    def seen(self: DrainLimits) -> None:
        original(self)
        asked.append(self.bytes)

    monkeypatch.setattr(DrainLimits, "__post_init__", seen)
    put(world, relay.lane, 3 * ROWS)
    run(relay, max_bytes=4 * 1024 * 1024)
    assert asked == [4 * 1024 * 1024, 2 * 1024 * 1024]
    asked.clear()
    put(world, relay.lane, 3 * ROWS)
    # Never less than the largest row, or none would fit.
    run(relay, max_bytes=256 * 1024)
    assert asked == [256 * 1024, 256 * 1024]
    assert stub.requests
