"""What the migrations promise about the four tables: rights, keys, closed sets, indexes.

Each right is tried as the role that has it or lacks it, and read from the catalogue besides.
"""
# ruff: noqa: S608 - statements made of constants

from collections.abc import Iterator
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, MAINTENANCE
from pramaan_pipelines.store.tables import DISPATCH_COLUMNS, METADATA
from pramaan_pipelines_tests.store.host import Connection
from pramaan_pipelines_tests.support.world import World

OUTBOXES = ("ops.document_ingest_outbox", "ops.domain_event_outbox")
JOBS = "ops.matter_frame_jobs"
RUNS = "agents.agent_run"
FOUR = (*OUTBOXES, JOBS, RUNS)

ADMISSIONS: tuple[tuple[str, set[str], str | None], ...] = (
    ("vega_matter_frame", {"matter_id"}, None),
    ("vega_matter_frame", {"matter_id", "user_id"}, None),
    ("vega_matter_frame", set(), "agent_run_scope_check"),
    ("blake_registrar", {"matter_id", "user_id"}, "agent_run_scope_check"),
    ("blake_registrar", {"chat_session_id"}, "agent_run_user_present"),
    ("blake_registrar", {"chat_session_id", "user_id"}, None),
    ("clerk_chat", {"chat_session_id", "wizard_form_id", "user_id"}, "agent_run_scope_check"),
    ("nobody", {"chat_session_id", "user_id"}, "agent_run_agent_key_check"),
)
FORBIDDEN_TO_MAINTENANCE = (
    "SELECT envelope FROM ops.domain_event_outbox",
    "SELECT * FROM ops.domain_event_outbox",
    "SELECT firm_id FROM ops.document_ingest_outbox",
    "DELETE FROM ops.domain_event_outbox RETURNING envelope",
    "UPDATE ops.domain_event_outbox SET dispatched_at = now()",
    "INSERT INTO ops.domain_event_outbox (firm_id) VALUES (NULL)",
    "DELETE FROM ops.matter_frame_jobs",
    "SELECT 1 FROM ops.matter_frame_jobs",
    "DELETE FROM agents.agent_run",
    "SELECT 1 FROM agents.agent_run",
    "SELECT 1 FROM matters",
)
UPDATABLE = {
    **{table: set(DISPATCH_COLUMNS) for table in OUTBOXES},
    JOBS: {
        "run_status",
        "rebuild_needed",
        "requested_generation",
        "claimed_generation",
        "claimed_at",
        "last_skip_reason",
        "last_skip_at",
        "pending_event_id",
        "failed_tries",
        "updated_at",
    },
    RUNS: {"status", "finished_at"},
}
COLUMNS = {table: [column.name for column in METADATA.tables[table].columns] for table in FOUR}


def is_denied(connection: Connection, statement: str) -> bool:
    """Tell whether the right to `statement` is lacking; whatever else is wrong with it passes."""
    try:
        connection.execute(statement)
    except errors.GeneratedAlways:
        # An identity column is refused to everybody, before any right is looked at.
        return True
    except psycopg.Error as error:
        return (error.diag.message_primary or "").startswith("permission denied")
    return False


@pytest.fixture
def app(server: EmbeddedPostgres, world: World, database_name: str) -> Iterator[Connection]:
    """The service's own connection, under firm A as its firm_admin for the whole session."""
    with psycopg.connect(server.url(APP, database_name), autocommit=True) as connection:
        connection.execute("SELECT set_config('app.firm_id', %s, false)", [str(world.firm_a)])
        connection.execute("SELECT set_config('app.role', 'firm_admin', false)")
        yield connection


@pytest.fixture
def maintenance(server: EmbeddedPostgres, database_name: str) -> Iterator[Connection]:
    with psycopg.connect(server.url(MAINTENANCE, database_name), autocommit=True) as connection:
        yield connection


def write_everywhere(world: World, firm: UUID) -> UUID:
    """Write one row of the firm into each of the four tables; return the matter."""
    matter = world.matter(firm)
    world.god.execute(
        "INSERT INTO ops.document_ingest_outbox (firm_id, document_id, event_type) "
        "VALUES (%s, %s, 'document.ingest.requested')",
        [firm, uuid4()],
    )
    world.god.execute(
        "INSERT INTO ops.domain_event_outbox (event_id, firm_id, event_type, envelope) "
        "VALUES (%s, %s, 'matter.created', '{}')",
        [uuid4(), firm],
    )
    world.god.execute(f"INSERT INTO {JOBS} (firm_id, matter_id) VALUES (%s, %s)", [firm, matter])
    world.god.execute(
        f"INSERT INTO {RUNS} (firm_id, matter_id, agent_key, status) "
        "VALUES (%s, %s, 'vega_matter_frame', 'running')",
        [firm, matter],
    )
    return matter


def test_every_table_has_forced_row_level_security(world: World, subtests: pytest.Subtests) -> None:
    for table in FOUR:
        with subtests.test(table=table):
            flags = world.rows(
                "SELECT relrowsecurity, relforcerowsecurity FROM pg_class "
                "WHERE oid = to_regclass(%s)",
                table,
            )
            assert flags == [(True, True)]


@pytest.mark.parametrize("role", [APP, MAINTENANCE])
def test_the_roles_are_bound_by_row_level_security_and_own_nothing(world: World, role: str) -> None:
    assert world.rows(
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles "
        "WHERE rolname = %s",
        role,
    ) == [(False, False, False, False)]
    owned = world.rows(
        "SELECT count(*) FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid "
        "WHERE r.rolname = %s AND d.deptype = 'o'",
        role,
    )
    assert owned == [(0,)]


def test_the_service_cannot_delete_a_row(app: Connection, subtests: pytest.Subtests) -> None:
    for table in FOUR:
        with subtests.test(table=table):
            with pytest.raises(errors.InsufficientPrivilege):
                app.execute(f"DELETE FROM {table}")
            with pytest.raises(errors.InsufficientPrivilege):
                app.execute(f"TRUNCATE {table}")


def test_the_service_may_update_what_a_worker_writes_and_no_other_column(app: Connection) -> None:
    for table in FOUR:
        refused = {
            column
            for column in COLUMNS[table]
            if is_denied(app, f"UPDATE {table} SET {column} = {column}")
        }
        assert refused == set(COLUMNS[table]) - UPDATABLE[table]
        assert {"id", "firm_id", "created_at"} <= refused


def test_a_producer_cannot_insert_a_dispatch_column(app: Connection) -> None:
    for table in OUTBOXES:
        refused = {
            column
            for column in COLUMNS[table]
            if is_denied(app, f"INSERT INTO {table} ({column}) SELECT NULL")
        }
        assert refused == {*DISPATCH_COLUMNS, "created_at", "id"}


def test_an_event_is_in_its_outbox_once_whatever_the_firm(
    world: World, subtests: pytest.Subtests
) -> None:
    """EB-07 rests on it: event_id is the consumer's dedupe key."""
    write_everywhere(world, world.firm_a)
    write_everywhere(world, world.firm_b)
    for table in OUTBOXES:
        with subtests.test(table=table), pytest.raises(errors.UniqueViolation):
            world.god.execute(f"UPDATE {table} SET event_id = %s", [uuid4()])


def test_a_matter_has_one_frame_job(world: World) -> None:
    """EB-16."""
    matter = write_everywhere(world, world.firm_a)
    insert = f"INSERT INTO {JOBS} (firm_id, matter_id) VALUES (%s, %s)"
    with pytest.raises(errors.UniqueViolation):
        world.god.execute(insert, [world.firm_a, matter])
    # Another firm that names the same matter cannot learn from a refusal that it exists.
    world.god.execute(insert, [world.firm_b, matter])


def test_the_statuses_of_a_frame_job_are_a_closed_set(world: World) -> None:
    matter = write_everywhere(world, world.firm_a)
    update = f"UPDATE {JOBS} SET run_status = %s, claimed_at = now()"
    for status in ("idle", "queued", "running", "failed"):
        world.god.execute(update, [status])
        assert world.one(f"SELECT run_status FROM {JOBS} WHERE matter_id = %s", matter) == status
    for status in ("done", "", "RUNNING", "running "):
        with pytest.raises(errors.CheckViolation):
            world.god.execute(update, [status])


def test_an_event_has_one_run_within_its_firm(world: World) -> None:
    """EB-07, H11: partial, and firm first, so that no firm sees another's events in a refusal."""
    event = uuid4()
    insert = (
        f"INSERT INTO {RUNS} (firm_id, matter_id, agent_key, status, trigger_event_id) "
        "VALUES (%s, %s, 'vega_matter_frame', 'running', %s)"
    )
    world.god.execute(insert, [world.firm_a, uuid4(), event])
    with pytest.raises(errors.UniqueViolation):
        world.god.execute(insert, [world.firm_a, uuid4(), event])
    world.god.execute(insert, [world.firm_b, uuid4(), event])
    for _ in range(2):
        world.god.execute(insert, [world.firm_a, uuid4(), None])
    definition = world.one(
        "SELECT pg_get_indexdef('agents.agent_run_firm_id_trigger_event_id_key'::regclass)"
    )
    assert "UNIQUE" in definition
    assert definition.endswith("(firm_id, trigger_event_id) WHERE (trigger_event_id IS NOT NULL)")


def test_a_drain_reads_an_index_of_pending_rows_only(
    world: World, subtests: pytest.Subtests
) -> None:
    for table in OUTBOXES:
        with subtests.test(table=table):
            name = table.split(".")[1]
            definition = world.one(
                "SELECT pg_get_indexdef(%s::regclass)", f"ops.{name}_pending_idx"
            )
            assert definition.endswith(
                "(event_type, id) WHERE ((dispatched_at IS NULL) AND (parked_at IS NULL))"
            )


def test_a_row_is_never_parked_and_dispatched(world: World, subtests: pytest.Subtests) -> None:
    write_everywhere(world, world.firm_a)
    for table in OUTBOXES:
        with subtests.test(table=table), pytest.raises(errors.CheckViolation):
            world.god.execute(f"UPDATE {table} SET parked_at = now(), dispatched_at = now()")


def test_an_envelope_is_an_object(world: World) -> None:
    write_everywhere(world, world.firm_a)
    for text in ("[]", '"text"', "1", "null"):
        with pytest.raises(errors.CheckViolation):
            world.god.execute("UPDATE ops.domain_event_outbox SET envelope = %s", [text])


def test_the_framer_alone_may_run_without_a_user_and_for_a_matter_alone(
    world: World, subtests: pytest.Subtests
) -> None:
    for agent_key, columns, constraint in ADMISSIONS:
        with subtests.test(agent_key=agent_key, columns=columns):
            names = ["firm_id", "agent_key", "status", *sorted(columns)]
            values = [world.firm_a, agent_key, "running", *(uuid4() for _ in columns)]
            places = ", ".join(["%s"] * len(names))
            found = None
            try:
                world.god.execute(
                    f"INSERT INTO {RUNS} ({', '.join(names)}) VALUES ({places})", values
                )
            except errors.CheckViolation as error:
                found = error.diag.constraint_name
            assert found == constraint


def test_maintenance_deletes_what_was_dispatched_and_nothing_else(
    world: World, subtests: pytest.Subtests, maintenance: Connection
) -> None:
    write_everywhere(world, world.firm_a)
    write_everywhere(world, world.firm_b)
    write_everywhere(world, world.firm_without_consent)
    for table in OUTBOXES:
        with subtests.test(table=table):
            world.god.execute(
                f"UPDATE {table} SET dispatched_at = now() WHERE firm_id = %s", [world.firm_a]
            )
            world.god.execute(
                f"UPDATE {table} SET parked_at = now() WHERE firm_id = %s", [world.firm_b]
            )
            assert maintenance.execute(f"DELETE FROM {table} RETURNING dispatched_at").rowcount == 1
            assert world.one(f"SELECT count(*) FROM {table}") == 2


def test_maintenance_deletes_no_pending_row_whatever_scope_it_sets(
    world: World, subtests: pytest.Subtests, maintenance: Connection
) -> None:
    write_everywhere(world, world.firm_a)
    maintenance.execute("SELECT set_config('app.firm_id', %s, false)", [str(world.firm_a)])
    maintenance.execute("SELECT set_config('app.role', 'firm_admin', false)")
    maintenance.execute("SELECT set_config('app.is_staff', 'true', false)")
    for table in OUTBOXES:
        with subtests.test(table=table):
            assert maintenance.execute(f"DELETE FROM {table}").rowcount == 0
            assert world.one(f"SELECT count(*) FROM {table}") == 1


def test_maintenance_reads_no_envelope_and_touches_nothing_else(
    maintenance: Connection, subtests: pytest.Subtests
) -> None:
    for statement in FORBIDDEN_TO_MAINTENANCE:
        with subtests.test(statement=statement):
            assert is_denied(maintenance, statement)
    assert not is_denied(maintenance, "SELECT id, dispatched_at FROM ops.domain_event_outbox")
