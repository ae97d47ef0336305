"""The look: what it finds, what it says where it cannot look, and that it costs little."""

from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from sqlalchemy import text

from pramaan_pipelines.framer import standing
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueDepth
from pramaan_pipelines.messaging.queues import (
    DEAD_LETTERS,
    QUEUES,
    UNDELIVERABLE,
    consumer_of,
    undeliverable_events,
)
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOMAIN_EVENT, LANES
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.counting import COUNT_LIMIT, Count, by_index
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.watch import told
from pramaan_pipelines.watch.look import DatabaseView, QueuesView, Watch
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.outbox.test_plans import nodes
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.world import World
from pramaan_pipelines_tests.watch.bench import job


@pytest.fixture
def watch(database: Database) -> Watch:
    """A watch that looks at the database only."""
    return Watch(settings_for("http://127.0.0.1:1"), database)


def problems(view: DatabaseView) -> list[str | None]:
    readings = (
        *view.lanes.values(),
        view.unclaimed,
        view.frame_jobs,
        view.stale,
        view.unswept,
        view.owed,
        view.given_up,
        view.consent_blocked,
        view.schema,
    )
    return [reading.problem for reading in readings]


def test_an_empty_database_at_head_reads_as_nothing_and_never_as_unknown(watch: Watch) -> None:
    view = watch.database()
    assert set(problems(view)) == {None}
    assert {str(reading.value.pending) for reading in view.lanes.values() if reading.value} == {"0"}
    assert view.unclaimed.value == {}
    assert view.schema.value is not None
    assert view.schema.value.at_head


def test_lanes_strangers_and_parked_rows_are_counted(watch: Watch, world: World) -> None:
    put(world, DOCUMENT_INGEST, 3)
    put(world, DOCUMENT_INGEST, 2, event_type="document.shred.requested")
    put(world, DOMAIN_EVENT, 2)
    world.god.execute("UPDATE ops.domain_event_outbox SET parked_at = now(), parked_reason = 'x'")
    view = watch.database()
    ingest, events = view.lanes[DOCUMENT_INGEST.name].value, view.lanes[DOMAIN_EVENT.name].value
    assert ingest is not None
    assert events is not None
    assert (ingest.pending, ingest.parked) == (Count(3), Count(0))
    assert (events.pending, events.parked) == (Count(0), Count(2))
    assert view.unclaimed.value == {
        "ops.document_ingest_outbox: document.shred.requested": Count(2)
    }


def test_a_count_stops_at_its_limit_and_says_so(watch: Watch, world: World) -> None:
    put(world, DOCUMENT_INGEST, COUNT_LIMIT + 5)
    put(world, DOCUMENT_INGEST, COUNT_LIMIT + 5, event_type="zzz")
    world.god.execute(
        "INSERT INTO ops.matter_frame_jobs (firm_id, matter_id) "
        "SELECT %s, gen_random_uuid() FROM generate_series(1, %s)",
        [world.firm_a, COUNT_LIMIT + 5],
    )
    view = watch.database()
    found = view.lanes[DOCUMENT_INGEST.name].value
    assert found is not None
    assert found.pending == Count(COUNT_LIMIT, more=True)
    assert view.unclaimed.value == {
        "ops.document_ingest_outbox: zzz": Count(COUNT_LIMIT, more=True)
    }
    assert view.frame_jobs.value is not None
    assert view.frame_jobs.value["idle"].more
    assert view.frame_jobs.value["running"] == Count(0)
    assert f"pending at least {COUNT_LIMIT}" in "\n".join(told.database_lines(view))


def test_of_a_row_of_each_type_a_few_types_are_named_and_the_rest_is_at_least(
    watch: Watch, world: World
) -> None:
    for number in range(30):
        put(world, DOCUMENT_INGEST, event_type=f"strange.{number:02}")
    put(world, DOCUMENT_INGEST, event_type="strange.00")
    found = watch.database().unclaimed.value
    assert found is not None
    table = DOCUMENT_INGEST.outbox.table
    assert next(iter(found)) == f"{table}: strange.00"
    assert len(found) == 6
    assert found[f"{table}: other types"].more


def test_a_row_without_any_type_is_found(watch: Watch, world: World) -> None:
    """The application's own table may allow it."""
    put(world, DOCUMENT_INGEST)
    world.god.execute("ALTER TABLE ops.document_ingest_outbox ALTER event_type DROP NOT NULL")
    world.god.execute("UPDATE ops.document_ingest_outbox SET event_type = NULL")
    assert watch.database().unclaimed.value == {"ops.document_ingest_outbox: none": Count(1)}


def test_frame_jobs_are_told_by_what_they_wait_for(watch: Watch, world: World) -> None:
    job(world, "idle", claimed=50)
    job(world, "running", claimed=1)
    stale = job(world, "running", claimed=60)
    job(world, "failed", tries=1, claimed=60)
    job(world, "idle", rebuild=True, claimed=60)
    given_up = job(world, "failed", tries=4, claimed=60)
    blocked = job(world, "idle", skipped=30, firm=world.firm_without_consent)
    job(world, "idle", skipped=30, claimed=10)  # framed since
    again = job(world, "idle", skipped=5, claimed=10)  # framed once, then blocked
    view = watch.database()
    assert view.frame_jobs.value == {"failed": Count(2), "idle": Count(5), "running": Count(2)}
    found = {
        "stale": view.stale,
        "owed": view.owed,
        "given_up": view.given_up,
        "blocked": view.consent_blocked,
    }
    named = {
        kind: {frame.matter_id for frame in reading.value.named}
        for kind, reading in found.items()
        if reading.value is not None
    }
    assert named["stale"] == {stale}
    assert len(named["owed"]) == 2
    assert named["given_up"] == {given_up}
    assert named["blocked"] == {blocked, again}
    assert view.stale.value is not None
    assert view.stale.value.oldest is not None


def test_a_matter_that_is_gone_waits_for_nobody(watch: Watch, world: World) -> None:
    """It would be red for ever: nothing that a person can press mends it."""
    for _ in range(3):
        job(world, "failed", tries=9, matter=uuid4())
        job(world, "idle", skipped=1, matter=uuid4())
    there = job(world, "failed", tries=9)
    other_firm = job(world, "failed", tries=9, firm=world.firm_b)
    view = watch.database()
    assert view.given_up.value is not None
    assert view.given_up.value.count == Count(2)
    assert {frame.matter_id for frame in view.given_up.value.named} == {there, other_firm}
    assert view.consent_blocked.value is not None
    assert view.consent_blocked.value.count == Count(0)


def test_more_given_up_jobs_than_a_hundred_are_counted_oldest_first(
    watch: Watch, world: World
) -> None:
    matters = [job(world, "failed", tries=9) for _ in range(130)]
    world.god.execute(
        "UPDATE ops.matter_frame_jobs SET updated_at = now() - interval '1 day' "
        "WHERE matter_id = %s",
        [matters[77]],
    )
    found = watch.database().given_up.value
    assert found is not None
    assert found.count == Count(130)
    assert found.named[0].matter_id == matters[77]
    assert len(found.named) == 20


@pytest.mark.parametrize("broken", ["ops.matter_frame_jobs", "ops.document_ingest_outbox"])
def test_one_reading_that_fails_hides_no_other_and_says_why(
    watch: Watch, world: World, broken: str
) -> None:
    put(world, DOMAIN_EVENT)
    world.god.execute(f"REVOKE SELECT ON {broken} FROM pramaan_app")  # noqa: S608
    view = watch.database()
    told_of = [problem for problem in problems(view) if problem]
    assert 0 < len(told_of) < len(problems(view))
    assert all("permission denied for table" in problem for problem in told_of)
    assert not any("SELECT" in problem for problem in told_of)
    events = view.lanes[DOMAIN_EVENT.name].value
    assert events is not None
    assert events.pending == Count(1)
    assert "NOT READ: " in "\n".join(told.database_lines(view))


def test_a_database_that_is_gone_is_asked_once_and_each_reading_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that is silent costs ten seconds an asking."""
    gone = Database.connect("postgresql://nobody:hunter2@127.0.0.1:1/none")
    asked = Mock(side_effect=gone.staff)
    monkeypatch.setattr(gone, "staff", asked)
    view = Watch(settings_for("http://127.0.0.1:1"), gone).database()
    told_of = problems(view)
    assert asked.call_count == 1
    assert len(set(told_of)) == 1
    assert "gives no connection" in str(told_of[0])
    assert "hunter2" not in str(told_of[0])
    first, *others = told.database_lines(view)
    assert first.endswith(f"NOT READ: {told_of[0]}")
    assert others
    assert all(line.endswith("NOT READ: as above") for line in others)


def test_what_lies_beyond_the_looks_time_is_not_read(watch: Watch) -> None:
    told_of = problems(watch.database(seconds=0))
    assert {str(problem).split(":")[0] for problem in told_of} == {"not read"}


def test_a_schema_behind_this_code_is_seen(watch: Watch, world: World) -> None:
    world.god.execute("UPDATE pramaan_pipelines_version SET version_num = '0001'")
    schema = watch.database().schema.value
    assert schema is not None
    assert (schema.at, schema.at_head) == ("0001", False)


def test_every_queue_and_every_dead_letter_queue_is_read(
    configured: Settings, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    sqs = client("sqs", configured)
    for number, queue in enumerate(QUEUES, 1):
        for _ in range(number):
            sqs.send_message(QueueUrl=configured.require(queue.setting), MessageBody="x")
        dead = consumer_of(configured, queue).dead_letters()
        sqs.send_message(QueueUrl=dead._queue_url, MessageBody="x")
    for _ in range(2):
        sqs.send_message(QueueUrl=undeliverable_events(configured)._queue_url, MessageBody="x")
    look = Watch(configured, database)
    view = look.queues()
    assert not caplog.records  # urllib3 warns where threads share too few connections
    config: Any = look._sqs.meta.config if look._sqs else None
    assert config.max_pool_connections == len(QUEUES) + len(DEAD_LETTERS)
    assert {name: reading.value for name, reading in view.queues.items()} == {
        queue.name: QueueDepth(number, 0, 0) for number, queue in enumerate(QUEUES, 1)
    }
    assert tuple(view.dead_letters) == DEAD_LETTERS
    depths = {name: reading.value for name, reading in view.dead_letters.items()}
    assert depths.pop(UNDELIVERABLE) == QueueDepth(2, 0, 0)
    assert set(depths.values()) == {QueueDepth(1, 0, 0)}


def test_a_queue_that_is_gone_or_not_set_hides_no_other(
    configured: Settings, database: Database
) -> None:
    missing = configured.model_copy(
        update={
            "document_ingestion_queue_url": None,
            "framer_events_queue_url": "http://127.0.0.1/000000000000/absent-queue",
        }
    )
    view = Watch(missing, database).queues()
    assert "DOCUMENT_INGESTION_QUEUE_URL is not set" in str(
        view.queues["documents_ingestion_queue"].problem
    )
    assert "absent-queue" in str(view.dead_letters["framer_events_dead_letters"].problem)
    assert view.queues["documents_registration_queue"].value == QueueDepth(0, 0, 0)
    assert view.dead_letters[UNDELIVERABLE].value == QueueDepth(0, 0, 0)
    lines = list(told.queue_lines(view))
    assert sum("NOT READ: " in line for line in lines) == 4
    assert isinstance(view, QueuesView)


def test_every_lane_is_looked_at(watch: Watch) -> None:
    assert list(watch.database().lanes) == [lane.name for lane in LANES]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (standing.FIRMS.format(which=standing.BLOCKED), "matter_frame_jobs_blocked_idx"),
        (
            standing.FIND_PRESENT.format(which=standing.BLOCKED, since="last_skip_at"),
            "matter_frame_jobs_blocked_idx",
        ),
        (standing.FIRMS.format(which=standing.GIVEN_UP), "matter_frame_jobs_owed_idx"),
        (
            standing.FIND.format(which=standing.OWED, since="updated_at"),
            "matter_frame_jobs_owed_idx",
        ),
        (standing.FIND.format(which=standing.FAILED, since="1"), "matter_frame_jobs_owed_idx"),
        (standing.FIND.format(which=standing.STALE, since="1"), "matter_frame_jobs_running_idx"),
    ],
    ids=["firms blocked", "blocked", "firms given up", "owed", "failed", "stale"],
)
def test_what_waits_is_found_without_reading_the_jobs_that_do_not(
    world: World, database: Database, query: str, index: str
) -> None:
    world.god.execute(
        "INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, claimed_at, last_skip_reason, "
        "last_skip_at) SELECT %s, gen_random_uuid(), now(), 'consent_blocked', "
        "now() - interval '1 day' FROM generate_series(1, 20000)",
        [world.firm_a],
    )
    for _ in range(3):
        job(world, "failed", tries=9)
        job(world, "idle", skipped=1)
        job(world, "running", claimed=60)
    world.god.execute("VACUUM ANALYZE ops.matter_frame_jobs")
    parameters = {
        "firm_id": world.firm_a,
        "firms": 100,
        "max_tries": 3,
        "lease": 900,
        "limit": 1000,
    }
    statement = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}")
    wanted = statement.compile().params.keys()
    scope = database.firm(world.firm_a) if "public.matters" in query else database.staff()
    with scope as connection:
        by_index(connection)
        plan = connection.scalar(statement, {name: parameters[name] for name in wanted})
    found = nodes(plan[0]["Plan"])
    read = [node for node in found if node.get("Relation Name") == "matter_frame_jobs"]
    assert {node.get("Index Name") for node in read} == {index}
    assert sum(node.get("Rows Removed by Filter", 0) for node in found) <= 20
