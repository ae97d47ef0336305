"""The wake-up of the relays: seconds instead of the schedule's minute.

Promises: a lane that has a row due and no run under way gets one, at the next loop of the sensor
daemon (5 s); the minute's schedule is the floor that holds without it.
Never: starts a run while there is nothing to send, or a second one beside one that is under way.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from dagster import (
    DagsterInstance,
    DefaultSensorStatus,
    ResourceParam,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from pramaan_pipelines.orchestration.relays import RELAY_JOBS
from pramaan_pipelines.orchestration.unfinished import UNFINISHED
from pramaan_pipelines.outbox.backlog import any_due
from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.store.database import Database

LOOP_SECONDS: Final = 5
"""The sensor daemon's own loop; less makes it no quicker."""

LONGEST_LIFE: Final = timedelta(minutes=10)
"""Twice what run monitoring lets a relay run live: a run older than this is under way no more."""


def relay_wake_up_sensor(*, running: bool) -> SensorDefinition:
    """Return the sensor.

    Args:
        running: whether it comes up running; else an operator may start it in the UI.
    """

    @sensor(
        name="relay_wake_up_sensor",
        jobs=list(RELAY_JOBS.values()),
        minimum_interval_seconds=LOOP_SECONDS,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
        description=(
            "Every 5 seconds: start the relay of each lane that has a row due and no run under "
            "way. Comes up running where PRAMAAN_WAKE_UP=true; without it the schedules drain "
            "every minute."
        ),
    )
    def wake_up(
        context: SensorEvaluationContext, database: ResourceParam[Database]
    ) -> list[RunRequest] | SkipReason:
        with database.staff() as connection:
            due = [lane.name for lane in LANES if any_due(connection, lane)]
        asleep = [name for name in due if not _under_way(context.instance, RELAY_JOBS[name].name)]
        if asleep:
            return [RunRequest(job_name=RELAY_JOBS[name].name) for name in asleep]
        if due:
            return SkipReason(f"under way already: {', '.join(due)}")
        return SkipReason("nothing pending")

    return wake_up


def _under_way(instance: DagsterInstance, job_name: str) -> bool:
    return bool(
        instance.get_runs_count(
            RunsFilter(
                job_name=job_name,
                statuses=UNFINISHED,
                created_after=datetime.now(UTC) - LONGEST_LIFE,
            )
        )
    )
