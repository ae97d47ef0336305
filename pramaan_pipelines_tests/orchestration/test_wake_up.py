"""The wake-up of the relays: only what is due, only what is not under way."""

import pytest
from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    build_sensor_context,
)
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.test_utils import create_run_for_test

from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.orchestration.wake_up import relay_wake_up_sensor
from pramaan_pipelines.outbox.lanes import DOCUMENT_REGISTRATION, DOMAIN_EVENT
from pramaan_pipelines.settings import wake_up_wanted
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.world import World

pytestmark = pytest.mark.usefixtures("configured")

REGISTRATION_JOB = f"{DOCUMENT_REGISTRATION.name}_job"


def tick(instance: DagsterInstance) -> SensorExecutionData:
    resources = make_resources()
    given = {name: resources[name] for name in ("settings", "database")}
    with build_sensor_context(instance=instance, resources=given) as context:
        return relay_wake_up_sensor(running=True).evaluate_tick(context)


def woken(instance: DagsterInstance) -> list[str | None]:
    return [request.job_name for request in tick(instance).run_requests or []]


def test_nothing_pending_wakes_nothing(instance: DagsterInstance, world: World) -> None:
    del world
    assert tick(instance).skip_message == "nothing pending"
    assert woken(instance) == []


def test_each_lane_with_a_row_due_is_woken_and_no_other(
    instance: DagsterInstance, world: World
) -> None:
    put(world, DOCUMENT_REGISTRATION)
    put(world, DOMAIN_EVENT)
    assert woken(instance) == [REGISTRATION_JOB, f"{DOMAIN_EVENT.name}_job"]


def test_a_row_that_pauses_or_is_parked_wakes_nothing(
    instance: DagsterInstance, world: World
) -> None:
    put(world, DOCUMENT_REGISTRATION)
    world.god.execute(
        "UPDATE ops.document_ingest_outbox SET next_attempt_at = now() + interval '1 hour'"
    )
    assert woken(instance) == []
    world.god.execute(
        "UPDATE ops.document_ingest_outbox "
        "SET next_attempt_at = now(), parked_at = now(), parked_reason = 'x'"
    )
    assert woken(instance) == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (DagsterRunStatus.STARTING, []),
        (DagsterRunStatus.STARTED, []),
        (DagsterRunStatus.FAILURE, [REGISTRATION_JOB]),
        (DagsterRunStatus.SUCCESS, [REGISTRATION_JOB]),
    ],
)
def test_a_lane_whose_relay_is_under_way_is_not_woken_again(
    instance: DagsterInstance, world: World, status: DagsterRunStatus, expected: list[str]
) -> None:
    put(world, DOCUMENT_REGISTRATION)
    create_run_for_test(instance, job_name=REGISTRATION_JOB, status=status)
    assert woken(instance) == expected


@pytest.mark.parametrize(
    ("value", "running"), [("true", True), ("1", True), ("false", False), ("", False)]
)
def test_the_setting_decides_whether_it_comes_up_running(value: str, running: bool) -> None:  # noqa: FBT001
    wanted = wake_up_wanted({"PRAMAAN_WAKE_UP": value})
    assert wanted is running
    status = relay_wake_up_sensor(running=wanted).default_status
    assert status is (DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED)
