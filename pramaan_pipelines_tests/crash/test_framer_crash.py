"""The crash matrix of the framer run: SIGKILL at every boundary, and every event has its end.

A real worker process takes a real message and dies; then queue, sweep and healing go on as the
daemon would drive them, until nothing is left to do.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from dagster import DagsterInstance, RunRequest
from pydantic import SecretStr

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.framer.sweep import sweep_stale_matter_frame_jobs
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.messaging.provision import provision
from pramaan_pipelines.orchestration import healing, resources
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.crash.child import BEFORE_IT_BEGINS, IN_THE_INVOKE, Runtime
from pramaan_pipelines_tests.crash.matrix import BOUNDARIES, Boundary
from pramaan_pipelines_tests.support.world import ENVIRONMENT, World, envelope

LEASE_SECONDS = 2
VISIBILITY_SECONDS = 3
LIMIT_SECONDS = 60.0


SAMPLE = {BEFORE_IT_BEGINS, "claim", IN_THE_INVOKE, "release"}


@pytest.fixture
def configured(bare: Settings, app_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The environment of the code location, with a lease and a visibility of seconds."""
    values = {
        "PRAMAAN_ENVIRONMENT": ENVIRONMENT,
        "DATABASE_URL": app_url.get_secret_value(),
        "AWS_ENDPOINT_URL": str(bare.aws_endpoint_url),
        "MATTER_FRAME_JOB_LEASE_SECONDS": str(LEASE_SECONDS),
        **provision(bare, visibility_timeout_seconds=VISIBILITY_SECONDS),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return Settings.load()


def run_here(job: str, request: RunRequest) -> None:
    """Run what a sensor asks for, as the daemon would; a failing run is one more fault to bear."""
    with DagsterInstance.ephemeral() as instance:
        defs.resolve_job_def(job).execute_in_process(
            run_config=request.run_config,
            tags=request.tags,
            instance=instance,
            raise_on_error=False,
        )


def go_on_until_calm(settings: Settings, world: World, matter: object) -> None:
    """Receive, sweep and heal until the queue is empty and the matter's job at rest."""
    queue, deadline = QueueConsumer.from_settings(settings), time.monotonic() + LIMIT_SECONDS
    while True:
        for message in queue.receive(10, 0):
            run_here("framer_trigger_job", run_request(message))
        sweep_stale_matter_frame_jobs(world.database, lease_seconds=LEASE_SECONDS)
        for frame in FrameHealing(world.database).owed(10):
            run_here("frame_healing_job", healing.run_request(frame))
        job = world.rows(
            "SELECT run_status, rebuild_needed FROM ops.matter_frame_jobs WHERE matter_id = %s",
            matter,
        )
        if queue.depth().total == 0 and job == [("idle", False)]:
            return
        assert time.monotonic() < deadline, f"no end in time: {job}, {queue.depth()}"
        time.sleep(0.2)


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
