"""No migration takes a long lock: what each does to a table that was there before it, read and run.

Every statement of an upgrade is judged as the server gets it, beside an application with its own
tables and from each revision to the next; a made-up migration shows that the judge refuses.
"""

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from alembic.script import ScriptDirectory
from pydantic import SecretStr
from sqlalchemy import Engine
from sqlalchemy import event as engine_event

from pramaan_pipelines.errors import SchemaError
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines.store import migrate
from pramaan_pipelines.store.migrate import Patience
from pramaan_pipelines_tests.store.host import Connection, build_host, catalogue
from pramaan_pipelines_tests.support.waiting import until

OUTBOX_INDEX = "ops.document_ingest_outbox_pending_idx"
ON = re.compile(r"(?:ALTER TABLE|(?<!TO) ON) (?:ONLY )?(\w+\.\w+)")
LONG = {
    "an index that blocks the table's writers": r"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY)",
    "a constraint that builds an index under a lock": (
        r"ADD (CONSTRAINT \S+ )?(UNIQUE|PRIMARY KEY|EXCLUDE)(?! USING INDEX)"
    ),
    "a constraint that reads every row under a lock": (
        r"ADD (CONSTRAINT \S+ )?(CHECK|FOREIGN KEY)(?!.* NOT VALID)"
    ),
    "a column's type that is changed": r"ALTER (COLUMN )?\S+ (SET DATA )?TYPE",
    "a column that must be read to be NOT NULL": r"ALTER (COLUMN )?\S+ SET NOT NULL",
    "a default that is computed for each row": (
        r"ADD COLUMN.*(random|clock_timestamp|nextval|uuid\(|IDENTITY|serial)"
    ),
    "a table that is written anew": r"SET (TABLESPACE|LOGGED|UNLOGGED)|CLUSTER|VACUUM FULL",
}


@contextmanager
def judged(god: Connection) -> Iterator[list[str]]:
    """Gather what is wrong with the statements that migrations send meanwhile."""
    found: list[str] = []
    before = {name for (name,) in god.execute(TABLES.encode())}

    def judge(_: object, cursor: psycopg.Cursor[tuple[str]], statement: str, *__: object) -> None:
        words = " ".join(statement.split())
        ddl = re.match(r"(CREATE|ALTER|DROP|VACUUM|CLUSTER|REINDEX)\b", words)
        target = ON.search(words)
        if ddl is None or target is None or target[1] not in before:
            return
        cursor.execute("SELECT setting FROM pg_settings WHERE name = 'lock_timeout'")
        (row,) = cursor.fetchall()
        # What blocks nobody while it waits may wait for longer.
        patient = re.search("CONCURRENTLY|VALIDATE CONSTRAINT", words)
        most = 1000 * (Patience.build_seconds if patient else Patience.lock_seconds)
        if not 0 < int(row[0]) <= most:
            found.append(f"no lock_timeout: {words}")
        found.extend(f"{what}: {words}" for what, how in LONG.items() if re.search(how, words))

    engine_event.listen(Engine, "before_cursor_execute", judge)
    try:
        yield found
    finally:
        engine_event.remove(Engine, "before_cursor_execute", judge)


TABLES = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname <> 'pg_catalog'"


@pytest.fixture
def owner(server: EmbeddedPostgres, empty_database: str) -> SecretStr:
    return SecretStr(server.url(OWNER, empty_database))


@pytest.fixture
def god(server: EmbeddedPostgres, empty_database: str) -> Iterator[Connection]:
    with psycopg.connect(server.admin_url(empty_database), autocommit=True) as connection:
        yield connection


@pytest.fixture
def host(god: Connection) -> Connection:
    """The database of an application that is there already."""
    build_host(god)
    return god


def test_beside_an_application_no_statement_holds_a_long_lock_on_its_tables(
    owner: SecretStr, host: Connection
) -> None:
    with judged(host) as wrong:
        migrate.upgrade(owner)
    assert wrong == []


def test_no_revision_holds_a_long_lock_on_a_table_of_those_before_it(
    owner: SecretStr, god: Connection
) -> None:
    script = ScriptDirectory.from_config(migrate._config(owner))
    for revision in [found.revision for found in script.walk_revisions()][::-1]:
        with judged(god) as wrong:
            migrate.upgrade(owner, revision)
        assert wrong == [], revision


MADE_UP = """
from alembic import op
revision, down_revision = "9999", "{head}"
branch_labels = depends_on = None
def upgrade():
    op.execute("{statement}")
"""
JOBS = "ops.matter_frame_jobs"
LONG_LOCKS = [
    (f"CREATE INDEX made_up ON {JOBS} (updated_at)", "blocks the table's writers"),
    (f"CREATE UNIQUE INDEX made_up ON {JOBS} (id)", "blocks the table's writers"),
    (f"ALTER TABLE {JOBS} ADD CONSTRAINT made_up UNIQUE (id)", "builds an index"),
    (f"ALTER TABLE {JOBS} ADD CONSTRAINT made_up CHECK (failed_tries >= 0)", "reads every row"),
    (f"ALTER TABLE {JOBS} ALTER COLUMN failed_tries TYPE bigint", "type that is changed"),
    (f"ALTER TABLE {JOBS} ALTER COLUMN claimed_at SET NOT NULL", "NOT NULL"),
    (f"ALTER TABLE {JOBS} ADD COLUMN made_up uuid DEFAULT gen_random_uuid()", "for each row"),
    (f"SET LOCAL lock_timeout = 0; ALTER TABLE {JOBS} ADD COLUMN made_up text", None),
    (f"ALTER TABLE {JOBS} ADD COLUMN made_up text", None),
]


@pytest.mark.parametrize(("statement", "why"), LONG_LOCKS)
def test_a_made_up_migration_that_would_hold_a_long_lock_is_refused(
    server: EmbeddedPostgres,
    database_name: str,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    why: str | None,
) -> None:
    shutil.copytree(repository / "migrations", tmp_path / "migrations")
    first, _, second = statement.rpartition("; ")
    body = '"); op.execute("'.join(filter(None, (first, second)))
    made_up = MADE_UP.format(head=migrate.head(), statement=body)
    (tmp_path / "migrations" / "versions" / "9999_made_up.py").write_text(made_up)
    monkeypatch.setattr(migrate, "_PACKAGE", tmp_path)
    with (
        psycopg.connect(server.admin_url(database_name), autocommit=True) as god,
        judged(god) as wrong,
    ):
        migrate.upgrade(SecretStr(server.url(OWNER, database_name)))
    if "lock_timeout" in statement:
        assert [line.split(":")[0] for line in wrong] == ["no lock_timeout"]
    elif why is None:
        assert wrong == []
    else:
        assert [why in line for line in wrong] == [True], wrong


@contextmanager
def a_report(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Hold a snapshot, as a long report or a dump does, and no lock on any table."""
    with psycopg.connect(url) as report:
        report.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        report.execute("SELECT 1")
        yield report


def building(god: Connection) -> bool:
    """Tell whether the build of an index waits for an older snapshot right now."""
    return bool(
        god.execute(
            "SELECT 1 FROM pg_stat_progress_create_index "
            "WHERE command = 'CREATE INDEX CONCURRENTLY' AND phase = 'waiting for old snapshots'"
        ).fetchall()
    )


def test_writers_go_on_while_an_index_is_built_that_has_to_wait_for_a_report(
    server: EmbeddedPostgres, empty_database: str, owner: SecretStr, host: Connection
) -> None:
    """The build waits for whoever has an older snapshot, and nobody waits for the build."""
    migrated = Thread(target=migrate.upgrade, args=(owner,))
    with a_report(server.admin_url(empty_database)) as report:
        migrated.start()
        try:
            until(lambda: building(host), seconds=60)
            waits = []
            with psycopg.connect(server.admin_url(empty_database), autocommit=True) as writer:
                writer.execute("SET lock_timeout = '5s'")
                for _ in range(20):
                    began = time.monotonic()
                    writer.execute("UPDATE ops.document_ingest_outbox SET tracestate = tracestate")
                    waits.append(time.monotonic() - began)
            still = building(host)
        finally:
            report.close()
            migrated.join()
    assert still  # the writer was not let through by the build's end
    assert max(waits) < 5
    migrate.check(owner)
    assert invalid(host) == []


def invalid(god: Connection) -> list[str]:
    found = god.execute(
        "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid ORDER BY 1"
    )
    return [name for (name,) in found.fetchall()]


def test_a_build_that_was_broken_off_is_begun_anew_by_the_next_migration(
    server: EmbeddedPostgres, empty_database: str, owner: SecretStr, host: Connection
) -> None:
    with (
        a_report(server.admin_url(empty_database)),
        pytest.raises(SchemaError, match=r"CREATE INDEX CONCURRENTLY.*migrate again") as told,
    ):
        migrate.upgrade(owner, patience=Patience(build_seconds=0.3))
    assert "older transaction" in str(told.value)
    assert migrate.current(owner) == migrate.head()  # the schema is there, and the old code runs
    assert len(invalid(host)) == 1
    migrate.upgrade(owner)
    assert invalid(host) == []
    migrate.check(owner)
    at_head = catalogue(host)
    migrate.downgrade(owner)
    migrate.upgrade(owner)
    assert catalogue(host) == at_head


def test_a_downgrade_takes_back_what_was_never_built(
    server: EmbeddedPostgres, empty_database: str, owner: SecretStr, host: Connection
) -> None:
    found = catalogue(host)
    with a_report(server.admin_url(empty_database)), pytest.raises(SchemaError):
        migrate.upgrade(owner, patience=Patience(build_seconds=0.3))
    migrate.downgrade(owner)
    assert catalogue(host) == found


def test_rows_that_stand_against_a_constraint_are_told_without_their_values(
    owner: SecretStr, host: Connection
) -> None:
    """The outbox's own unique event_id is gone, and two rows have the same."""
    host.execute("ALTER TABLE ops.document_ingest_outbox DROP CONSTRAINT uq_outbox_event")
    again = "INSERT INTO ops.document_ingest_outbox (event_id, firm_id, document_id, event_type) "
    again += "SELECT event_id, firm_id, document_id, event_type FROM ops.document_ingest_outbox"
    assert host.execute(again.encode()).rowcount > 0
    with pytest.raises(SchemaError, match=r"UNIQUE INDEX.*SQLSTATE 23505.*Mend the rows") as told:
        migrate.upgrade(owner)
    assert "Key" not in str(told.value)
    host.execute(
        "DELETE FROM ops.document_ingest_outbox a USING ops.document_ingest_outbox b "
        "WHERE a.event_id = b.event_id AND a.id > b.id"
    )
    migrate.upgrade(owner)
    assert invalid(host) == []
    migrate.check(owner)
