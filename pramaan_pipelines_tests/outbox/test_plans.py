"""EXPLAIN guards: what is asked every minute costs nothing for the rows already sent."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from pramaan_pipelines.outbox.backlog import ANY_DUE, OLDEST, PARKED, PENDING, STUCK, UNCLAIMED
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.outbox.redrive import REDRIVEN, SELECTED, SHOW
from pramaan_pipelines.outbox.replay_selection import UNSENT_DUE, UNSENT_ONCE, before_day
from pramaan_pipelines.outbox.selection import BATCH, COLUMNS, SELECT_PENDING
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.world import World

SENT = 20_000
BACKLOG = 8_000
TODAY = datetime.now(UTC).date


@pytest.fixture
def grown(world: World, lane: Lane) -> Lane:
    """The lane with 20,000 rows sent and 50 pending."""
    put(world, lane, SENT)
    table = lane.outbox.table
    world.god.execute(f"UPDATE {table} SET dispatched_at = now()")  # noqa: S608
    put(world, lane, 50)
    world.god.execute(f"VACUUM ANALYZE {table}")
    return lane


@pytest.fixture(params=["of an empty table", "of a backlog", "of parked rows", "of no time"])
def misled(world: World, lane: Lane, request: pytest.FixtureRequest) -> Lane:
    """The same, with statistics of a time when nothing of it had been sent.

    So they stand while a long outage's backlog is drained, and until the next ANALYZE comes.
    """
    table = lane.outbox.table
    world.god.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    if request.param == "of an empty table":
        world.god.execute(f"ANALYZE {table}")
    put(world, lane, BACKLOG)
    if request.param == "of parked rows":
        world.god.execute(f"UPDATE {table} SET parked_at = now()")  # noqa: S608
    if request.param in {"of a backlog", "of parked rows"}:
        world.god.execute(f"ANALYZE {table}")
    world.god.execute(f"UPDATE {table} SET dispatched_at = now(), parked_at = NULL")  # noqa: S608
    # So that what is read is what the plan chose, and not what no vacuum has taken away yet.
    world.god.execute(f"VACUUM {table}")
    put(world, lane, 50)
    return lane


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the plan's nodes, outermost first."""
    return [plan, *(node for child in plan.get("Plans", ()) for node in nodes(child))]


def test_the_drain_and_the_backlog_read_partial_indexes_and_never_the_rows_already_sent(
    grown: Lane, database: Database
) -> None:
    assert indexes_read(BATCH.format(rows=SELECT_PENDING, order="id"), grown, database) == {
        "pending_idx"
    }
    assert indexes_read(ANY_DUE, grown, database) == {"pending_idx"}
    assert indexes_read(PENDING, grown, database) == {"pending_idx"}
    assert indexes_read(OLDEST, grown, database) == {"pending_idx"}
    assert indexes_read(PARKED, grown, database) == {"parked_idx"}
    assert indexes_read(STUCK, grown, database) == {"parked_idx"}
    assert indexes_read(UNCLAIMED, grown, database) == {"pending_idx"}


def test_no_statistics_lead_a_drain_a_replay_or_a_redrive_over_the_rows_already_sent(
    misled: Lane, database: Database
) -> None:
    keys = SELECT_PENDING.replace("{columns}", "created_at, id")
    for live in (BATCH.format(rows=SELECT_PENDING, order="id"), keys, ANY_DUE):
        assert indexes_read(live, misled, database) == {"pending_idx"}
    for query in (UNSENT_ONCE, UNSENT_DUE):
        replay = BATCH.format(rows=query, order="created_at, id")
        assert indexes_read(replay, misled, database) == {"pending_day_idx"}
    for redrive in (SHOW, REDRIVEN):
        query = redrive.replace("{selected}", SELECTED)
        assert indexes_read(query, misled, database) == {"parked_idx"}


def indexes_read(query: str, lane: Lane, database: Database) -> set[str]:
    """Run `query` as staff; return the indexes it read, having checked that it read no more."""
    table = lane.outbox.table
    parameters = {
        "event_type": lane.event_type,
        "only": None,
        "max_rows": 500,
        "max_bytes": 8 << 20,
        "max_message": 256 << 10,
        "known": [str(lane.event_type)],
        "kinds": 10,
        "limit": 1000,
        "rows": 500,
        "since": None,
        "until": None,
        "reason": None,
        "day": TODAY(),
        "passed_at": before_day(TODAY())[0],
        "passed_id": before_day(TODAY())[1],
    }
    filled = query.format(table=table, columns=COLUMNS.format(body=lane.outbox.body))
    statement = text("EXPLAIN (ANALYZE, FORMAT JSON) " + filled)
    wanted = statement.compile().params.keys()
    with database.staff() as connection:
        plan = connection.scalar(statement, {name: parameters[name] for name in wanted})
    found = nodes(plan[0]["Plan"])
    assert not [node for node in found if node["Node Type"] == "Seq Scan"]
    assert sum(node.get("Rows Removed by Filter", 0) for node in found) <= 50
    prefix = table.split(".")[1] + "_"
    return {n["Index Name"].removeprefix(prefix) for n in found if "Index Name" in n}
