"""What becomes of a row that was not sent: whose fault it was decides, entry by entry."""

import time
from datetime import datetime, timedelta

import pytest

from pramaan_pipelines.messaging.publisher import SendStatus
from pramaan_pipelines.outbox.lanes import DOCUMENT_REGISTRATION, DOMAIN_EVENT
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import (
    ABSENT,
    Relay,
    answering,
    event_ids,
    make_due,
    pause_ahead,
    put,
    received,
    row,
    rows,
)
from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Reply, Request, Reset, Stub, accept, error
from pramaan_pipelines_tests.support.world import World

OUTAGES: dict[str, Reply] = {
    "500": error(500, "InternalFailure"),
    "throttled": error(400, "ThrottlingException"),
    "denied": error(400, "AccessDeniedException"),
    "no such destination": error(400, "ResourceNotFoundException"),
}


def test_a_failed_send_leaves_the_row_pending_with_its_error_and_a_pause(
    world: World, relay: Relay, stub: Stub
) -> None:
    (event,) = put(world, relay.lane)
    stub.behaviour = answering(lambda _: "SomethingNew")
    first = relay.drain()
    assert (first.selected, first.sent, first.failed, first.parked) == (1, 0, 1, 0)
    (failure,) = first.failures
    assert (str(failure.event_id), failure.status, failure.parked) == (
        event,
        SendStatus.REFUSED,
        False,
    )
    found = row(world, relay.lane, event)
    assert found["dispatched_at"] is None
    assert found["parked_at"] is None
    assert found["last_dispatch_error"] == "SomethingNew"
    assert found["attempts"] == 1
    assert 5 < pause_ahead(world, relay.lane, event) <= 20

    assert relay.drain().selected == 0  # not before its time
    stub.behaviour = accept
    make_due(world, relay.lane)
    assert relay.drain().sent == 1
    after = row(world, relay.lane, event)
    assert after["dispatched_at"]
    assert after["last_dispatch_error"] is None
    assert event_ids(stub.requests) == [event, event]


def test_the_pause_begins_when_the_answer_is_known_and_not_when_the_transaction_began(
    world: World, relay: Relay, stub: Stub
) -> None:
    """Else a slow refusal would be due again at once, and use up its tries in one run."""
    (event,) = put(world, relay.lane)
    refuse = answering(lambda _: "SomethingNew")
    answered: list[datetime] = []

    def slow_refusal(request: Request) -> Reply:
        time.sleep(0.6)
        answered.append(world.one("SELECT clock_timestamp()"))
        return refuse(request)

    stub.behaviour = slow_refusal
    relay.drain(pause_seconds=1)
    due = datetime.fromisoformat(row(world, relay.lane, event)["next_attempt_at"])
    assert due - answered[0] >= timedelta(seconds=0.5)


def test_the_pause_doubles_with_each_refusal_up_to_its_bound(
    world: World, relay: Relay, stub: Stub
) -> None:
    (event,) = put(world, relay.lane)
    stub.behaviour = answering(lambda _: "SomethingNew")
    for longest in (100, 200, 400, 500, 500):
        make_due(world, relay.lane)
        relay.drain(pause_seconds=100, max_pause_seconds=500)
        assert longest / 2 - 5 < pause_ahead(world, relay.lane, event) <= longest


def test_an_accepted_entry_is_never_sent_again_because_its_neighbour_failed(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put(world, relay.lane, 12)
    bad = {events[1], events[11]}
    stub.behaviour = answering(lambda event: "SomethingNew" if event in bad else None)
    first = relay.drain()
    assert (first.selected, first.sent, first.failed) == (12, 10, 2)
    sent = {r["event_id"] for r in rows(world, relay.lane, events) if r["dispatched_at"]}
    assert sent == set(events) - bad
    stub.behaviour, stub.requests = accept, []
    make_due(world, relay.lane)
    assert relay.drain().selected == 2
    assert set(event_ids(stub.requests)) == bad


def test_an_entry_in_neither_list_counts_as_not_sent_and_costs_no_try(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put(world, relay.lane, 3)
    stub.behaviour = answering(lambda event: ABSENT if event == events[1] else None)
    result = relay.drain()
    assert (result.sent, result.failed) == (2, 1)
    found = row(world, relay.lane, events[1])
    assert found["dispatched_at"] is None
    assert found["attempts"] == 0
    assert found["last_dispatch_error"] == "not named in the answer"


@pytest.mark.parametrize("reply", OUTAGES.values(), ids=OUTAGES.keys())
def test_an_outage_costs_no_try_and_never_parks_however_long_it_lasts(
    world: World, relay: Relay, stub: Stub, reply: Reply
) -> None:
    events = put(world, relay.lane, 2)
    stub.behaviour = lambda _: reply
    for _ in range(12):  # more than the tries a refused row has
        make_due(world, relay.lane)
        result = relay.drain()
        assert (result.selected, result.sent, result.failed, result.parked) == (2, 0, 2, 0)
        assert result.outage
    for found in rows(world, relay.lane, events):
        assert found["attempts"] == 0
        assert found["parked_at"] is None
        assert found["last_dispatch_error"] == result.outage
    assert 5 < pause_ahead(world, relay.lane, events[0]) <= 20  # it does not grow
    (*_, span) = relay.record.spans(str(relay.lane.span))
    assert not span.status.is_ok
    stub.behaviour = accept
    make_due(world, relay.lane)
    assert relay.drain().sent == 2


def test_a_reset_and_a_refused_connection_are_outages_too(
    world: World, relay: Relay, stub: Stub, stubbed: Settings
) -> None:
    (event,) = put(world, relay.lane)

    def reset(_: object) -> Reply:
        raise Reset

    stub.behaviour = reset
    assert relay.drain().outage
    make_due(world, relay.lane)
    gone = {"aws_endpoint_url": f"http://127.0.0.1:{free_port()}"}
    relay.settings = stubbed.model_copy(update=gone)
    assert relay.drain().outage
    found = row(world, relay.lane, event)
    assert (found["attempts"], found["parked_at"]) == (0, None)


def test_an_outage_parks_no_row_whose_tries_are_at_a_bound_that_was_lowered(
    world: World, relay: Relay, stub: Stub
) -> None:
    (event,) = put(world, relay.lane)
    stub.behaviour = answering(lambda _: "SomethingNew")
    for _ in range(3):
        make_due(world, relay.lane)
        relay.drain(attempts=8)
    stub.behaviour = lambda _: error(500, "InternalFailure")
    make_due(world, relay.lane)
    result = relay.drain(attempts=3)
    assert (result.failed, result.parked) == (1, 0)
    assert row(world, relay.lane, event)["parked_at"] is None


def test_a_row_refused_by_name_is_parked_after_the_bounded_tries(
    world: World, relay: Relay, stub: Stub
) -> None:
    bad, good = put(world, relay.lane, 2)
    stub.behaviour = answering(lambda event: "SomethingNew" if event == bad else None)
    ends = []
    for _ in range(3):
        make_due(world, relay.lane)
        result = relay.drain(attempts=3)
        ends.append((result.sent, result.failed, result.parked))
    assert ends == [(1, 1, 0), (0, 1, 0), (0, 0, 1)]
    found = row(world, relay.lane, bad)
    assert found["parked_at"]
    assert found["parked_reason"] == found["last_dispatch_error"] == "SomethingNew"
    assert found["dispatched_at"] is None
    assert row(world, relay.lane, good)["dispatched_at"]
    make_due(world, relay.lane)
    stub.behaviour = accept
    assert relay.drain().selected == 0  # parked is never selected


def test_what_the_service_says_can_never_be_sent_is_parked_at_once(
    world: World, relay: Relay, stub: Stub
) -> None:
    bad, good = put(world, relay.lane, 2)
    stub.behaviour = answering(lambda e: "InvalidMessageContents" if e == bad else None)
    result = relay.drain()
    assert (result.sent, result.failed, result.parked) == (1, 0, 1)
    assert row(world, relay.lane, bad)["parked_at"]
    assert row(world, relay.lane, good)["dispatched_at"]


def test_a_row_over_256_kib_is_parked_at_once_and_its_neighbours_flow(
    world: World, provisioned: Settings, database: Database, record: TelemetryRecord
) -> None:
    relay = Relay(DOMAIN_EVENT, provisioned, database, record)
    (before,) = put(world, DOMAIN_EVENT)
    (large,) = put(world, DOMAIN_EVENT, more={"x": "y" * 256 * 1024})
    (just,) = put(world, DOMAIN_EVENT, more={"x": "y" * (255 * 1024)})
    (after,) = put(world, DOMAIN_EVENT)
    result = relay.drain()
    assert (result.selected, result.sent, result.failed, result.parked) == (4, 2, 0, 2)
    reasons = {}
    for event in (large, just):
        found = row(world, DOMAIN_EVENT, event)
        assert found["parked_at"]
        assert found["dispatched_at"] is None
        reasons[event] = found["parked_reason"]
    assert reasons[large] == "body over 256 KiB"
    assert reasons[just] == "no envelope of this event, at: <unknown> (extra_forbidden)"
    assert all(r["dispatched_at"] for r in rows(world, DOMAIN_EVENT, [before, after]))
    assert relay.drain().selected == 0


@pytest.mark.parametrize("character", ["\ufffe", "\uffff"])
def test_a_row_with_a_character_that_the_queue_refuses_is_parked_at_once(
    world: World,
    stubbed: Settings,
    database: Database,
    record: TelemetryRecord,
    stub: Stub,
    character: str,
) -> None:
    """An envelope of the domain lane has no free text; there the row is no envelope at all."""
    relay = Relay(DOCUMENT_REGISTRATION, stubbed, database, record)
    (bad,) = put(world, relay.lane, tracestate=character)
    (good,) = put(world, relay.lane)
    result = relay.drain()
    assert (result.sent, result.parked) == (1, 1)
    assert event_ids(stub.requests) == [good]
    found = row(world, relay.lane, bad)
    assert found["parked_at"]
    assert f"U+{ord(character):04X}" in found["parked_reason"]
    assert character not in found["parked_reason"]
    assert found["dispatched_at"] is None


def test_control_characters_in_a_row_are_escaped_and_arrive(
    world: World, provisioned: Settings, database: Database, record: TelemetryRecord
) -> None:
    put(world, DOCUMENT_REGISTRATION, tracestate="a\x01b")
    assert Relay(DOCUMENT_REGISTRATION, provisioned, database, record).drain().sent == 1
    received(provisioned, provisioned.document_registration_queue_url, 1)


def test_neighbours_flow_when_more_poison_stands_at_the_head_than_a_batch_holds(
    world: World, relay: Relay, stub: Stub
) -> None:
    poison = set(put(world, relay.lane, 25))
    good = put(world, relay.lane, 5)
    stub.behaviour = answering(lambda event: "SomethingNew" if event in poison else None)
    results = [relay.drain(rows=10) for _ in range(4)]
    assert [r.selected for r in results] == [10, 10, 10, 0]
    assert all(r["dispatched_at"] for r in rows(world, relay.lane, good))
    assert sum(r.failed for r in results) == 25


ANOTHER = "5b4b6e0c-6a1f-4d0b-9a51-0d5f0e7c6a11"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"title": "Client X v. Y"}, "no envelope of this event, at: <unknown> (extra_forbidden)"),
        ({"event_type": "matter.sold"}, "no envelope of this event, at: event_type"),
        ({"firm_id": ANOTHER}, "the envelope names another event or firm than its row"),
        ({"event_id": ANOTHER}, "the envelope names another event or firm than its row"),
    ],
    ids=["content", "another type", "another firm", "another event"],
)
def test_an_envelope_that_contradicts_its_row_is_parked_and_never_sent(
    world: World,
    stubbed: Settings,
    database: Database,
    record: TelemetryRecord,
    stub: Stub,
    more: dict[str, str],
    told: str,
) -> None:
    """EB-17 begins here: row level security saw the row's firm; what travels is the envelope's."""
    (bad,) = put(world, DOMAIN_EVENT, more=more)
    (good,) = put(world, DOMAIN_EVENT)
    result = Relay(DOMAIN_EVENT, stubbed, database, record).drain()
    assert (result.sent, result.parked) == (1, 1)
    assert event_ids(stub.requests) == [good]
    found = row(world, DOMAIN_EVENT, bad)
    assert found["parked_reason"].startswith(told)
    assert "Client X" not in found["parked_reason"]
