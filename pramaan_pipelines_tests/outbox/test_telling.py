"""What becomes of a row is counted once and has one line, after the commit and not before."""

import logging
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from pramaan_pipelines.outbox.lanes import DOCUMENT_REGISTRATION
from pramaan_pipelines.outbox.relay import run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import Relay, answering, put
from pramaan_pipelines_tests.outbox.test_salvage import DIVIDED_BY_ZERO, lane_that_cannot_render
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Reply, Request, Stub, error
from pramaan_pipelines_tests.support.world import TRACEPARENT, World

TRACE_ID = TRACEPARENT.split("-")[1]


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pramaan_pipelines")


def lines(caplog: pytest.LogCaptureFixture) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return each outcome line by its event, with its level; two lines of one event are a fault."""
    found = [r for r in caplog.records if r.name == "pramaan_pipelines.outcomes"]
    told = {r.__dict__["pramaan"]["event_id"]: (r.levelname, r.__dict__["pramaan"]) for r in found}
    assert len(told) == len(found)
    return told


def test_each_row_is_counted_and_told_once_by_what_became_of_it(
    world: World, relay: Relay, stub: Stub, caplog: pytest.LogCaptureFixture
) -> None:
    sent, refused, last = put(world, relay.lane, 3)
    (untraced,) = put(world, relay.lane, traceparent=None, tracestate=None)
    world.god.execute(
        f"UPDATE {relay.lane.outbox.table} SET attempts = 7 WHERE event_id = %s",  # noqa: S608
        [last],
    )
    verdicts = {refused: "SomethingNew", last: "SomethingNew"}
    stub.behaviour = answering(verdicts.get)
    relay.drain()
    name = relay.lane.name
    assert relay.record.counts("pramaan.relay.rows") == {
        (name, "sent"): 2,
        (name, "failed"): 1,
        (name, "parked"): 1,
    }

    def line(event_id: str, outcome: str, **more: str) -> dict[str, str]:
        return {"event_id": event_id, "outcome": outcome, "lane": name, **more}

    assert lines(caplog) == {
        sent: ("INFO", line(sent, "sent", trace_id=TRACE_ID)),
        untraced: ("INFO", line(untraced, "sent")),
        refused: ("WARNING", line(refused, "failed", reason="refused", trace_id=TRACE_ID)),
        last: ("WARNING", line(last, "parked", reason="refused", trace_id=TRACE_ID)),
    }
    assert str(world.firm_a) not in caplog.text


def test_an_outage_is_on_the_span_and_on_the_duration_with_the_span_s_trace(
    world: World, relay: Relay, stub: Stub, caplog: pytest.LogCaptureFixture
) -> None:
    (event,) = put(world, relay.lane)

    def out(_: Request) -> Reply:
        return error(503, "ServiceUnavailable")

    stub.behaviour = out
    relay.drain()
    (span,) = relay.record.spans(str(relay.lane.span))
    assert (span.attributes or {})["error.type"] == "unavailable"
    (point,) = relay.record.points(str(relay.lane.metric))
    assert dict(point.attributes) == {
        "service": "pramaan-pipelines",
        "environment": "test",
        "error.type": "unavailable",
    }
    assert span.context is not None
    assert [one.trace_id for one in point.exemplars] == [span.context.trace_id]
    assert lines(caplog)[event][1]["reason"] == "unavailable"


def test_what_was_not_committed_is_not_told(
    world: World, relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    put(world, relay.lane)
    world.god.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'refused at the commit'; END $$"
    )
    world.god.execute(
        f"CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON {relay.lane.outbox.table} "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(DBAPIError, match="refused at the commit"):
        relay.drain()
    assert relay.record.counts("pramaan.relay.rows") == {}
    assert lines(caplog) == {}
    (point,) = relay.record.points(str(relay.lane.metric))
    assert "error.type" in point.attributes


def test_a_row_set_aside_is_counted_and_told_once(
    world: World,
    stubbed: Settings,
    database: Database,
    record: TelemetryRecord,
    stub: Stub,
    caplog: pytest.LogCaptureFixture,
) -> None:
    del stub
    sent, bad = put(world, DOCUMENT_REGISTRATION, 2)
    lane = lane_that_cannot_render(bad, DIVIDED_BY_ZERO)
    run_relay(
        lane,
        database=database,
        publisher=lane.publisher(stubbed),
        telemetry=record.telemetry,
        limits=DrainLimits(),
    )
    assert record.counts("pramaan.relay.rows") == {
        (lane.name, "sent"): 1,
        (lane.name, "parked"): 1,
    }
    told = lines(caplog)
    assert {event: fields["outcome"] for event, (_, fields) in told.items()} == {
        sent: "sent",
        bad: "parked",
    }
