"""EXPLAIN guards: what is asked every minute costs nothing for the rows already sent."""

from typing import Any

import pytest
from sqlalchemy import text

from pramaan_pipelines.outbox.backlog import ANY_DUE, OLDEST, PARKED, PENDING, STUCK, UNCLAIMED
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.outbox.selection import BATCH, COLUMNS, SELECT_PENDING
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.world import World

SENT = 20_000


@pytest.fixture
def grown(world: World, lane: Lane) -> Lane:
    """The lane with 20,000 rows sent and 50 pending."""
    put(world, lane, SENT)
    table = lane.outbox.table
    world.god.execute(f"UPDATE {table} SET dispatched_at = now()")  # noqa: S608
    put(world, lane, 50)
    world.god.execute(f"VACUUM ANALYZE {table}")
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
