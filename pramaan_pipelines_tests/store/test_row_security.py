"""EB-06: what a firm, a user of a firm and the staff worker see of each other."""
# ruff: noqa: S608 - statements made of constants

from contextlib import nullcontext
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from pramaan_pipelines.store.database import Database, enter_firm
from pramaan_pipelines_tests.store.test_schema_contract import FOUR, JOBS, RUNS, write_everywhere
from pramaan_pipelines_tests.support.world import World

HOST = ("firms", "matters", "documents", "firm_inference_egress_consents", "matter_assignments")
STAFF_WORKS_ON = (
    "ops.document_ingest_outbox",
    "ops.domain_event_outbox",
    "ops.matter_frame_jobs",
)
UPDATES = {
    **dict.fromkeys(STAFF_WORKS_ON[:2], "last_dispatch_error = 'seen'"),
    JOBS: "rebuild_needed = true",
    RUNS: "status = 'failed'",
    "firms": "name = 'seen'",
    "matters": "title = 'seen'",
    "documents": "registration_status = 'failed'",
    "firm_inference_egress_consents": "granted = false",
    "matter_assignments": "user_id = gen_random_uuid()",
}
INSERTS = {
    "ops.document_ingest_outbox": "(firm_id, document_id, event_type) "
    "VALUES (:firm, gen_random_uuid(), 'document.ingest.requested')",
    "ops.domain_event_outbox": "(event_id, firm_id, event_type, envelope) "
    "VALUES (gen_random_uuid(), :firm, 'matter.created', '{}')",
    JOBS: "(firm_id, matter_id) VALUES (:firm, gen_random_uuid())",
    RUNS: "(firm_id, matter_id, agent_key, status) "
    "VALUES (:firm, gen_random_uuid(), 'vega_matter_frame', 'running')",
    "firms": "(id, name) VALUES (:firm, 'forged')",
    "matters": "(firm_id, title) VALUES (:firm, 'forged')",
    "documents": "(firm_id) VALUES (:firm)",
    "firm_inference_egress_consents": "(firm_id, granted) VALUES (:firm, true)",
    "matter_assignments": "(firm_id, matter_id, user_id) "
    "VALUES (:firm, gen_random_uuid(), gen_random_uuid())",
}
FIRM_COLUMN = {"firms": "id"}


@pytest.fixture
def full(world: World) -> World:
    """Two firms with a row in every table."""
    for firm in (world.firm_a, world.firm_b):
        matter = write_everywhere(world, firm)
        world.document(firm)
        world.god.execute(
            "INSERT INTO matter_assignments VALUES (%s, %s, %s)", [firm, matter, uuid4()]
        )
    return world


def firms_seen(connection: Connection, table: str) -> set[UUID]:
    column = FIRM_COLUMN.get(table, "firm_id")
    return set(connection.scalars(text(f"SELECT DISTINCT {column} FROM {table}")))


def refuses_insert(connection: Connection, table: str, firm: UUID) -> bool:
    try:
        with connection.begin_nested():
            connection.execute(text(f"INSERT INTO {table} {INSERTS[table]}"), {"firm": firm})
    except ProgrammingError as error:
        return "row-level security" in str(error.orig) or "no firm is set" in str(error.orig)
    return False


def test_eb06_a_firm_sees_its_own_rows_and_nothing_of_another(
    full: World, subtests: pytest.Subtests
) -> None:
    for table in (*FOUR, *HOST):
        with subtests.test(table=table):
            with full.database.firm(full.firm_a) as connection:
                assert firms_seen(connection, table) == {full.firm_a}
            with full.database.firm(uuid4()) as connection:
                assert firms_seen(connection, table) == set()


def test_eb06_a_firm_changes_nothing_of_another(full: World, subtests: pytest.Subtests) -> None:
    for table in (*FOUR, *HOST):
        with subtests.test(table=table):
            column = FIRM_COLUMN.get(table, "firm_id")
            state = f"SELECT to_jsonb(t) FROM {table} t WHERE {column} = %s"
            before = full.rows(state, full.firm_a)
            assert before
            with full.database.firm(full.firm_b) as connection:
                changed = connection.execute(text(f"UPDATE {table} SET {UPDATES[table]}"))
                # A firm does not mark its own events as sent.
                assert changed.rowcount == (0 if table in STAFF_WORKS_ON[:2] else 1)
            assert full.rows(state, full.firm_a) == before


def test_eb06_a_firm_inserts_nothing_under_another(full: World, subtests: pytest.Subtests) -> None:
    for table in (*FOUR, *HOST):
        with subtests.test(table=table):
            with full.database.firm(full.firm_b) as connection:
                assert refuses_insert(
                    connection, table, uuid4() if table == "firms" else full.firm_a
                )
            with full.database.firm(new := uuid4()) as connection:
                assert not refuses_insert(connection, table, new)


def test_eb06_a_row_cannot_be_given_away_to_another_firm(
    full: World, subtests: pytest.Subtests
) -> None:
    for table in ("matters", "documents", "matter_assignments"):
        with (
            subtests.test(table=table),
            pytest.raises(ProgrammingError, match="permission denied"),
            full.database.firm(full.firm_b) as connection,
        ):
            connection.execute(text(f"UPDATE {table} SET firm_id = :firm"), {"firm": full.firm_a})


def test_staff_reads_and_updates_the_outboxes_and_the_jobs_of_every_firm(
    full: World, subtests: pytest.Subtests
) -> None:
    for table in STAFF_WORKS_ON:
        with subtests.test(table=table), full.database.staff() as connection:
            assert firms_seen(connection, table) == {full.firm_a, full.firm_b}
            assert connection.execute(text(f"UPDATE {table} SET {UPDATES[table]}")).rowcount == 2


def test_staff_inserts_nothing_anywhere(full: World, subtests: pytest.Subtests) -> None:
    for table in (*FOUR, *HOST):
        with subtests.test(table=table), full.database.staff() as connection:
            assert refuses_insert(connection, table, full.firm_a)


def test_staff_that_looks_at_runs_matters_and_the_other_tables_meets_an_error(
    full: World, subtests: pytest.Subtests
) -> None:
    """Not an empty table, which would look like nothing to do."""
    for table in (RUNS, *HOST):
        for statement in (f"SELECT 1 FROM {table}", f"UPDATE {table} SET {UPDATES[table]}"):
            with (
                subtests.test(statement=statement),
                pytest.raises(ProgrammingError, match="no firm is set"),
                full.database.staff() as connection,
            ):
                connection.execute(text(statement))


def test_a_staff_transaction_that_enters_a_firm_is_staff_no_more(full: World) -> None:
    """H6: the sweep changes an agent run under that row's own firm, never as staff."""
    with full.database.staff() as connection:
        enter_firm(connection, full.firm_a)
        for table in FOUR:
            assert firms_seen(connection, table) == {full.firm_a}


def test_a_user_sees_the_matters_it_is_assigned_and_a_firm_admin_sees_the_firm(
    world: World,
) -> None:
    user, mine, other = uuid4(), world.matter(world.firm_a), world.matter(world.firm_a)
    with world.database.firm(world.firm_a) as connection:
        connection.execute(
            text("INSERT INTO matter_assignments VALUES (:firm, :matter, :user)"),
            {"firm": world.firm_a, "matter": mine, "user": user},
        )
        assert set(connection.scalars(text("SELECT id FROM matters"))) == {mine, other}
    with world.database.firm(world.firm_a, user_id=user, role="lawyer") as connection:
        assert set(connection.scalars(text("SELECT id FROM matters"))) == {mine}
        changed = connection.execute(text("UPDATE matters SET title = 'changed'"))
        assert changed.rowcount == 1
    with world.database.firm(world.firm_a, user_id=uuid4(), role="lawyer") as connection:
        assert list(connection.scalars(text("SELECT id FROM matters"))) == []
    with world.database.firm(world.firm_a, role="lawyer") as connection:
        assert list(connection.scalars(text("SELECT id FROM matters"))) == []


def test_a_user_cannot_assign_a_matter_to_itself(world: World) -> None:
    user, matter = uuid4(), world.matter(world.firm_a)
    with (
        pytest.raises(ProgrammingError, match="row-level security"),
        world.database.firm(world.firm_a, user_id=user, role="lawyer") as connection,
    ):
        connection.execute(
            text("INSERT INTO matter_assignments VALUES (:firm, :matter, :user)"),
            {"firm": world.firm_a, "matter": matter, "user": user},
        )


def test_a_user_sees_its_own_runs_and_a_firm_admin_sees_the_firms(world: World) -> None:
    user, other = uuid4(), uuid4()
    for owner in (user, other, None):
        world.god.execute(
            f"INSERT INTO {RUNS} (firm_id, matter_id, agent_key, status, user_id) "
            "VALUES (%s, %s, 'vega_matter_frame', 'running', %s)",
            [world.firm_a, uuid4(), owner],
        )
    runs = text(f"SELECT user_id FROM {RUNS}")
    with world.database.firm(world.firm_a) as connection:
        assert set(connection.scalars(runs)) == {user, other, None}
    with world.database.firm(world.firm_a, user_id=user, role="lawyer") as connection:
        assert set(connection.scalars(runs)) == {user}
        changed = connection.execute(text(f"UPDATE {RUNS} SET status = 'failed'"))
        assert changed.rowcount == 1
    with world.database.firm(world.firm_a, role="lawyer") as connection:
        assert list(connection.scalars(runs)) == []


@pytest.mark.parametrize("scope", ["firm", "staff"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_tenant_setting_is_gone_with_its_transaction_also_after_an_error(
    full: World,
    app_url: SecretStr,
    scope: str,
    fails: bool,  # noqa: FBT001
) -> None:
    database = Database.connect(app_url, pool_size=1)
    opened = database.firm(full.firm_a) if scope == "firm" else database.staff()
    ends_badly = pytest.raises(ProgrammingError) if fails else nullcontext()
    with ends_badly, opened as connection:
        inside = connection.scalar(text("SELECT pg_backend_pid()"))
        assert firms_seen(connection, JOBS)
        if fails:
            connection.execute(text("SELECT a_column_that_is_not"))
    with database._engine.begin() as plain:
        assert plain.scalar(text("SELECT pg_backend_pid()")) == inside
        for table in (*FOUR, *HOST):
            with pytest.raises(ProgrammingError, match="no firm is set"), plain.begin_nested():
                firms_seen(plain, table)
        for name in ("app.firm_id", "app.user_id", "app.role", "app.is_staff"):
            assert plain.scalar(text("SELECT current_setting(:n, true)"), {"n": name}) == ""
    database.close()
