"""What hangs or is never answered holds up nothing else. Told by events, never by a clock."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from pydantic import SecretStr

from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines.outbox.relay import StoppedReason, run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.faults.bench import Disturbed
from pramaan_pipelines_tests.faults.matrix import BATCH, BATCHED_ROWS, LANES
from pramaan_pipelines_tests.outbox.bench import ABSENT, answering, event_ids, put
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Reply, Request, Reset, Stub, accept, bodies
from pramaan_pipelines_tests.support.waiting import until
from pramaan_pipelines_tests.support.world import World


@pytest.fixture
def stubbed(stub: Stub) -> Settings:
    """Settings of an account that is the stub."""
    return settings_for(
        stub.endpoint_url,
        document_ingestion_queue_url=f"{stub.endpoint_url}/1/ingestion",
        document_registration_queue_url=f"{stub.endpoint_url}/1/registration",
        event_bus_name="pramaan-events-test",
    )


@pytest.fixture
def relay(
    lane_name: str,
    world: World,
    database: Database,
    stubbed: Settings,
    record: TelemetryRecord,
    one_ask: None,
) -> Disturbed:
    """The lane's relay to the stub."""
    del one_ask
    return Disturbed(LANES[lane_name], world, database, stubbed, record.telemetry)


def test_a_hung_call_holds_its_own_batch_and_nothing_else(
    relay: Disturbed, stub: Stub, app_url: SecretStr, stubbed: Settings
) -> None:
    events = relay.put(BATCHED_ROWS)
    neighbours = put(relay.world, DOCUMENT_INGEST, BATCHED_ROWS)
    hangs, let_go = Event(), Event()

    def behaviour(request: Request) -> Reply:
        if not hangs.is_set() and json.loads(bodies(request)[0])["event_id"] == events[0]:
            hangs.set()
            let_go.wait(60)
            raise Reset
        return accept(request)

    stub.behaviour = behaviour
    other = Database.connect(app_url)
    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(relay.run, relay.publisher(), rows=BATCH)
        try:
            until(hangs.is_set)
            # Another lane, and another relay of the same lane.
            for lane in (DOCUMENT_INGEST, relay.lane):
                run = run_relay(
                    lane,
                    database=other,
                    publisher=lane.publisher(stubbed),
                    telemetry=relay.telemetry,
                    limits=DrainLimits(rows=BATCH),
                )
                assert run.stopped_reason is StoppedReason.EMPTY
            document = relay.world.document(relay.world.firm_a)
            assert document, "and producers write"
            assert not hung.done()
        finally:
            let_go.set()
    other.close()
    assert set(event_ids(stub.requests)[BATCH:]) == set(events[BATCH:]) | set(neighbours)
    assert (hung.result().sent, hung.result().failed) == (0, BATCH)
    assert hung.result().stopped_reason is StoppedReason.OUTAGE
    assert relay.dispatched() == events[BATCH:]
    relay.until_calm(rows=BATCH)
    assert relay.dispatched() == events
    assert {row["attempts"] for row in relay.rows()} == {0}


def test_a_row_that_is_never_answered_keeps_its_lane_at_full_speed(
    relay: Disturbed, stub: Stub
) -> None:
    """Its answer is an outage, which is nobody's fault; its neighbours are no less due for it."""
    events = relay.put(BATCHED_ROWS)
    stub.behaviour = answering(lambda event: ABSENT if event == events[0] else None)
    run = relay.run(relay.publisher(), rows=BATCH)
    assert relay.dispatched() == events[1:]
    assert run.stopped_reason is StoppedReason.OUTAGE, "it is not hidden by what went well"
    assert run.outage == "not named in the answer"


def test_a_destination_that_is_out_is_asked_once_a_run(relay: Disturbed, stub: Stub) -> None:
    relay.put(BATCHED_ROWS)
    stub.behaviour = answering(lambda _: ABSENT)
    run = relay.run(relay.publisher(), rows=BATCH)
    assert (run.stopped_reason, run.drains) == (StoppedReason.OUTAGE, 1)
    assert len(stub.requests) == 1
