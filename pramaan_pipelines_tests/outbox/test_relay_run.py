"""A relay run: drains of one lane until it is empty, out, or has spent its time."""

import pytest

from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.outbox.lanes import LANES, OUTBOXES
from pramaan_pipelines.outbox.relay import MAX_FAILURES_SHOWN, RelayRun, StoppedReason, run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines_tests.outbox.bench import RELAYS, Relay, answering, put
from pramaan_pipelines_tests.support.stub import Stub, error, slowly
from pramaan_pipelines_tests.support.world import World


def run(relay: Relay, budget_seconds: float = 45, **limits: int) -> RelayRun:
    return run_relay(
        relay.lane,
        database=relay.database,
        publisher=relay.lane.publisher(relay.settings),
        telemetry=relay.record.telemetry,
        limits=DrainLimits(**limits),
        budget_seconds=budget_seconds,
    )


def test_a_run_drains_until_the_lane_is_empty_and_sums_its_drains(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put(world, relay.lane, 25)
    codes = {events[3]: "SomethingNew", events[14]: "InvalidMessageContents"}
    stub.behaviour = answering(codes.get)
    done = run(relay, rows=10)
    assert done.stopped_reason is StoppedReason.EMPTY
    assert (done.drains, done.selected, done.sent, done.failed, done.parked) == (4, 25, 23, 1, 1)
    assert done.outage is None
    assert {str(f.event_id): f.parked for f in done.failures} == {
        events[3]: False,
        events[14]: True,
    }
    assert done.bytes > 23 * 200
    assert done.seconds > 0
    # One span and one duration a drain: a run is no transaction and no span of its own.
    assert len(relay.record.spans(str(relay.lane.span))) == 4
    (point,) = relay.record.histogram_points(str(relay.lane.metric))
    assert point.count == 4


def test_a_run_of_an_empty_lane_is_one_drain(world: World, relay: Relay) -> None:
    assert world.pending(relay.lane.event_type) == 0
    done = run(relay)
    assert (done.stopped_reason, done.drains, done.selected) == (StoppedReason.EMPTY, 1, 0)


def test_a_run_stops_when_its_budget_is_spent_and_the_rest_stays_pending(
    world: World, relay: Relay, stub: Stub
) -> None:
    put(world, relay.lane, 50)
    stub.behaviour = slowly(0.15)
    done = run(relay, budget_seconds=0.25, rows=10)
    assert done.stopped_reason is StoppedReason.BUDGET
    assert done.drains < 5
    assert done.seconds >= 0.25
    assert world.pending(relay.lane.event_type) == 50 - 10 * done.drains


def test_an_outage_ends_the_run_and_the_next_one_finds_the_rows_pending(
    world: World, relay: Relay, stub: Stub
) -> None:
    put(world, relay.lane, 30)
    stub.behaviour = lambda _: error(500, "InternalFailure")
    done = run(relay, rows=10)
    assert done.stopped_reason is StoppedReason.OUTAGE
    assert (done.drains, done.selected, done.sent, done.failed) == (1, 10, 0, 10)
    assert str(done.outage).startswith("InternalFailure")
    assert world.pending(relay.lane.event_type) == 30
    assert len(stub.requests) == 1


def test_a_run_shows_a_bounded_number_of_failures(world: World, relay: Relay, stub: Stub) -> None:
    put(world, relay.lane, MAX_FAILURES_SHOWN + 15)
    stub.behaviour = answering(lambda _: "SomethingNew")
    done = run(relay, rows=15)
    assert done.failed == MAX_FAILURES_SHOWN + 15
    assert len(done.failures) == MAX_FAILURES_SHOWN


# ---- the registry -----------------------------------------------------------------------------


def test_every_event_type_has_exactly_one_lane() -> None:
    assert sorted(lane.event_type for lane in LANES) == sorted(EventType)


@pytest.mark.parametrize("attribute", ["name", "event_type", "span", "metric", "publisher"])
def test_no_two_lanes_share_what_tells_them_apart(attribute: str) -> None:
    assert len({getattr(lane, attribute) for lane in LANES}) == len(LANES)


def test_every_lane_has_a_relay_and_a_known_outbox() -> None:
    assert set(RELAYS) == set(LANES)
    assert {lane.outbox for lane in LANES} == set(OUTBOXES)
