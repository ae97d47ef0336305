"""A batch costs the same few round trips however many rows it has, and nothing due costs fewer."""

import pytest

from pramaan_pipelines_tests.outbox.bench import Relay, answering, put
from pramaan_pipelines_tests.support.stub import Stub
from pramaan_pipelines_tests.support.trips import round_trips
from pramaan_pipelines_tests.support.world import World

A_LOOK = 4
"""Is the connection alive, BEGIN with the scope, the batch, COMMIT."""


def cost(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> int:
    with round_trips(monkeypatch) as trips:
        relay.drain()
    return trips.number


def test_a_batch_costs_as_many_round_trips_as_a_row(
    world: World, relay: Relay, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay.drain()
    assert cost(relay, monkeypatch) <= A_LOOK
    for count in (1, 200):
        put(world, relay.lane, count)
        # One more: all that were accepted are marked at once.
        assert cost(relay, monkeypatch) <= A_LOOK + 1
    events = put(world, relay.lane, 200)
    stub.behaviour = answering(dict.fromkeys(events[::2], "InternalError").get)
    # And one for all that were not.
    assert cost(relay, monkeypatch) <= A_LOOK + 2
    assert world.pending(relay.lane.event_type) == 100
