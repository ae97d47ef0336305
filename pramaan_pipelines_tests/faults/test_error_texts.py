"""What a service says in its errors reaches last_dispatch_error as a text that is safe to keep."""

from collections.abc import Callable

import pytest

from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.faults.bench import Disturbed
from pramaan_pipelines_tests.faults.matrix import LANES, SECRET, SECRET_URL
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Reply, Request, Stub, error
from pramaan_pipelines_tests.support.world import World

LONGEST = 600

TEXTS = {
    "NUL": "broken\x00text",
    "a lone surrogate": "broken\ud800text",
    "megabytes": "broken text " + "x" * 3_000_000,
    "a secret in a URL": f"broken text at {SECRET_URL}",
    "a secret cut in half": f"broken text {' ' * 19_950}{SECRET_URL}",
    "lines and a terminal's commands": "broken\r\n\x1b[2Jtext\u202e",
}


def refused_by_name(text: str) -> Callable[[Request], Reply]:
    """Refuse each entry, with `text` for its message and in its code."""

    def behaviour(request: Request) -> Reply:
        entries = [
            {"Id": e.get("Id"), "Code": f"New{text}", "ErrorCode": f"New{text}"}
            | {"Message": text, "ErrorMessage": text, "SenderFault": True}
            for e in request["Entries"]
        ]
        return 200, {"Failed": entries, "Entries": entries, "FailedEntryCount": len(entries)}

    return behaviour


def failed_as_a_whole(text: str) -> Callable[[Request], Reply]:
    return lambda _: error(500, "InternalFailure", text)


def not_of_the_protocol(text: str) -> Callable[[Request], Reply]:
    """A proxy's own page instead of an answer."""
    return lambda _: (502, f"<html>{text}</html>".encode("utf-8", "surrogatepass"))


@pytest.fixture
def relay(
    lane_name: str,
    world: World,
    database: Database,
    stub: Stub,
    record: TelemetryRecord,
    one_ask: None,
) -> Disturbed:
    """The lane's relay to the stub."""
    del one_ask
    settings = settings_for(
        stub.endpoint_url,
        document_registration_queue_url=f"{stub.endpoint_url}/1/registration",
        event_bus_name="pramaan-events-test",
    )
    return Disturbed(LANES[lane_name], world, database, settings, record.telemetry)


@pytest.mark.parametrize("answer", [refused_by_name, failed_as_a_whole, not_of_the_protocol])
def test_a_service_s_text_is_stored_safely_and_says_something(
    relay: Disturbed, stub: Stub, answer: Callable[[str], Callable[[Request], Reply]]
) -> None:
    for name, text in TEXTS.items():
        (event,) = relay.put(1)
        stub.behaviour = answer(text)
        run = relay.run(relay.publisher(), budget_seconds=0)
        assert (run.sent, run.failed + run.parked) == (0, run.selected)
        (row,) = relay.rows([event])
        told = row["last_dispatch_error"]
        assert told, name
        assert len(told) <= LONGEST, name
        assert told.isprintable(), name
        assert SECRET[:5] not in f"{told} {run}", name
        if answer is failed_as_a_whole:
            assert told.startswith("InternalFailure: broken"), name
        relay.world.god.execute(f"DELETE FROM {relay.lane.outbox.table}")  # noqa: S608
