"""Driving the framer rail by hand as the daemon would, until nothing is left to do."""

import time
from contextlib import suppress
from typing import Final

from dagster import DagsterInstance, RunRequest

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.framer.sweep import sweep_stale_matter_frame_jobs
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration import healing
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.world import World

LEASE_SECONDS: Final = 2
VISIBILITY_SECONDS: Final = 3
LIMIT_SECONDS: Final = 60.0


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
        # A tick that meets a fault fails, and the next one comes.
        with suppress(DestinationError):
            for message in queue.receive(10, 0):
                run_here("framer_trigger_job", run_request(message))
        sweep_stale_matter_frame_jobs(world.database, lease_seconds=LEASE_SECONDS)
        for frame in FrameHealing(world.database).owed(10):
            run_here("frame_healing_job", healing.run_request(frame))
        job = world.rows(
            "SELECT run_status, rebuild_needed FROM ops.matter_frame_jobs WHERE matter_id = %s",
            matter,
        )
        with suppress(DestinationError):
            if job == [("idle", False)] and queue.depth().total == 0:
                return
        assert time.monotonic() < deadline, f"no end in time: {job}"
        time.sleep(0.2)
