"""Upgrades without a stop: a migration stands in nobody's way, and running relays go on."""

import time
from collections.abc import Iterator
from threading import Event, Thread, Timer

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import event as engine_event

from pramaan_pipelines.errors import SchemaError
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines.outbox.drain import relay_pending_document_ingest_events
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store import migrate
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.store.migrate import Patience
from pramaan_pipelines_tests.store.host import HOST, Connection, catalogue
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.world import World

SHORT = Patience(lock_seconds=0.3, tries=2, pause_seconds=0.2)


@pytest.fixture
def god(server: EmbeddedPostgres, empty_database: str) -> Iterator[Connection]:
    """A superuser on the database of an application that is there already."""
    with psycopg.connect(server.admin_url(empty_database), autocommit=True) as connection:
        connection.execute(HOST.encode())
        connection.execute("RESET ROLE")
        yield connection


@pytest.fixture
def owner(server: EmbeddedPostgres, empty_database: str) -> SecretStr:
    return SecretStr(server.url(OWNER, empty_database))


def test_a_migration_that_gets_no_lock_gives_up_soon_and_has_changed_nothing(
    server: EmbeddedPostgres, empty_database: str, owner: SecretStr, god: Connection
) -> None:
    """A report of the application reads its outbox for an hour; its writers never wait for long."""
    before = catalogue(god)
    stop, waits, failures = Event(), [0.0], list[Exception]()

    def write() -> None:
        with psycopg.connect(server.admin_url(empty_database), autocommit=True) as writer:
            while not stop.is_set():
                began = time.monotonic()
                try:
                    writer.execute("UPDATE ops.document_ingest_outbox SET tracestate = tracestate")
                except psycopg.Error as error:
                    failures.append(error)
                waits.append(time.monotonic() - began)
                time.sleep(0.01)

    with psycopg.connect(server.admin_url(empty_database)) as report:
        report.execute("SELECT count(*) FROM ops.document_ingest_outbox")
        writer = Thread(target=write)
        writer.start()
        try:
            began = time.monotonic()
            with pytest.raises(SchemaError, match="Nothing was migrated: in 2 tries") as caught:
                migrate.upgrade(owner, patience=SHORT)
            took = time.monotonic() - began
        finally:
            stop.set()
            writer.join()
    assert "pg_stat_activity" in str(caught.value)
    assert took < 20  # gave up
    assert failures == []
    assert len(waits) > 2  # and they went on
    assert max(waits) < 10
    assert catalogue(god) == before
    assert migrate.current(owner) is None


def test_a_lock_that_is_free_at_the_next_try_is_taken_then(
    server: EmbeddedPostgres, empty_database: str, owner: SecretStr, god: Connection
) -> None:
    assert god
    report = psycopg.connect(server.admin_url(empty_database))
    report.execute("SELECT count(*) FROM ops.document_ingest_outbox")
    ends = Timer(1, report.close)
    ends.start()
    migrate.upgrade(owner, patience=Patience(lock_seconds=0.3, tries=8, pause_seconds=0.2))
    ends.join()
    assert migrate.current(owner) == migrate.head()


def test_the_lock_time_out_is_the_migration_s_own_and_short() -> None:
    assert Patience().lock_seconds <= 5
    assert Patience().tries > 1


@pytest.mark.parametrize("threshold", [None, 0])
def test_a_column_that_is_added_under_a_running_relay_breaks_no_drain(
    world: World, record: TelemetryRecord, provisioned: Settings, threshold: int | None
) -> None:
    """No "cached plan must not change result type", also where a driver or a pooler prepares."""
    database = world.database
    prepared_from_now_on(database, threshold)
    publisher = DOCUMENT_INGEST.publisher(provisioned)
    for turn in range(3):
        document = world.document(world.firm_a)
        world.god.execute(
            "INSERT INTO ops.document_ingest_outbox (firm_id, document_id, event_type) "
            "VALUES (%s, %s, %s)",
            [world.firm_a, document, DOCUMENT_INGEST.event_type],
        )
        drained = relay_pending_document_ingest_events(
            database, publisher, record.telemetry, DrainLimits()
        )
        assert drained.sent == 1
        world.god.execute(f"ALTER TABLE ops.document_ingest_outbox ADD COLUMN later_{turn} text")


def test_connections_that_were_cut_between_two_drains_cost_nothing(
    world: World, record: TelemetryRecord, provisioned: Settings
) -> None:
    publisher = DOCUMENT_INGEST.publisher(provisioned)
    for _ in range(2):
        relay_pending_document_ingest_events(
            world.database, publisher, record.telemetry, DrainLimits()
        )
        world.god.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def prepared_from_now_on(database: Database, threshold: int | None) -> None:
    """Let the driver prepare every statement at its first use, or none."""

    def prepare(connection: psycopg.Connection[tuple[object, ...]], *_: object) -> None:
        connection.prepare_threshold = threshold

    engine_event.listen(database._engine, "checkout", prepare)
