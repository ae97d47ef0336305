"""A relay's process is killed at each boundary of a drain, and another relay finishes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from pramaan_pipelines_tests.faults.bench import Disturbed
from pramaan_pipelines_tests.faults.burst import CALLS
from pramaan_pipelines_tests.faults.gate import Gate, gate
from pramaan_pipelines_tests.faults.matrix import BATCH, BATCHED_ROWS, BOUNDARIES, Boundary
from pramaan_pipelines_tests.support.waiting import until
from pramaan_pipelines_tests.support.world import ENVIRONMENT

SECOND = 2
START_SECONDS = 60.0


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What must be closed when the test is over."""
    with ExitStack() as opened:
        yield opened


def hold(
    stack: ExitStack, relay: Disturbed, app_url: SecretStr, boundary: Boundary
) -> tuple[Gate, dict[str, str]]:
    """Return the gate that holds a relay at the boundary, and the environment that leads there."""
    url, endpoint = app_url.get_secret_value(), str(relay.settings.aws_endpoint_url)
    at_commit = "commit" in boundary.name
    held = urlsplit(url if at_commit else endpoint)
    running = stack.enter_context(
        gate(
            (str(held.hostname), int(held.port or 0)),
            b"COMMIT\0" if at_commit else f".{CALLS[relay.service]}".encode(),
            nth=SECOND,
            forward=boundary.name.startswith("after"),
        )
    )
    moved = held.geturl().replace(f":{held.port}", f":{running.port}")
    settings = relay.through(None if at_commit else moved)
    names = (
        "aws_endpoint_url",
        "document_ingestion_queue_url",
        "document_registration_queue_url",
        "framer_events_queue_url",
        "event_bus_name",
    )
    return running, {
        **os.environ,
        "PRAMAAN_ENVIRONMENT": ENVIRONMENT,
        "DATABASE_URL": moved if at_commit else url,
        **{name.upper(): settings.require(name) for name in names},
    }


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda boundary: boundary.name)
def test_a_killed_relay_loses_nothing_and_repeats_at_most_its_batch(
    relay: Disturbed, stack: ExitStack, app_url: SecretStr, boundary: Boundary
) -> None:
    events = relay.put(BATCHED_ROWS)
    at, environment = hold(stack, relay, app_url, boundary)
    child = subprocess.Popen(
        [sys.executable, "-m", "pramaan_pipelines_tests.faults.child", relay.lane.name],
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    try:
        until(lambda: at.reached.is_set() or child.poll() is not None, START_SECONDS)
    finally:
        child.kill()
    assert child.wait() == -signal.SIGKILL, "the relay ended before the boundary"
    assert relay.dispatched() == events[: boundary.committed]

    relay.until_calm(rows=BATCH)
    expected = boundary.expected
    assert relay.measure(expected.rows + expected.duplicates) == expected
    twice = {event for event, copies in relay.arrived.items() if copies > 1}
    assert twice == set(events[BATCH : BATCH + expected.duplicates])
    assert set(relay.arrived.values()) <= {1, 2}
