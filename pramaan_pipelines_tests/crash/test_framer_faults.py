"""The framer rail with microburst between it and its queue: each fault ends, and so does the event.

The relays' half of the fault matrix stands in pramaan_pipelines_tests/faults.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.crash.drive import go_on_until_calm
from pramaan_pipelines_tests.faults.burst import Burst, microburst
from pramaan_pipelines_tests.support.world import World, envelope

CONSUMER_CALLS = ["ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage"]
FAULTS: dict[str, dict[str, Any]] = {
    "throttled": {"error": {"code": "ThrottlingException", "status": 400}},
    "503": {"error": {"code": "ServiceUnavailable", "status": 503}},
    "reset before it gets there": {"reset": True},
    "answer lost after it was done": {"response": {"abort_bytes": 5}},
}


@pytest.fixture(scope="module")
def burst(emulator: str) -> Iterator[Burst]:
    with microburst(emulator) as running:
        yield running


@pytest.mark.parametrize("fault", FAULTS)
def test_event_has_its_end_when_each_call_of_the_consumer_fails_once(
    fault: str,
    burst: Burst,
    configured: Settings,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Receiving, holding and deleting fail in turn; one agent run, nothing left, no dead letter."""
    matter = world.matter(world.firm_a)
    event = envelope(world.firm_a, matter)
    url = configured.require("framer_events_queue_url")
    client("sqs", configured).send_message(QueueUrl=url, MessageBody=event.model_dump_json())

    monkeypatch.setenv("AWS_ENDPOINT_URL", burst.url)
    burst.mend()
    burst.break_operations(CONSUMER_CALLS, FAULTS[fault], times=1)
    go_on_until_calm(Settings.load(), world, matter)

    assert burst.fired() == len(CONSUMER_CALLS), "each call met its fault"
    (run,) = world.runs(matter)
    assert (run["trigger_event_id"], run["status"]) == (str(event.event_id), "succeeded")
    assert QueueConsumer.from_settings(configured).dead_letter_depth().total == 0
