"""The crash matrix of the framer run: SIGKILL at every boundary, and every event has its end.

A real worker process takes a real message and dies; then queue, sweep and healing go on as the
daemon would drive them, until nothing is left to do.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration import resources
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.crash.child import BEFORE_IT_BEGINS, IN_THE_INVOKE, Runtime
from pramaan_pipelines_tests.crash.drive import LIMIT_SECONDS, go_on_until_calm
from pramaan_pipelines_tests.crash.matrix import BOUNDARIES, Boundary
from pramaan_pipelines_tests.support.world import World, envelope

SAMPLE = {BEFORE_IT_BEGINS, "claim", IN_THE_INVOKE, "release"}


@pytest.mark.parametrize(
    "boundary",
    [
        pytest.param(b, id=b.at.replace(" ", "_"), marks=[] if b.at in SAMPLE else pytest.mark.long)
        for b in BOUNDARIES
    ],
)
def test_event_has_its_end_when_the_worker_is_killed(
    boundary: Boundary,
    configured: Settings,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matter = world.matter(world.firm_a)
    event = envelope(world.firm_a, matter)
    url = configured.require("framer_events_queue_url")
    client("sqs", configured).send_message(QueueUrl=url, MessageBody=event.model_dump_json())
    (message,) = QueueConsumer.from_settings(configured).receive(1, 2)

    invokes = tmp_path / "invokes"
    killed = subprocess.run(
        [
            sys.executable,
            "-m",
            "pramaan_pipelines_tests.crash.child",
            boundary.at,
            str(invokes),
        ],
        input=json.dumps(run_request(message).run_config),
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    monkeypatch.setattr(resources, "LoggingAgent", lambda: Runtime(invokes))
    go_on_until_calm(configured, world, matter)

    runs = world.runs(matter)
    of_event = [run for run in runs if run["trigger_event_id"] == str(event.event_id)]
    assert len(of_event) == 1, "one agent run for the event, whatever died"
    assert len(runs) - len(of_event) == boundary.healed_runs
    assert Counter(run["status"] for run in runs) == Counter(
        succeeded=1, failed=boundary.healed_runs
    ), "the frame is built, and what died is told as failed"
    calls = invokes.read_text().split()
    assert len(calls) == boundary.invokes
    assert len(set(calls)) == len(calls), "no agent run is invoked twice here"
    assert QueueConsumer.from_settings(configured).dead_letter_depth().total == 0
