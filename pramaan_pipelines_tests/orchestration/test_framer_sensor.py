"""The sensor: one run of each delivery, no more than there are places for, and nothing deleted."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from dagster import (
    AssetObservation,
    DagsterInstance,
    DagsterRunStatus,
    SensorDefinition,
    build_resources,
    build_sensor_context,
)
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration import subscriptions
from pramaan_pipelines.orchestration.framer import (
    FRAMER_PLACES,
    run_request,
    unfinished_framer_runs,
)
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.support.world import body, envelope

UNLOADED = RepositoryPythonOrigin("python", ModuleCodePointer("absent", "absent"))


def tick(instance: DagsterInstance) -> SensorExecutionData:
    """Evaluate the sensor as the daemon does."""
    sensor: SensorDefinition = defs.get_repository_def().get_sensor_def("framer_events_sensor")
    needed = {key: make_resources()[key] for key in ("settings", "database", "framer_queue")}
    with build_sensor_context(instance=instance, resources=needed) as context:
        return sensor.evaluate_tick(context)


def keys(data: SensorExecutionData) -> list[str]:
    return [str(request.run_key) for request in data.run_requests or []]


def take_places(
    rail: Rail, count: int, status: DagsterRunStatus, job: str = "framer_trigger_job"
) -> None:
    """Let `count` runs of `job` stand in `status`."""
    # What a queued run must have so that the daemon could launch it.
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(), location_name="somewhere")
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, "__repository__"), job)
    rail.send("x")
    message = rail.receive()
    config = run_request(message).run_config if job == "framer_trigger_job" else None
    definition = defs.resolve_job_def(job)
    for _ in range(count):
        rail.instance.create_run_for_job(
            definition,
            run_config=config,
            tags=definition.tags,
            status=status,
            remote_job_origin=origin,
            job_code_origin=JobPythonOrigin(job, UNLOADED),
        )
    rail.queue.delete(message.receipt_handle)


def bodies(rail: Rail, count: int) -> list[str]:
    firm = rail.world.firm_a
    return [body(firm, rail.world.matter(firm)) for _ in range(count)]


def test_each_message_becomes_one_run_named_by_its_delivery(rail: Rail) -> None:
    """H12: message id and receive count; redelivered, the same message is another run."""
    rail.send(*bodies(rail, 3))
    first = tick(rail.instance)
    assert len(set(keys(first))) == 3
    assert {key.split(":")[1] for key in keys(first)} == {"1"}
    for request in first.run_requests or []:
        handle = request.run_config["ops"]["parse"]["config"]["receipt_handle"]
        rail.queue.hand_back(handle)
    second = tick(rail.instance)
    assert {key.split(":")[1] for key in keys(second)} == {"2"}
    assert [key.split(":")[0] for key in sorted(keys(second))] == [
        key.split(":")[0] for key in sorted(keys(first))
    ]


def test_a_tick_deletes_nothing(rail: Rail) -> None:
    """What no run brings to its end comes again."""
    rail.send(*bodies(rail, 2), "hostile")
    assert len(keys(tick(rail.instance))) == 3
    depth = rail.depth()
    assert (depth.visible, depth.in_flight) == (0, 3)


def test_an_empty_queue_is_skipped_with_a_reason(rail: Rail) -> None:
    data = tick(rail.instance)
    assert data.skip_message == "the queue is empty"
    assert not data.run_requests


@pytest.mark.parametrize(
    "status",
    [
        DagsterRunStatus.QUEUED,
        DagsterRunStatus.NOT_STARTED,
        DagsterRunStatus.STARTING,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.CANCELING,
    ],
    ids=lambda status: str(status.value),
)
def test_no_more_messages_are_taken_than_there_are_free_places(
    rail: Rail, status: DagsterRunStatus
) -> None:
    """A message that waits for a place waits on the queue, where its time-out does not run."""
    take_places(rail, FRAMER_PLACES - 2, status)
    rail.send(*bodies(rail, 4))
    assert len(keys(tick(rail.instance))) == 2
    assert rail.depth().visible == 2


def test_with_no_place_free_nothing_is_received(rail: Rail) -> None:
    take_places(rail, FRAMER_PLACES, DagsterRunStatus.QUEUED)
    rail.send(*bodies(rail, 1))
    data = tick(rail.instance)
    assert data.skip_message is not None
    assert f"all {FRAMER_PLACES} places are taken" in data.skip_message
    assert rail.depth().visible == 1


def test_finished_runs_and_other_jobs_take_no_place(rail: Rail) -> None:
    for status in (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED):
        take_places(rail, 2, status)
    take_places(rail, 1, DagsterRunStatus.STARTED, "domain_event_relay_job")
    rail.send(*bodies(rail, FRAMER_PLACES + 1))
    assert len(keys(tick(rail.instance))) == FRAMER_PLACES


def test_a_hostile_body_stops_neither_the_sensor_nor_its_neighbours(rail: Rail) -> None:
    good = bodies(rail, 2)
    rail.send(good[0], '{"a":' * 50_000, "\ufeff{}", '{"event_id": "\\ud800"}', "NaN", good[1])
    data = tick(rail.instance)
    assert len(keys(data)) == 6
    ends = [rail.launch(request).outcome for request in data.run_requests or []]
    assert sorted(ends) == [("refused", "parse")] * 4 + [("started", "release")] * 2


def test_one_event_twice_in_one_receive_is_two_runs_of_which_one_is_a_duplicate(
    rail: Rail,
) -> None:
    """EB-07: the database deduplicates, never the run_key."""
    firm, event = rail.world.firm_a, uuid4()
    matter = rail.world.matter(firm)
    text = envelope(firm, matter, event_id=event).model_dump_json()
    rail.send(text, text)
    requests = tick(rail.instance).run_requests or []
    outcomes = [rail.launch(request).outcome for request in requests]
    assert outcomes == [("started", "release"), ("duplicate", "dedupe")]
    assert len(rail.world.runs(matter)) == len(rail.agent.payloads) == 1
    assert rail.depth().total == 0


def test_a_tick_with_messages_observes_the_queue(rail: Rail) -> None:
    rail.send(*bodies(rail, 2))
    (observation,) = tick(rail.instance).asset_events
    assert isinstance(observation, AssetObservation)
    assert observation.asset_key.to_user_string() == "messaging/framer_events_queue"
    told = {key: value.value for key, value in observation.metadata.items()}
    assert told == {"visible": 2, "in_flight": 0, "received": 2}


def test_a_queue_that_cannot_tell_its_depth_costs_no_delivery(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick that fails with messages in hand would hide them for a whole visibility time-out."""
    rail.send(*bodies(rail, 1))

    def out(_: QueueConsumer) -> None:
        raise RuntimeError("out")

    with monkeypatch.context() as patched:
        patched.setattr(QueueConsumer, "depth", out)
        with pytest.raises(Exception, match="out"):
            tick(rail.instance)
    (message,) = rail.queue.receive(1, 0)
    assert message.receive_count == 1


def test_a_queue_that_hangs_holds_a_tick_for_seconds_and_not_for_the_daemons_minute(
    configured: Settings,
) -> None:
    """The daemon cuts a tick at 60 s, and then its messages are hidden for nothing."""
    del configured
    needed = {key: make_resources()[key] for key in ("settings", "database", "framer_queue")}
    with build_resources(needed) as made:
        bounds = made.framer_queue._client.meta.config
    longest = bounds.retries["total_max_attempts"] * (bounds.connect_timeout + bounds.read_timeout)
    assert longest <= 16


def test_a_missing_queue_url_is_named_by_the_tick(
    monkeypatch: pytest.MonkeyPatch, instance: DagsterInstance
) -> None:
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(Exception, match="resource") as caught:
        tick(instance)
    told = str(caught.value.__cause__ or caught.value)
    assert "FRAMER_EVENTS_QUEUE_URL is not set. Run `pramaan up`" in told


def test_while_postgres_is_away_the_tick_fails_and_no_message_spends_a_delivery(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage of the database is not a message's fault: three deliveries would dead-letter it."""
    rail.send(*bodies(rail, 1))
    with monkeypatch.context() as patched:
        patched.setenv("DATABASE_URL", "postgresql://pramaan_app:x@127.0.0.1:1/gone")
        with pytest.raises(Exception, match="gives no connection"):
            tick(rail.instance)
    assert rail.receive().receive_count == 1


def test_a_run_that_was_left_half_submitted_holds_its_place_for_an_hour_at_the_most(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_places(rail, FRAMER_PLACES, DagsterRunStatus.NOT_STARTED)
    assert unfinished_framer_runs(rail.instance) == FRAMER_PLACES
    monkeypatch.setattr(subscriptions, "LONGEST_LIFE", timedelta(0))
    assert unfinished_framer_runs(rail.instance) == 0


def test_the_sensors_of_two_instances_on_one_queue_share_it_and_frame_each_matter_once(
    rail: Rail,
) -> None:
    """Two code locations by mistake, or two regions: no message runs in both, none in neither."""
    rail.send(*bodies(rail, FRAMER_PLACES + 2))
    with DagsterInstance.ephemeral() as elsewhere:
        here, there = tick(rail.instance), tick(elsewhere)
        assert len(keys(here)) == FRAMER_PLACES
        assert len(keys(there)) == 2
        assert not set(keys(here)) & set(keys(there))
        for request in here.run_requests or []:
            assert rail.launch(request).outcome[0] == "started"
        # One message comes again, as after a crash, and the other instance gets it.
        again = (there.run_requests or [])[0]
        rail.queue.hand_back(again.run_config["ops"]["parse"]["config"]["receipt_handle"])
        (delivered,) = tick(rail.instance).run_requests or []
        assert rail.launch(delivered).outcome[0] == "started"
        assert replace(rail, instance=elsewhere).launch(again).outcome[0] == "duplicate"
