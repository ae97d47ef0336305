"""The pipeline beside the real application: extends what is there, and leaves it as it was."""
# ruff: noqa: S608 - statements made of constants

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from pramaan_pipelines.errors import SchemaError
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, OWNER
from pramaan_pipelines.store import migrate
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.store.host import (
    FIRM,
    FRAMER,
    HOST_TABLES,
    MATTER,
    USER,
    Attempt,
    Connection,
    build_host,
    catalogue,
    host_rows,
    refusal,
    refusals,
)

ALONE = "ALTER TABLE agents.agent_run "


@pytest.fixture
def url(server: EmbeddedPostgres, empty_database: str) -> SecretStr:
    return SecretStr(server.url(OWNER, empty_database))


@pytest.fixture
def host(server: EmbeddedPostgres, empty_database: str) -> Iterator[Connection]:
    """The application's database, as a superuser sees it."""
    with psycopg.connect(server.admin_url(empty_database), autocommit=True) as god:
        build_host(god)
        yield god


@pytest.fixture
def service(server: EmbeddedPostgres, empty_database: str) -> Iterator[Database]:
    database = Database.connect(SecretStr(server.url(APP, empty_database)))
    yield database
    database.close()


INSERT_FRAMER_RUN = text(
    "INSERT INTO agents.agent_run (id, firm_id, matter_id, agent_key, status, started_at, "
    "trigger_event_id, claimed_generation, traceparent, tracestate) VALUES (gen_random_uuid(), "
    f"'{FIRM}', '{MATTER}', '{FRAMER}', 'running', now(), gen_random_uuid(), 1, NULL, NULL)"
)


def test_up_and_down_leave_the_applications_tables_and_rows_as_they_were(
    host: Connection, url: SecretStr
) -> None:
    found, rows = catalogue(host), host_rows(host)
    migrate.upgrade(url)
    extended = host_rows(host)
    for table in HOST_TABLES:
        assert [
            {name: row[name] for name in old}
            for row, old in zip(extended[table], rows[table], strict=True)
        ] == rows[table]
    migrate.downgrade(url)
    assert host_rows(host) == rows
    assert catalogue(host) == found


def test_alembic_check_is_clean_beside_an_application_with_other_names_and_types(
    host: Connection, url: SecretStr
) -> None:
    host.execute(f"SET ROLE {OWNER}")
    host.execute("CREATE TABLE clients (id int PRIMARY KEY)")
    host.execute("CREATE TABLE ops.something_else (id int PRIMARY KEY)")
    migrate.upgrade(url)
    migrate.check(url)


def test_the_applications_own_tables_get_no_column_of_ours(
    host: Connection, url: SecretStr
) -> None:
    before = catalogue(host)
    theirs = {table for table in HOST_TABLES if "." not in table}
    migrate.upgrade(url)
    added = {name for kind, name, _ in catalogue(host) - before if kind == "column"}
    assert added
    assert not {name for name in added if name.split(".")[1] in theirs}
    assert host.execute("SELECT to_regclass('public.matter_assignments')").fetchone() == (None,)
    uniques = [
        text
        for kind, name, text in catalogue(host)
        if "event_id)" in text and "UNIQUE" in text and "document_ingest_outbox" in text
    ]
    assert len(uniques) == 1


@pytest.mark.parametrize(
    ("attempt", "constraint"),
    [
        (Attempt("nobody", None, MATTER, None, USER, started=False), "ck_known"),
        (Attempt("wizard_fill", MATTER, None, MATTER, USER, started=False), "ck_matter"),
        (Attempt("blake_registrar", MATTER, None, None, USER, started=False), "ck_scope"),
        (Attempt("clerk_chat", None, MATTER, MATTER, USER, started=False), "ck_scope"),
        (Attempt("wizard_fill", None, MATTER, None, USER, started=False), "ck_wizard"),
        (Attempt("clerk_chat", None, MATTER, None, None, started=False), "user_id"),
        (Attempt("a:b", None, MATTER, None, USER, started=False), "ck_known"),
    ],
)
def test_each_old_constraint_still_refuses_every_other_rail(
    host: Connection, url: SecretStr, attempt: Attempt, constraint: str
) -> None:
    assert refusal(host, attempt) == constraint
    migrate.upgrade(url)
    expected = "agent_run_user_present" if constraint == "user_id" else constraint
    assert refusal(host, attempt) == expected


def test_the_framer_is_admitted_for_a_matter_alone_and_nothing_changes_for_any_other_rail(
    host: Connection, url: SecretStr
) -> None:
    before = refusals(host)
    assert all(why is not None for attempt, why in before.items() if attempt.agent_key == FRAMER)
    migrate.upgrade(url)
    after = refusals(host)
    for attempt, why in after.items():
        if attempt.agent_key != FRAMER:
            assert (why is None) == (before[attempt] is None), attempt
        elif attempt.is_matter_only:
            assert why is None, attempt
        elif attempt.chat_session_id is None and attempt.wizard_form_id is None:
            assert why == "ck_scope", attempt
    migrate.downgrade(url)
    assert refusals(host) == before


def test_the_service_may_write_a_framer_run_where_the_application_granted_by_column(
    host: Connection, url: SecretStr, service: Database
) -> None:
    migrate.upgrade(url)
    with service.firm(FIRM) as connection:
        connection.execute(INSERT_FRAMER_RUN)
        connection.execute(
            text("UPDATE agents.agent_run SET status = 'failed' WHERE agent_key = :key"),
            {"key": FRAMER},
        )
    assert host.execute(
        "SELECT status FROM agents.agent_run WHERE agent_key = %s", [FRAMER]
    ).fetchall() == [("failed",)]


def test_a_downgrade_takes_the_framers_runs_along_and_keeps_the_applications(
    host: Connection, url: SecretStr, service: Database
) -> None:
    rows, found = host_rows(host), catalogue(host)
    migrate.upgrade(url)
    with service.firm(FIRM) as connection:
        connection.execute(INSERT_FRAMER_RUN)
    host.execute(
        "INSERT INTO agents.agent_run (firm_id, matter_id, user_id, agent_key) "
        "VALUES (%s, %s, %s, %s)",
        [FIRM, MATTER, USER, FRAMER],
    )
    migrate.downgrade(url)
    assert host_rows(host) == rows
    assert catalogue(host) == found


def test_an_application_that_has_admitted_the_framer_itself_keeps_its_frames_on_a_downgrade(
    host: Connection, url: SecretStr, service: Database
) -> None:
    keys = f"('blake_registrar', 'clerk_chat', 'wizard_fill', '{FRAMER}')"
    for statement in (
        f"SET ROLE {OWNER}",
        ALONE + "DROP CONSTRAINT ck_known, DROP CONSTRAINT ck_scope, DROP CONSTRAINT ck_matter, "
        'DROP CONSTRAINT "ck Starts", ALTER COLUMN user_id DROP NOT NULL',
        ALONE + "ADD COLUMN trigger_event_id uuid",
        ALONE + f"ADD CONSTRAINT ck_known CHECK (agent_key IN {keys})",
        ALONE + "ADD CONSTRAINT ck_scope CHECK (num_nonnulls(chat_session_id, wizard_form_id) = 1 "
        f"OR (matter_id IS NOT NULL AND agent_key = '{FRAMER}'))",
        "RESET ROLE",
        "INSERT INTO agents.agent_run (firm_id, matter_id, agent_key, trigger_event_id) VALUES "
        f"('{FIRM}', '{MATTER}', '{FRAMER}', gen_random_uuid())",
    ):
        host.execute(statement)
    rows, found = host_rows(host), catalogue(host)
    migrate.upgrade(url)
    migrate.check(url)
    with service.firm(FIRM) as connection:
        connection.execute(INSERT_FRAMER_RUN)
    migrate.downgrade(url)
    kept = host_rows(host)["agents.agent_run"]
    assert [row for row in kept if row in rows["agents.agent_run"]] == rows["agents.agent_run"]
    assert catalogue(host) == found


def test_delete_is_taken_from_the_service_and_given_back_by_the_downgrade(
    host: Connection, url: SecretStr
) -> None:
    question = "SELECT has_table_privilege('pramaan_app', 'ops.document_ingest_outbox', 'DELETE')"
    assert host.execute(question).fetchone() == (True,)
    migrate.upgrade(url)
    assert host.execute(question).fetchone() == (False,)
    migrate.downgrade(url)
    assert host.execute(question).fetchone() == (True,)


@pytest.mark.usefixtures("host")
def test_a_trace_that_the_application_wrote_before_or_writes_later_is_no_error(
    url: SecretStr, service: Database
) -> None:
    migrate.upgrade(url)
    with service.firm(FIRM) as connection:
        connection.execute(
            text(
                "INSERT INTO ops.document_ingest_outbox "
                "(event_id, firm_id, document_id, event_type, traceparent) "
                "SELECT gen_random_uuid(), firm_id, id, 'document.ingest.requested', 'none' "
                "FROM documents LIMIT 1"
            )
        )
    with service.staff() as connection:
        marked = connection.execute(
            text("UPDATE ops.document_ingest_outbox SET dispatched_at = now() RETURNING id")
        )
        assert len(marked.all()) == 3


def test_an_event_id_that_the_application_left_open_becomes_unique(
    host: Connection, url: SecretStr
) -> None:
    host.execute("ALTER TABLE ops.document_ingest_outbox DROP CONSTRAINT uq_outbox_event")
    found = catalogue(host)
    migrate.upgrade(url)
    with pytest.raises(psycopg.errors.UniqueViolation):
        host.execute("UPDATE ops.document_ingest_outbox SET event_id = %s", [uuid4()])
    migrate.downgrade(url)
    assert catalogue(host) == found


def test_an_outbox_whose_key_is_the_event_itself_gets_an_order(
    host: Connection, url: SecretStr
) -> None:
    host.execute(
        "ALTER TABLE ops.document_ingest_outbox DROP COLUMN id, DROP CONSTRAINT uq_outbox_event, "
        "ADD PRIMARY KEY (event_id)"
    )
    found = catalogue(host)
    migrate.upgrade(url)
    migrate.check(url)
    assert host.execute("SELECT id FROM ops.document_ingest_outbox ORDER BY id").fetchall() == [
        (1,),
        (2,),
    ]
    migrate.downgrade(url)
    assert catalogue(host) == found


@pytest.mark.parametrize(
    "constraint",
    [
        "CHECK (agent_key = ANY ('{clerk_chat,wizard_fill,blake_registrar}'))",
        "CHECK (num_nonnulls(chat_session_id, wizard_form_id) = 1) NO INHERIT",
    ],
)
def test_a_constraint_that_cannot_be_read_is_named_and_nothing_is_changed(
    host: Connection, url: SecretStr, constraint: str
) -> None:
    host.execute(ALONE + f"ADD CONSTRAINT ck_odd {constraint}")
    found = catalogue(host)
    with pytest.raises(SchemaError, match="by hand"):
        migrate.upgrade(url)
    assert catalogue(host) == found


def test_a_constraint_that_is_not_validated_is_widened_and_stays_so(
    host: Connection, url: SecretStr
) -> None:
    host.execute(
        ALONE + "DROP CONSTRAINT ck_scope, ADD CONSTRAINT ck_scope CHECK "
        "(num_nonnulls(chat_session_id, wizard_form_id) = 1) NOT VALID"
    )
    found = catalogue(host)
    migrate.upgrade(url)
    assert refusal(host, Attempt(FRAMER, MATTER, None, None, None, started=True)) is None
    migrate.downgrade(url)
    assert catalogue(host) == found


def test_a_run_table_without_any_policy_is_not_shut_to_the_service(
    host: Connection, url: SecretStr, service: Database
) -> None:
    host.execute("DROP POLICY tenant ON agents.agent_run")
    host.execute(ALONE + "DISABLE ROW LEVEL SECURITY")
    found = catalogue(host)
    migrate.upgrade(url)
    with service.firm(FIRM) as connection:
        assert connection.scalar(text("SELECT count(*) FROM agents.agent_run")) == 1
    with service.firm(uuid4()) as connection:
        assert connection.scalar(text("SELECT count(*) FROM agents.agent_run")) == 0
    migrate.downgrade(url)
    assert catalogue(host) == found
