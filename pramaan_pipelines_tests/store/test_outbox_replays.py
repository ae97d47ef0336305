"""`ops.outbox_replays` is the staff worker's alone: no firm sees it, and nobody deletes from it."""

from uuid import uuid4

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, ProgrammingError

from pramaan_pipelines.store.database import Database
from pramaan_pipelines.store.tables import outbox_replays
from pramaan_pipelines_tests.support.world import World

INSERT = text(
    "INSERT INTO ops.outbox_replays (lane, day, also_sent) VALUES ('a_lane', '2026-03-08', false)"
)
COUNT = text("SELECT count(*) FROM ops.outbox_replays")
UPDATE = text("UPDATE ops.outbox_replays SET updated_at = now()")
NAMED = {"id", "lane", "day", "also_sent", "started_at"}


def denied(connection: Connection, statement: str) -> str | None:
    """Return what refuses the statement; None where it passes."""
    try:
        with connection.begin_nested():
            connection.execute(text(statement))
    except ProgrammingError as error:
        return str(error.orig).splitlines()[0]
    return None


def test_the_staff_worker_begins_a_replay_and_moves_it_on(database: Database) -> None:
    with database.staff() as connection:
        connection.execute(INSERT)
    with database.staff() as connection:
        assert connection.scalar(COUNT) == 1
        assert connection.execute(UPDATE).rowcount == 1
        refused = {
            column.name
            for column in outbox_replays.columns
            if denied(connection, f"UPDATE ops.outbox_replays SET {column.name} = {column.name}")  # noqa: S608
        }
        assert refused == NAMED, "what a replay is about is written once"
        assert "permission denied" in str(denied(connection, "DELETE FROM ops.outbox_replays"))
        assert "permission denied" in str(denied(connection, "TRUNCATE ops.outbox_replays"))


def test_no_firm_sees_changes_or_begins_a_replay(database: Database, world: World) -> None:
    with database.staff() as connection:
        connection.execute(INSERT)
    for firm in (world.firm_a, uuid4()):
        with database.firm(firm) as connection:
            assert connection.scalar(COUNT) == 0
            assert connection.execute(UPDATE).rowcount == 0
            assert "row-level security" in str(denied(connection, INSERT.text))
    assert world.rows(
        "SELECT relrowsecurity, relforcerowsecurity FROM pg_class "
        "WHERE oid = 'ops.outbox_replays'::regclass"
    ) == [(True, True)]


def test_one_replay_of_a_lane_day_and_switch_is_open_at_a_time(world: World) -> None:
    world.god.execute(INSERT.text)
    with pytest.raises(Exception, match="outbox_replays_open_key"):
        world.god.execute(INSERT.text)
    world.god.execute("UPDATE ops.outbox_replays SET status = 'finished'")
    world.god.execute(INSERT.text)


def test_the_statuses_are_a_closed_set_and_a_place_is_whole(database: Database) -> None:
    with database.staff() as connection:
        connection.execute(INSERT)
    for wrong in ("status = 'running'", "passed_id = 1", "passed_at = now()"):
        update = text(f"UPDATE ops.outbox_replays SET {wrong}")  # noqa: S608
        with pytest.raises(IntegrityError), database.staff() as connection:
            connection.execute(update)
