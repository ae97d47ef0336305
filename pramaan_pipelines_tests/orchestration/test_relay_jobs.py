"""The relays as an operator meets them: a job and a schedule for each lane."""

from typing import Any

import pytest
from dagster import (
    DagsterEventType,
    DagsterInstance,
    ExecuteInProcessResult,
    ScheduleDefinition,
    build_schedule_context,
)
from dagster._core.definitions.schedule_definition import ScheduleExecutionData

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.messaging.publisher import SendResult, SendStatus
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.outbox.lanes import (
    DOCUMENT_INGEST,
    DOCUMENT_REGISTRATION,
    DOMAIN_EVENT,
    LANES,
    Lane,
)
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.outbox.bench import put, received, row, rows
from pramaan_pipelines_tests.support.first_line import first_line
from pramaan_pipelines_tests.support.world import World

pytestmark = pytest.mark.usefixtures("configured")

each_lane = pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)


def relay(lane: Lane, instance: DagsterInstance, **config: Any) -> ExecuteInProcessResult:
    return defs.resolve_job_def(f"{lane.name}_job").execute_in_process(
        run_config={"ops": {f"drain_{lane.name}": {"config": config}}},
        instance=instance,
        raise_on_error=False,
    )


def metadata(result: ExecuteInProcessResult) -> dict[str, Any]:
    """What the one op of a relay run tells."""
    (told,) = [
        event.step_output_data.metadata
        for event in result.all_events
        if event.event_type is DagsterEventType.STEP_OUTPUT
    ]
    return {key: value.value for key, value in told.items()}


def materializations(result: ExecuteInProcessResult) -> list[str]:
    return [
        event.asset_key.to_user_string()
        for event in result.all_events
        if event.event_type is DagsterEventType.ASSET_MATERIALIZATION and event.asset_key
    ]


def warnings(instance: DagsterInstance, result: ExecuteInProcessResult) -> list[str]:
    return [log.user_message for log in instance.all_logs(result.run_id) if log.level == 30]


def tick(lane: Lane, instance: DagsterInstance) -> ScheduleExecutionData:
    schedule = defs.get_repository_def().get_schedule_def(f"{lane.name}_schedule")
    assert isinstance(schedule, ScheduleDefinition)
    needed = {key: make_resources()[key] for key in ("settings", "database")}
    with build_schedule_context(instance=instance, resources=needed) as context:
        return schedule.evaluate_tick(context)


def target(lane: Lane, settings: Settings) -> str | None:
    """The queue that the lane's messages reach."""
    return {
        DOCUMENT_INGEST.name: settings.document_ingestion_queue_url,
        DOCUMENT_REGISTRATION.name: settings.document_registration_queue_url,
        DOMAIN_EVENT.name: settings.framer_events_queue_url,
    }[lane.name]


@each_lane
def test_a_run_drains_its_lane_until_it_is_empty_and_tells_what_it_did(
    lane: Lane, world: World, instance: DagsterInstance, configured: Settings
) -> None:
    events = put(world, lane, 5)
    result = relay(lane, instance, batch_rows=2)
    assert result.success
    assert all(found["dispatched_at"] for found in rows(world, lane, events))
    received(configured, target(lane, configured), 5)
    told = metadata(result)
    assert told.pop("bytes") > 0
    assert told.pop("seconds") > 0
    # Three that send, and one that finds nothing for each of the two that may be under way.
    assert told.pop("drains") in {4, 5}
    assert told == {
        "selected": 5,
        "sent": 5,
        "failed": 0,
        "parked": 0,
        "stopped_reason": "empty",
        "still_pending": 0,
        "oldest_pending_seconds": 0.0,
        "parked_in_lane": 0,
    }
    assert materializations(result) == [f"messaging/{lane.destination}"]


def test_a_lane_that_is_empty_is_a_green_run_that_materializes_nothing(
    instance: DagsterInstance, world: World
) -> None:
    put(world, DOCUMENT_REGISTRATION)
    result = relay(DOCUMENT_INGEST, instance)
    assert result.success
    assert metadata(result)["selected"] == 0
    assert materializations(result) == []
    assert world.pending("document.registration.requested") == 1


def test_a_spent_budget_ends_the_run_and_leaves_the_rest_pending(
    instance: DagsterInstance, world: World
) -> None:
    put(world, DOCUMENT_INGEST, 3)
    result = relay(DOCUMENT_INGEST, instance, batch_rows=1, budget_seconds=0.0001)
    told = metadata(result)
    assert result.success
    assert (told["stopped_reason"], told["sent"], told["still_pending"]) == ("budget", 1, 2)
    assert told["oldest_pending_seconds"] > 0


@each_lane
def test_no_budget_may_reach_into_the_time_at_which_the_run_is_ended(
    lane: Lane, instance: DagsterInstance
) -> None:
    """A drain may take a minute after the budget; what is cut then is sent twice."""
    bound = int(defs.resolve_job_def(f"{lane.name}_job").tags["dagster/max_runtime"])
    result = relay(lane, instance, budget_seconds=bound - 59)
    assert not result.success
    told = "\n".join(str(log.dagster_event) for log in instance.all_logs(result.run_id))
    assert "less than or equal to 240" in told


def test_pending_rows_that_no_lane_drains_are_warned_of_and_never_silent(
    instance: DagsterInstance, world: World
) -> None:
    """A baton that no runner picks up is the catastrophe that the relay's story is about."""
    put(world, DOCUMENT_INGEST, 2, event_type="document.shred.requested")
    put(world, DOCUMENT_INGEST)
    result = relay(DOCUMENT_INGEST, instance)
    expected = {"ops.document_ingest_outbox: document.shred.requested": 2}
    assert result.success
    assert metadata(result)["pending_without_a_lane"] == expected
    (warning,) = warnings(instance, result)
    assert "document.shred.requested" in warning
    assert "add a lane" in warning
    assert world.pending("document.shred.requested") == 2


def test_a_row_that_can_never_be_sent_is_shown_with_its_reason(
    instance: DagsterInstance, world: World
) -> None:
    (event,) = put(world, DOMAIN_EVENT, more={"note": "x" * 300_000})
    result = relay(DOMAIN_EVENT, instance)
    told = metadata(result)
    assert result.success
    assert (told["parked"], told["parked_in_lane"], told["still_pending"]) == (1, 1, 0)
    assert f"| {event} | impossible | parked | body over 256 KiB |" in told["failures"]
    assert materializations(result) == []


@each_lane
def test_a_destination_that_is_missing_is_a_red_run_and_marks_no_row(
    lane: Lane, world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bus that is not there answers success: without the look before, rows would be lost."""
    (event,) = put(world, lane)
    for name in ("DOCUMENT_INGESTION_QUEUE_URL", "DOCUMENT_REGISTRATION_QUEUE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1/000000000000/absent-queue")
    monkeypatch.setenv("EVENT_BUS_NAME", "absent-bus")
    result = relay(lane, instance)
    assert not result.success
    assert "Nothing was sent: the rows stay as they are" in first_line(instance, result)
    assert "absent-" in first_line(instance, result)
    found = row(world, lane, event)
    assert (found["dispatched_at"], found["attempts"], found["parked_at"]) == (None, 0, None)
    assert materializations(result) == []


def test_an_outage_is_a_red_run_that_names_it_and_the_next_run_sends(
    world: World,
    instance: DagsterInstance,
    configured: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An outage is not a row's fault: no attempt is counted, and nothing is parked."""
    lane = DOCUMENT_INGEST
    (event,) = put(world, lane)
    publisher = type(lane.publisher(configured))
    monkeypatch.setattr(publisher, "verify", lambda _: None)
    url = configured.document_ingestion_queue_url
    monkeypatch.setenv("DOCUMENT_INGESTION_QUEUE_URL", "http://127.0.0.1/000000000000/absent-queue")
    result = relay(lane, instance)
    assert not result.success
    assert "absent-queue is out, or was for some calls (" in first_line(instance, result)
    assert "What was not sent stays pending and the next run tries again" in first_line(
        instance, result
    )
    assert materializations(result) == []
    found = row(world, lane, event)
    assert (found["dispatched_at"], found["attempts"], found["parked_at"]) == (None, 0, None)
    assert found["last_dispatch_error"]

    monkeypatch.setenv("DOCUMENT_INGESTION_QUEUE_URL", str(url))
    world.god.execute("UPDATE ops.document_ingest_outbox SET next_attempt_at = now()")
    assert relay(lane, instance).success
    assert row(world, lane, event)["dispatched_at"]


def test_what_was_sent_before_an_outage_is_told_by_the_red_run(
    world: World,
    instance: DagsterInstance,
    configured: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = put(world, DOCUMENT_INGEST, 2)
    publisher = type(DOCUMENT_INGEST.publisher(configured))
    real, calls = publisher.send, []

    def out_at_the_second(*given: Any, **named: Any) -> list[SendResult]:
        calls.append(given)
        if len(calls) > 1:
            return [SendResult(SendStatus.UNAVAILABLE, "throttled")]
        return list(real(*given, **named))

    monkeypatch.setattr(publisher, "send", out_at_the_second)
    result = relay(DOCUMENT_INGEST, instance, batch_rows=1)
    assert not result.success
    assert "is out, or was for some calls (throttled)" in first_line(instance, result)
    assert [bool(found["dispatched_at"]) for found in rows(world, DOCUMENT_INGEST, events)] == [
        True,
        False,
    ]
    assert materializations(result) == ["messaging/documents_ingestion_queue"]


@each_lane
def test_a_tick_launches_a_run_only_where_a_row_of_its_own_lane_is_due(
    lane: Lane, world: World, instance: DagsterInstance
) -> None:
    for other in LANES:
        if other is not lane:
            put(world, other)
    empty = tick(lane, instance)
    assert not empty.run_requests
    assert empty.skip_message == "nothing pending"
    put(world, lane)
    (request,) = tick(lane, instance).run_requests or []
    assert request.run_key is None  # a used one would block every later tick


def test_a_tick_skips_while_every_pending_row_is_backing_off(
    world: World, instance: DagsterInstance
) -> None:
    put(world, DOCUMENT_INGEST)
    world.god.execute(
        "UPDATE ops.document_ingest_outbox SET next_attempt_at = now() + interval '1 minute'"
    )
    assert not tick(DOCUMENT_INGEST, instance).run_requests
    world.god.execute("UPDATE ops.document_ingest_outbox SET next_attempt_at = now()")
    assert tick(DOCUMENT_INGEST, instance).run_requests


def test_a_tick_skips_what_is_parked_or_sent(world: World, instance: DagsterInstance) -> None:
    put(world, DOMAIN_EVENT, 2)
    world.god.execute(
        "UPDATE ops.domain_event_outbox SET parked_at = now(), parked_reason = 'x' "
        "WHERE id = (SELECT min(id) FROM ops.domain_event_outbox)"
    )
    world.god.execute(
        "UPDATE ops.domain_event_outbox SET dispatched_at = now() WHERE parked_at IS NULL"
    )
    assert tick(DOMAIN_EVENT, instance).skip_message == "nothing pending"


def test_a_tick_that_skips_still_says_which_rows_no_lane_drains(
    world: World, instance: DagsterInstance
) -> None:
    put(world, DOMAIN_EVENT, event_type="matter.closed")
    told = tick(DOCUMENT_INGEST, instance).skip_message
    assert told is not None
    assert "matter.closed" in told
    assert "add a lane" in told


def test_a_run_that_lacks_its_setting_names_the_variable(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, DOMAIN_EVENT)
    monkeypatch.delenv("EVENT_BUS_NAME")
    result = relay(DOMAIN_EVENT, instance)
    assert not result.success
    told = "\n".join(str(log.dagster_event) for log in instance.all_logs(result.run_id))
    assert "EVENT_BUS_NAME is not set. Run `pramaan up`" in told
    assert world.pending("matter.created") == 1


def test_a_relay_run_is_found_by_its_lane_and_by_how_it_ended(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tags(result: ExecuteInProcessResult) -> tuple[str | None, ...]:
        run = instance.get_run_by_id(result.run_id)
        assert run is not None
        return tuple(
            run.tags.get(name) for name in (names.TAG_LANE, names.TAG_OUTCOME, names.TAG_REASON)
        )

    put(world, DOCUMENT_INGEST, 2)
    assert tags(relay(DOCUMENT_INGEST, instance)) == (DOCUMENT_INGEST.name, "empty", None)
    put(world, DOCUMENT_INGEST, 2)
    cut = relay(DOCUMENT_INGEST, instance, batch_rows=1, budget_seconds=0.0001)
    assert tags(cut)[1:] == ("budget", None)
    monkeypatch.setenv("DOCUMENT_INGESTION_QUEUE_URL", "http://127.0.0.1/000000000000/absent-queue")
    out = relay(DOCUMENT_INGEST, instance)
    assert tags(out)[1:] == ("outage", "DestinationError")
