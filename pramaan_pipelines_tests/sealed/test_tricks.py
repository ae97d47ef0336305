"""The ways around row level security, each tried; and each right, column by column."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors, sql

from pramaan_pipelines_tests.sealed.attack import SESSIONS, Connection, Scene, session
from pramaan_pipelines_tests.sealed.columns import ALL, INSERTED, UPDATED
from pramaan_pipelines_tests.sealed.tricks import OF_A, TRICKS, attempt
from pramaan_pipelines_tests.support.world import World

SECRET = "Privileged: the merger"
SAME = 20
"""Matters of one title, so that the planner remembers it."""
FIRM_B = SESSIONS["firm B"].variants[0]


@pytest.fixture
def secret(scene: Scene, world: World) -> Iterator[str]:
    """What firm A's matters say, also to the planner; and a session of firm A that wrote it."""
    for _ in range(SAME):
        world.god.execute(
            "INSERT INTO matters (firm_id, title) VALUES (%s, %s)", [scene.firm_a, SECRET]
        )
    world.god.execute("ANALYZE matters")
    with psycopg.connect(scene.url, application_name="firm A at work", autocommit=True) as at_work:
        at_work.execute("SELECT set_config('app.firm_id', %s, false)", [str(scene.firm_a)])
        at_work.execute("SELECT set_config('app.role', 'firm_admin', false)")
        at_work.execute("UPDATE matters SET title = %s WHERE firm_id = %s", [SECRET, scene.firm_a])
        yield SECRET


def test_each_trick_comes_to_what_the_page_says(scene: Scene, secret: str) -> None:
    with session(scene, FIRM_B) as connection:
        found = {t.title: attempt(connection, scene, secret, t.statements) for t in TRICKS}
    assert found == {trick.title: trick.comes_to for trick in TRICKS}
    assert len(found) == len(TRICKS), "two tricks of one title"


def test_a_trick_that_reads_would_read_firm_a_where_nothing_were_in_the_way(
    scene: Scene, secret: str, world: World
) -> None:
    """So that "nothing of A" means that something stood in the way."""
    reading = [t for t in TRICKS if t.reads and "sessions" not in t.title]
    assert reading
    found = {t.title: attempt(world.god, scene, secret, t.statements) for t in reading}
    seen = {title for title, cell in found.items() if cell == OF_A}
    assert seen == {t.title for t in reading}


@pytest.mark.parametrize("name", ["firm B", "staff"])
def test_each_column_may_be_written_or_not_as_the_page_says(
    scene: Scene, world: World, name: str
) -> None:
    """Staff is the same role: whose rows it may update is the matrix's to say."""
    columns = world.rows(
        "SELECT table_schema || '.' || table_name, column_name FROM information_schema.columns "
        "WHERE table_schema IN ('ops', 'agents', 'public') AND table_name NOT LIKE 'seen%%' "
        "ORDER BY 1, 2"
    )
    assert {table for table, _ in columns} == set(UPDATED) == set(INSERTED)
    wrong = []
    with session(scene, SESSIONS[name].variants[0]) as connection:
        for table, column in columns:
            inserted = INSERTED[table]
            for statement, allowed in (
                ("UPDATE {t} SET {c} = {c} WHERE false", column in UPDATED[table]),
                (
                    "INSERT INTO {t} ({c}) SELECT {c} FROM {t} WHERE false",
                    inserted == ALL or column in inserted,
                ),
            ):
                query = sql.SQL(statement).format(t=sql.SQL(table), c=sql.Identifier(column))
                if _is_denied(connection, query) is allowed:
                    wrong.append((table, column, statement.split()[0], allowed))
    assert wrong == []


def _is_denied(connection: Connection, query: sql.Composed) -> bool:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(query)
    except (errors.InsufficientPrivilege, errors.GeneratedAlways):
        return True
    return False


def test_an_estimate_of_the_planner_does_not_confirm_a_guess(scene: Scene, secret: str) -> None:
    """EXPLAIN is open to all; what was sampled of a column with content would answer guesses."""

    def estimate(guess: str) -> object:
        (plan,) = connection.execute(
            "EXPLAIN (FORMAT JSON) SELECT 1 FROM matters WHERE title = %s", [guess]
        ).fetchall()
        return plan[0][0]["Plan"]["Plan Rows"]

    with session(scene, FIRM_B) as connection:
        assert estimate(secret) == estimate("another")


def test_what_a_session_is_told_anyway_is_how_many_and_never_what(
    scene: Scene, secret: str
) -> None:
    """The page names these: all firms' rows together, and those that a filter took away."""
    with session(scene, FIRM_B) as connection:
        plan = connection.execute("EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM matters").fetchall()
        (size,) = connection.execute(
            "SELECT reltuples FROM pg_class WHERE oid = 'matters'::regclass"
        ).fetchall()
    text = str(plan)
    assert f"Rows Removed by Filter: {SAME + 1}" in text
    assert secret not in text
    assert str(scene.firm_a) not in text
    assert size == (SAME + 3,)
