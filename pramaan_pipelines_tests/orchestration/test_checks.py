"""The checks on the road: by the button, and by themselves, with a real instance."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest
from dagster import (
    AssetCheckSeverity,
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    ExecuteInProcessResult,
    build_sensor_context,
)
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation
from dagster._core.definitions.sensor_definition import SensorExecutionData

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.queues import QUEUES, consumer_of, undeliverable_events
from pramaan_pipelines.orchestration import watching
from pramaan_pipelines.orchestration.checks import check_key
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.orchestration.road import FRAME_JOBS, KEYS
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOCUMENT_REGISTRATION, DOMAIN_EVENT
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.watch.checks import CHECKS
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.world import World, body
from pramaan_pipelines_tests.watch.bench import job

Found = Mapping[str, AssetCheckEvaluation]


def name_of(check: AssetCheckEvaluation) -> str:
    return f"{check.asset_key.path[-1]}.{check.check_name}"


def press(instance: DagsterInstance) -> ExecuteInProcessResult:
    """Launch the button."""
    return defs.resolve_job_def("check_road_job").execute_in_process(
        instance=instance, raise_on_error=False
    )


def evaluated(result: ExecuteInProcessResult) -> Found:
    checks = [
        event.asset_check_evaluation_data
        for event in result.all_events
        if event.event_type is DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    return {name_of(check): check for check in checks}


def bad(found: Found) -> dict[str, str]:
    """Return the checks that are not green, with their severity."""
    return {name: check.severity.value for name, check in found.items() if not check.passed}


class Ticks:
    """The sensor, tick after tick, with the events it reports as the daemon does."""

    def __init__(self, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
        self._instance = instance
        self._cursor: str | None = None
        self._now = 1_000_000.0
        self._monkeypatch = monkeypatch

    def tick(self, *, after: float = 60) -> SensorExecutionData:
        """Evaluate it `after` seconds, by its own clock, and report what it tells."""
        self._now += after
        self._monkeypatch.setattr(watching, "time", lambda: self._now)
        sensor = defs.get_repository_def().get_sensor_def("road_watch_sensor")
        keys = ("settings", "database", "view_settings", "watch")
        needed = {key: make_resources()[key] for key in keys}
        with build_sensor_context(
            instance=self._instance, resources=needed, cursor=self._cursor
        ) as context:
            data = sensor.evaluate_tick(context)
        self._cursor = data.cursor
        for event in data.asset_events:
            self._instance.report_runless_asset_event(event)
        return data

    @staticmethod
    def checks(data: SensorExecutionData) -> Found:
        return {
            name_of(event): event
            for event in data.asset_events
            if isinstance(event, AssetCheckEvaluation)
        }


@pytest.fixture
def ticks(
    instance: DagsterInstance, configured: Settings, monkeypatch: pytest.MonkeyPatch
) -> Ticks:
    del configured
    return Ticks(instance, monkeypatch)


def trouble(world: World, configured: Settings) -> dict[str, str]:
    """Arrange one trouble of each kind; return the checks that must see it, with severity."""
    put(world, DOCUMENT_INGEST, 3)
    world.god.execute(
        "UPDATE ops.document_ingest_outbox SET created_at = now() - interval '10 minutes'"
    )
    put(world, DOCUMENT_REGISTRATION, 1_000)
    put(world, DOMAIN_EVENT, 2)
    world.god.execute(
        "UPDATE ops.domain_event_outbox SET parked_at = now(), parked_reason = 'body over 256 KiB'"
    )
    put(world, DOMAIN_EVENT, event_type="matter.closed")
    job(world, "running", claimed=60)
    job(world, "failed", tries=9)
    job(world, "idle", skipped=1, firm=world.firm_without_consent)
    sqs = client("sqs", configured)
    letters = [consumer_of(configured, queue).dead_letters() for queue in QUEUES]
    for queue in (*letters, undeliverable_events(configured)):
        sqs.send_message(QueueUrl=queue._queue_url, MessageBody="privileged and confidential")
    return {
        "document_ingest_outbox.document_ingest_relay_oldest": "WARN",
        "document_ingest_outbox.document_registration_relay_pending": "WARN",
        "domain_event_outbox.domain_event_relay_parked": "WARN",
        "domain_event_outbox.rows_without_a_lane": "ERROR",
        "documents_ingestion_dead_letters.is_empty": "WARN",
        "documents_registration_dead_letters.is_empty": "WARN",
        "framer_events_dead_letters.is_empty": "WARN",
        "undeliverable_events.is_empty": "WARN",
        "matter_frame_jobs.stale": "ERROR",
        "matter_frame_jobs.given_up": "ERROR",
        "matter_frame_jobs.consent_blocked": "WARN",
    }


def test_on_a_quiet_road_every_check_is_green(
    instance: DagsterInstance, configured: Settings
) -> None:
    del configured
    result = press(instance)
    assert result.success
    found = evaluated(result)
    assert len(found) == len(CHECKS) == 19
    assert bad(found) == {}


def test_each_trouble_is_seen_by_its_check_and_by_no_other(
    instance: DagsterInstance, configured: Settings, world: World, ticks: Ticks
) -> None:
    """By the button, and by the tick without a run, and both the same."""
    expected = trouble(world, configured)
    result = press(instance)
    assert result.success
    by_button, by_tick = evaluated(result), Ticks.checks(ticks.tick())
    assert bad(by_button) == bad(by_tick) == expected
    for name in expected:
        metadata = by_tick[name].metadata
        assert metadata["what_to_do"].value == by_button[name].metadata["what_to_do"].value
        assert "_job" in str(metadata["what_to_do"].value) or "lane" in name
    stored = repr(by_tick)
    assert "privileged" not in stored
    assert "A matter" not in stored


def test_a_check_that_is_not_green_names_its_rows_and_what_to_press(
    instance: DagsterInstance, configured: Settings, world: World
) -> None:
    del configured
    parked, *_ = put(world, DOMAIN_EVENT, 30)
    world.god.execute(
        "UPDATE ops.domain_event_outbox SET parked_at = now(), parked_reason = 'too | large'"
    )
    matter = job(world, "failed", tries=9)
    found = evaluated(press(instance))
    told = found["domain_event_outbox.domain_event_relay_parked"].metadata
    table = str(told["rows"].value)
    assert f"| {parked} | " in table
    assert "too \\| large" in table
    assert len(table.splitlines()) == 2 + 10
    assert told["parked"].value == 30
    assert "redrive_parked_rows_job with lane domain_event_relay" in str(told["what_to_do"].value)
    told = found["matter_frame_jobs.given_up"].metadata
    assert f"| {world.firm_a} | {matter} | " in str(told["rows"].value)
    assert "rebuild_frame_job" in str(told["what_to_do"].value)


def test_the_thresholds_are_settings(
    instance: DagsterInstance,
    configured: Settings,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del configured
    put(world, DOCUMENT_INGEST, 3)
    name = "document_ingest_outbox.document_ingest_relay_pending"
    assert name not in bad(evaluated(press(instance)))
    monkeypatch.setenv("PRAMAAN_CHECK_PENDING_WARN_ROWS", "3")
    assert bad(evaluated(press(instance)))[name] == "WARN"
    monkeypatch.setenv("PRAMAAN_CHECK_PENDING_ERROR_ROWS", "3")
    assert bad(evaluated(press(instance)))[name] == "ERROR"


def test_what_could_not_be_evaluated_is_red_and_says_why(
    instance: DagsterInstance, configured: Settings, world: World, ticks: Ticks
) -> None:
    del configured
    world.god.execute("REVOKE SELECT ON ops.matter_frame_jobs FROM pramaan_app")
    for found in (evaluated(press(instance)), Ticks.checks(ticks.tick())):
        assert set(bad(found)) == {
            "matter_frame_jobs.stale",
            "matter_frame_jobs.given_up",
            "matter_frame_jobs.consent_blocked",
        }
        for name in bad(found):
            assert found[name].severity is AssetCheckSeverity.ERROR
            assert str(found[name].description).startswith("NOT EVALUATED: ")
            assert "permission denied" in str(found[name].description)
            assert found[name].metadata["state"].value == "not_evaluated"


def test_while_postgres_is_away_the_tick_goes_on_and_the_queues_are_still_seen(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody:hunter2@127.0.0.1:1/none")
    data = ticks.tick()
    found = Ticks.checks(data)
    assert {name for name, check in found.items() if check.passed} == {
        f"{queue}.is_empty"
        for queue in (*(queue.dead_letters for queue in QUEUES), "undeliverable_events")
    }
    assert str(data.skip_message).startswith("NOT GREEN: ")
    assert "hunter2" not in repr(data)


def test_a_check_can_be_evaluated_by_itself(
    instance: DagsterInstance, configured: Settings
) -> None:
    del configured
    one = CHECKS[-1]
    result = defs.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=set(), asset_check_selection={check_key(one)}
    )
    found = evaluated(result.execute_in_process(instance=instance))
    assert list(found) == [f"{one.subject}.{one.name}"]


def test_the_checks_refresh_by_themselves_and_are_what_the_ui_shows(
    instance: DagsterInstance, ticks: Ticks, world: World
) -> None:
    ticks.tick()
    put(world, DOCUMENT_INGEST, event_type="document.shred.requested")
    ticks.tick()
    keys = [check_key(check) for check in CHECKS]
    shown = instance.event_log_storage.get_asset_check_summary_records(keys)
    last = {
        key.to_user_string(): record.last_check_execution_record for key, record in shown.items()
    }
    assert all(last.values())
    red = [name for name, record in last.items() if record and record.status.value == "FAILED"]
    assert red == ["outbox/document_ingest_outbox:rows_without_a_lane"]
    assert instance.get_runs_count() == 0


def test_what_flows_lets_every_check_stand_as_it_was_evaluated(rail: Rail, ticks: Ticks) -> None:
    """Dagster shows a check as not evaluated where its asset was materialized since."""
    ticks.tick()
    put(rail.world, DOCUMENT_INGEST)
    relays = defs.resolve_job_def(f"{DOCUMENT_INGEST.name}_job")
    assert relays.execute_in_process(instance=rail.instance).success
    firm = rail.world.firm_a
    framed = rail.deliver(body(firm, rail.world.matter(firm)))
    assert framed.outcome == ("started", "release")
    subjects = {KEYS[check.subject] for check in CHECKS}
    materialized = {k for k in subjects if rail.instance.get_latest_materialization_event(k)}
    assert materialized == set()
    (seen,) = rail.instance.fetch_observations(FRAME_JOBS, limit=1).records
    assert seen.run_id == framed.result.run_id


def test_while_nothing_happens_the_event_log_does_not_grow(
    instance: DagsterInstance, ticks: Ticks
) -> None:
    del instance
    first = ticks.tick()
    assert len(Ticks.checks(first)) == len(CHECKS)
    quiet = [ticks.tick(after=590) for _ in range(6)]
    assert [len(data.asset_events) for data in quiet] == [0] * 6
    assert str(quiet[-1].skip_message) == "all checks are green; 0 told"
    hourly = ticks.tick()
    assert len(hourly.asset_events) == len(CHECKS)


def test_a_state_is_told_at_once_and_its_numbers_from_time_to_time(
    ticks: Ticks, world: World
) -> None:
    ticks.tick()
    job(world, "failed", tries=9)
    assert list(Ticks.checks(ticks.tick())) == ["matter_frame_jobs.given_up"]
    assert Ticks.checks(ticks.tick()) == {}
    job(world, "failed", tries=9)
    assert Ticks.checks(ticks.tick()) == {}
    (told,) = Ticks.checks(ticks.tick(after=300)).values()
    assert told.metadata["frame_jobs"].value == 2
    assert Ticks.checks(ticks.tick(after=300)) == {}
    world.god.execute("UPDATE ops.matter_frame_jobs SET failed_tries = 0")
    (mended,) = Ticks.checks(ticks.tick()).values()
    assert mended.passed


def test_the_numbers_of_each_asset_are_observed_when_they_change(
    instance: DagsterInstance, ticks: Ticks, world: World
) -> None:
    ticks.tick()
    put(world, DOCUMENT_INGEST, 4)
    assert not ticks.tick().asset_events  # within five minutes of the last
    ticks.tick(after=300)
    records = instance.fetch_observations(AssetKey(["outbox", "document_ingest_outbox"]), limit=9)
    plotted: list[dict[str, Any]] = [
        {key: value.value for key, value in record.asset_observation.metadata.items()}
        for record in records.records
        if record.asset_observation is not None
    ]
    name = "document_ingest_relay_pending"
    assert [numbers[name] for numbers in plotted] == [4, 0]
    assert plotted[0]["document_ingest_relay_oldest_seconds"] > 0
    assert not ticks.tick(after=600).asset_events  # that it grows older is no change


@pytest.mark.parametrize("cursor", ["", "no json", "[]", '{"x": 1}', "null"])
def test_a_cursor_that_cannot_be_read_means_that_nothing_was_told(cursor: str) -> None:
    memory = watching.Memory(cursor, 0)
    assert memory.is_news("x", "1", changes=60, refresh=None)
    assert not memory.is_news("x", "2", changes=60, refresh=None)


def test_the_cursor_holds_no_firm_and_no_row(ticks: Ticks, world: World) -> None:
    matter = job(world, "failed", tries=9)
    data = ticks.tick()
    told: Any = data.cursor
    assert str(matter) not in told
    assert str(world.firm_a) not in told
    assert str(uuid4()) not in told
    assert len(told) < 4_000
