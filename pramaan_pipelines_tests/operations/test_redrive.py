"""Parked rows, pending again: selected by lane, time and reason, and sent like any other."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dagster import DagsterInstance
from pydantic import SecretStr

from pramaan_pipelines.orchestration.names import DO_IT
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOCUMENT_REGISTRATION, LANES, Lane
from pramaan_pipelines.outbox.redrive import MAX_SHOWN, ParkedSelection, redrive_parked
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.operations.bench import press
from pramaan_pipelines_tests.outbox.bench import RELAYS, put, received, row, rows
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE, World

JOB, OP = "redrive_parked_rows_job", "redrive_parked_rows"
DAY = datetime(2026, 1, 15, tzinfo=UTC)
TOO_LARGE = "over 256 KiB"
REFUSED = "InvalidParameterValue: 100% no_good"
ALL = ParkedSelection()


@pytest.fixture(params=LANES, ids=lambda lane: lane.name)
def lane(request: pytest.FixtureRequest) -> Lane:
    """Each lane in turn."""
    found: Lane = request.param
    return found


def parked(
    world: World, lane: Lane, count: int = 1, reason: str = TOO_LARGE, at: datetime = DAY
) -> list[str]:
    """Write rows that were parked at `at`."""
    made = put(world, lane, count)
    world.god.execute(
        f"UPDATE {lane.outbox.table} SET parked_at = %s, parked_reason = %s, attempts = 5, "  # noqa: S608
        "last_dispatch_error = %s, next_attempt_at = 'infinity' WHERE event_id = ANY(%s::uuid[])",
        [at, reason, reason, made],
    )
    return made


def everything(world: World) -> list[Any]:
    return world.rows(
        "SELECT to_jsonb(o) FROM ops.document_ingest_outbox o UNION ALL "
        "SELECT to_jsonb(o) FROM ops.domain_event_outbox o"
    )


def pending(world: World, lane: Lane, event_ids: list[str]) -> list[bool]:
    return [found["parked_at"] is None for found in rows(world, lane, event_ids)]


def test_a_dry_run_tells_what_it_would_do_and_changes_nothing(
    world: World, database: Database, lane: Lane
) -> None:
    made = parked(world, lane, 3)
    before = everything(world)
    result = redrive_parked(database, lane, ALL, dry_run=True)
    assert (result.selected, result.redriven) == (3, 0)
    assert [str(shown.event_id) for shown in result.rows] == made
    assert {shown.reason for shown in result.rows} == {TOO_LARGE}
    assert {shown.parked_at for shown in result.rows} == {DAY}
    assert everything(world) == before


def test_other_lanes_and_rows_that_are_not_parked_are_not_touched(
    world: World, database: Database, lane: Lane
) -> None:
    for other in LANES:
        parked(world, other)
    put(world, lane)
    sent = put(world, lane)
    world.god.execute(
        f"UPDATE {lane.outbox.table} SET dispatched_at = now() WHERE event_id = ANY(%s::uuid[])",  # noqa: S608
        [sent],
    )
    before = {found["event_id"]: found for (found,) in everything(world)}
    assert redrive_parked(database, lane, ALL, dry_run=False).redriven == 1
    after = {found["event_id"]: found for (found,) in everything(world)}
    (changed,) = [key for key in after if before[key] != after[key]]
    assert before[changed]["parked_at"]
    assert after[changed]["event_type"] == lane.event_type


def test_a_redriven_row_is_sent_by_the_next_relay_with_its_event_id_and_trace(
    world: World, database: Database, provisioned: Settings, record: TelemetryRecord
) -> None:
    lane = DOCUMENT_REGISTRATION
    (event,) = parked(world, lane)
    before = row(world, lane, event)
    redrive_parked(database, lane, ALL, dry_run=False)
    after = row(world, lane, event)
    assert {key for key in before if before[key] != after[key]} == {
        "parked_at",
        "parked_reason",
        "attempts",
        "next_attempt_at",
    }
    assert (after["parked_at"], after["parked_reason"], after["attempts"]) == (None, None, 0)
    drained = RELAYS[lane](database, lane.publisher(provisioned), record.telemetry, DrainLimits())
    assert (drained.selected, drained.sent) == (1, 1)
    (message,) = received(provisioned, provisioned.document_registration_queue_url, 1)
    assert f'"event_id" : "{event}"' in message["Body"]
    assert message["MessageAttributes"]["traceparent"]["StringValue"] == TRACEPARENT
    assert message["MessageAttributes"]["tracestate"]["StringValue"] == TRACESTATE
    assert row(world, lane, event)["dispatched_at"]


def test_a_time_selects_from_its_begin_to_before_its_end(world: World, database: Database) -> None:
    hour = timedelta(hours=1)
    early, inside, late = (parked(world, DOCUMENT_INGEST, at=DAY + hour * n)[0] for n in (0, 1, 2))
    between = ParkedSelection(since=DAY + hour, until=DAY + 2 * hour)
    assert redrive_parked(database, DOCUMENT_INGEST, between, dry_run=False).redriven == 1
    assert pending(world, DOCUMENT_INGEST, [early, inside, late]) == [False, True, False]


@pytest.mark.parametrize(
    ("reason", "selected"),
    [("256 KiB", 1), ("InvalidParameterValue", 1), ("100%", 1), ("o_g", 1), ("%", 1), ("x", 0)],
)
def test_a_reason_selects_by_its_text_as_written(
    world: World, database: Database, reason: str, selected: int
) -> None:
    """Per cent and underscore are themselves, and no pattern."""
    parked(world, DOCUMENT_INGEST, reason=TOO_LARGE)
    parked(world, DOCUMENT_INGEST, reason=REFUSED)
    result = redrive_parked(
        database, DOCUMENT_INGEST, ParkedSelection(reason=reason), dry_run=False
    )
    assert (result.selected, result.redriven) == (selected, selected)


def test_what_is_shown_is_bounded_and_what_is_redriven_is_not(
    world: World, database: Database
) -> None:
    parked(world, DOCUMENT_INGEST, MAX_SHOWN + 20)
    result = redrive_parked(database, DOCUMENT_INGEST, ALL, dry_run=False)
    assert (result.selected, result.redriven, len(result.rows)) == (70, 70, MAX_SHOWN)


@pytest.fixture
def environment(app_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> None:
    """The redrive needs the database, and no queue."""
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", app_url.get_secret_value())


@pytest.mark.usefixtures("environment")
def test_the_job_is_dry_by_default_and_then_does_what_it_said(
    world: World, instance: DagsterInstance
) -> None:
    made = parked(world, DOCUMENT_INGEST, 2) + parked(world, DOCUMENT_INGEST, reason=REFUSED)
    parked(world, DOCUMENT_REGISTRATION)
    config = {
        "lane": DOCUMENT_INGEST.name,
        "reason": "KiB",
        "since": "2026-01-15T00:00:00+00:00",
        "until": "2026-01-15T01:00:00+01:30",
    }
    empty = press(instance, JOB, OP, config)  # until is 23:30 the day before, in UTC
    assert (empty.green, empty.told["selected"]) == (True, 0)
    config["until"] = "2026-01-15T01:00:00Z"
    before = everything(world)
    dry = press(instance, JOB, OP, config)
    assert (dry.told["selected"], dry.told["redriven"]) == (2, 0)
    assert made[0] in dry.told["rows"]
    assert f"2 parked rows would be pending again{DO_IT}" in dry.logs
    assert everything(world) == before
    done = press(instance, JOB, OP, {**config, "dry_run": False})
    assert (done.told["selected"], done.told["redriven"]) == (2, 2)
    assert "2 parked rows made pending again" in done.logs
    assert DO_IT not in done.logs
    assert pending(world, DOCUMENT_INGEST, made) == [True, True, False]


@pytest.mark.usefixtures("environment", "world")
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"lane": "no_such"}, "there is no lane 'no_such'. The lanes are: document_ingest_relay"),
        ({"lane": "document_ingest_relay", "since": "2026-01-15"}, "has no time zone"),
        ({"lane": "document_ingest_relay", "until": "yesterday"}, "Give times as 2026-01-31T00"),
    ],
)
def test_the_job_says_what_is_wrong_with_what_it_was_given(
    instance: DagsterInstance, config: dict[str, str], told: str
) -> None:
    run = press(instance, JOB, OP, config)
    assert not run.green
    assert told in run.failure
