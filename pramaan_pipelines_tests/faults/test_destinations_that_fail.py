"""The destination fails, by microburst in front of the emulator; then it does not any more."""

import pytest

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.outbox.relay import RelayRun, StoppedReason
from pramaan_pipelines_tests.faults.bench import Disturbed
from pramaan_pipelines_tests.faults.burst import Burst
from pramaan_pipelines_tests.faults.matrix import (
    FAULTS,
    FULL_RUNS,
    LANES,
    LATER_CALL,
    LOST_ONCE,
    ROWS,
    SECRET,
    Fault,
)
from pramaan_pipelines_tests.support.waiting import until

CASES = [
    pytest.param(
        name,
        fault,
        id=f"{name}-{fault.name}",
        # What waits for bounds to pass is sampled on one lane.
        marks=[pytest.mark.long] if fault.waits and name == "bus" else [],
    )
    for name in LANES
    for fault in FAULTS
]


def assert_outage(run: RelayRun, relay: Disturbed, says: str) -> None:
    """Assert that the run, and each row that was not sent, tell an outage that begins with that."""
    assert run.stopped_reason is StoppedReason.OUTAGE
    assert run.parked == 0
    told = {row["last_dispatch_error"] for row in relay.rows() if not row["dispatched_at"]}
    assert [text for text in (run.outage, *told) if not str(text).startswith(says)] == []


@pytest.mark.usefixtures("one_ask")
@pytest.mark.parametrize(("lane_name", "fault"), CASES, indirect=["lane_name"])
def test_an_outage_loses_parks_and_blames_nothing_and_ends_by_itself(
    relay: Disturbed, burst: Burst, fault: Fault, lane_name: str, account_secret: str
) -> None:
    events, effect = relay.put(ROWS), fault.effect[lane_name]
    for_all, for_later = fault.read_seconds
    publisher = relay.publisher(burst.url, for_all)

    burst.break_calls(relay.service, effect)
    for _ in range(FULL_RUNS):
        relay.until_due(ROWS)
        run = relay.run(publisher)
        assert (run.selected, run.sent) == (ROWS, 0)
        assert_outage(run, relay, fault.says[lane_name])
    until(lambda: burst.fired() == 2 * FULL_RUNS)
    assert relay.dispatched() == []

    burst.mend()
    burst.break_calls(relay.service, effect, entries=LATER_CALL)
    relay.until_due(ROWS)
    run = relay.run(relay.publisher(burst.url, for_later), budget_seconds=0)
    assert (run.selected, run.sent) == (ROWS, ROWS - LATER_CALL)
    assert_outage(run, relay, fault.says[lane_name])
    assert relay.dispatched() == events[:-LATER_CALL]
    for secret in (SECRET, account_secret):
        assert secret not in f"{run} {relay.rows()}"

    burst.mend()
    relay.until_calm()
    expected = fault.expected
    assert relay.measure(ROWS + expected.duplicates) == expected
    accepted_each = FULL_RUNS if fault.accepted else 0
    assert {relay.arrived[event] for event in events[:-LATER_CALL]} == {accepted_each + 1}


def test_an_answer_lost_once_is_asked_for_again_by_the_client_and_no_outage(
    relay: Disturbed, burst: Burst
) -> None:
    relay.put(ROWS)
    effect = {"response": {"abort_bytes": 5}}
    burst.break_each_call_once(relay.service, effect, [LATER_CALL, ROWS - LATER_CALL])
    run = relay.run(relay.publisher(burst.url))
    assert (run.sent, run.failed, run.outage) == (ROWS, 0, None)
    assert burst.fired() == 2
    assert relay.measure(ROWS + LOST_ONCE.duplicates) == LOST_ONCE
    assert set(relay.arrived.values()) == {2}


@pytest.mark.parametrize("lane_name", ["queue"], indirect=True)
def test_a_queue_that_is_not_there_is_an_outage_until_somebody_makes_it(relay: Disturbed) -> None:
    relay.put(ROWS)
    name = "document_registration_queue_url"
    missing = relay.queue_url + "-made-later"
    relay.settings = relay.settings.model_copy(update={name: missing})
    with pytest.raises(DestinationError, match="made-later"):
        relay.publisher().verify()
    for _ in range(FULL_RUNS):
        relay.until_due(ROWS)
        run = relay.run(relay.publisher())
        assert run.stopped_reason is StoppedReason.OUTAGE
        assert str(run.outage).startswith(("QueueDoesNotExist", "NonExistentQueue"))
    client("sqs", relay.settings).create_queue(QueueName=missing.rsplit("/", 1)[-1])
    relay.until_calm()
    measured = relay.measure(ROWS)
    assert (measured.lost, measured.parked, measured.tries, measured.duplicates) == (0, 0, 0, 0)


@pytest.mark.parametrize("lane_name", ["bus"], indirect=True)
def test_a_bus_that_is_not_there_is_found_before_and_after_each_send(relay: Disturbed) -> None:
    """Nothing but a look can tell: PutEvents answers success, and the events are gone."""
    relay.put(ROWS)
    relay.settings = relay.settings.model_copy(update={"event_bus_name": "nobody-made-it"})
    with pytest.raises(DestinationError, match="nobody-made-it"):
        relay.publisher().verify()
    # As when somebody deletes the bus in the middle of a run, past the look at its beginning.
    run = relay.run(relay.publisher())
    assert (run.sent, run.stopped_reason) == (0, StoppedReason.OUTAGE)
    assert str(run.outage).startswith("the bus was gone")
    assert relay.world.pending(relay.lane.event_type) == ROWS
