"""What Dagster loads: one Definitions, composed of what orchestration defines.

Promises: loading needs no network and no settings; where settings are missing it says which.
Never: holds a definition of its own.
"""

import logging
import os

from dagster import Definitions, in_process_executor

from pramaan_pipelines.errors import SettingsError
from pramaan_pipelines.orchestration.checks import check_road_job, road_checks
from pramaan_pipelines.orchestration.consumers import SUBSCRIPTIONS
from pramaan_pipelines.orchestration.growth import (
    purge_dagster_storage_job,
    purge_dagster_storage_schedule,
)
from pramaan_pipelines.orchestration.healing import frame_healing_job, frame_healing_sensor
from pramaan_pipelines.orchestration.operations import OPERATIONS, prune_outboxes_schedule
from pramaan_pipelines.orchestration.relays import RELAY_JOBS, RELAY_SCHEDULES
from pramaan_pipelines.orchestration.replays import REPLAY_JOBS
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.orchestration.road import road
from pramaan_pipelines.orchestration.subscriptions import subscription_sensor
from pramaan_pipelines.orchestration.sweep import (
    stale_frame_job_sweep_job,
    stale_frame_job_sweep_schedule,
)
from pramaan_pipelines.orchestration.wake_up import relay_wake_up_sensor
from pramaan_pipelines.orchestration.watching import road_watch_sensor
from pramaan_pipelines.settings import (
    HINT,
    REQUIRED,
    ViewSettings,
    missing_settings,
    wake_up_wanted,
)

LOGGER = logging.getLogger(__name__)

if missing := missing_settings(os.environ, REQUIRED):
    LOGGER.warning(
        "not configured: %s. Schedules and sensors will fail until it is. %s",
        ", ".join(missing),
        HINT,
    )


def _owners() -> list[str]:
    try:
        return ViewSettings.load().owners
    except SettingsError as error:
        # Who owns an asset is no reason for the relays not to load; the ticks that need it fail.
        LOGGER.warning("assets are shown without owners: %s", error)
        return []


defs = Definitions(
    assets=road(_owners()),
    asset_checks=[road_checks],
    jobs=[
        *RELAY_JOBS.values(),
        *REPLAY_JOBS,
        *(entry.job for entry in SUBSCRIPTIONS),
        frame_healing_job,
        stale_frame_job_sweep_job,
        check_road_job,
        purge_dagster_storage_job,
        *OPERATIONS,
    ],
    schedules=[
        *RELAY_SCHEDULES,
        stale_frame_job_sweep_schedule,
        prune_outboxes_schedule,
        purge_dagster_storage_schedule,
    ],
    sensors=[
        *map(subscription_sensor, SUBSCRIPTIONS),
        frame_healing_sensor,
        road_watch_sensor,
        relay_wake_up_sensor(running=wake_up_wanted(os.environ)),
    ],
    resources=make_resources(),
    # What is launched from the asset graph runs like everything else here: in one process.
    executor=in_process_executor,
)
