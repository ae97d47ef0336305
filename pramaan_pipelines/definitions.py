"""What Dagster loads: one Definitions, composed of what orchestration defines.

Promises: loading needs no network and no settings; where settings are missing it says which.
Never: holds a definition of its own.
"""

import logging
import os

from dagster import Definitions

from pramaan_pipelines.orchestration.framer import framer_events_sensor, framer_trigger_job
from pramaan_pipelines.orchestration.healing import frame_healing_job, frame_healing_sensor
from pramaan_pipelines.orchestration.operations import OPERATIONS, prune_outboxes_schedule
from pramaan_pipelines.orchestration.relays import RELAY_JOBS, RELAY_SCHEDULES
from pramaan_pipelines.orchestration.replays import REPLAY_JOBS
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.orchestration.road import ROAD
from pramaan_pipelines.orchestration.sweep import (
    stale_frame_job_sweep_job,
    stale_frame_job_sweep_schedule,
)
from pramaan_pipelines.orchestration.wake_up import relay_wake_up_sensor
from pramaan_pipelines.settings import HINT, REQUIRED, missing_settings, wake_up_wanted

if missing := missing_settings(os.environ, REQUIRED):
    logging.getLogger(__name__).warning(
        "not configured: %s. Schedules and sensors will fail until it is. %s",
        ", ".join(missing),
        HINT,
    )

defs = Definitions(
    assets=ROAD,
    jobs=[
        *RELAY_JOBS.values(),
        *REPLAY_JOBS,
        framer_trigger_job,
        frame_healing_job,
        stale_frame_job_sweep_job,
        *OPERATIONS,
    ],
    schedules=[*RELAY_SCHEDULES, stale_frame_job_sweep_schedule, prune_outboxes_schedule],
    sensors=[
        framer_events_sensor,
        frame_healing_sensor,
        relay_wake_up_sensor(running=wake_up_wanted(os.environ)),
    ],
    resources=make_resources(),
)
