"""Pruning what was dispatched long ago, so that an outbox does not grow for ever.

Promises: small batches, each in a transaction of its own, oldest first, under the maintenance role,
whose policies let it see and delete dispatched rows and nothing else.
Never: deletes a pending or a parked row, however old.
"""

from dataclasses import dataclass
from time import monotonic
from typing import Final

from pydantic import SecretStr
from sqlalchemy import text

from pramaan_pipelines.errors import SettingsError
from pramaan_pipelines.outbox.lanes import OUTBOXES
from pramaan_pipelines.store.database import make_engine, transaction
from pramaan_pipelines.store.roles import MAINTENANCE_ROLE

BATCH_ROWS: Final = 2000
DEFAULT_AGE_DAYS: Final = 30
LONGEST_AGE_DAYS: Final = 36_500
"""A typing error beyond it is told as one, not by what Postgres cannot compute."""
DEFAULT_BUDGET_SECONDS: Final = 120.0

# With any other role, row level security would show no row, or the wrong ones, and all would look
# pruned. A superuser is a member of every role, and is not bound by any policy.
ROLE: Final = text("""
    SELECT pg_has_role(rolname, :role, 'USAGE') AND NOT (rolsuper OR rolbypassrls)
    FROM pg_roles WHERE rolname = current_user
""")

# Reads {table}_dispatched_idx (dispatched_at) WHERE dispatched_at IS NOT NULL.
COUNT: Final = """
    SELECT count(*) FROM {table}
    WHERE dispatched_at < now() - make_interval(days => :days)
"""
# An array is looked up by the primary key; IN would let the planner join with the whole table.
PRUNE: Final = """
    DELETE FROM {table} WHERE id = ANY (ARRAY(
        SELECT id FROM {table}
        WHERE dispatched_at < now() - make_interval(days => :days)
        ORDER BY dispatched_at LIMIT :rows))
"""


@dataclass(frozen=True)
class PruneResult:
    """What a pruning came to, or would come to, by table.

    Attributes:
        rows: rows deleted, or in a dry run those that would be.
        finished: False where the time ran out with rows left.
    """

    rows: dict[str, int]
    finished: bool


def prune_dispatched(
    url: SecretStr,
    *,
    older_than_days: int,
    dry_run: bool,
    budget_seconds: float = DEFAULT_BUDGET_SECONDS,
    batch_rows: int = BATCH_ROWS,
) -> PruneResult:
    """Delete the rows that were dispatched more than `older_than_days` days ago.

    Args:
        url: of the maintenance role (MAINTENANCE_DATABASE_URL).
        older_than_days: at least 1, on the database's clock.
        dry_run: count, and delete nothing.
        budget_seconds: after these, each table gets the one batch that it is sure of.
        batch_rows: rows of one transaction.

    Raises:
        ValueError: `older_than_days` is under 1.
        SettingsError: the URL's role is not the maintenance role.
        DatabaseUnavailableError: no connection is to be had.
    """
    if older_than_days < 1:
        raise ValueError("rows are kept for a day at least: give older_than_days of 1 or more")
    engine, rows, finished = make_engine(url, pool_size=1), {}, True
    deadline = monotonic() + budget_seconds
    try:
        with transaction(engine) as connection:
            if not connection.scalar(ROLE, {"role": MAINTENANCE_ROLE}):
                raise SettingsError(
                    f"MAINTENANCE_DATABASE_URL's role is not {MAINTENANCE_ROLE}: nothing was "
                    "pruned. Give it that role's URL, and no superuser's."
                )
        for outbox in OUTBOXES:
            total = 0
            while True:
                with transaction(engine) as connection:
                    if dry_run:
                        query = text(COUNT.format(table=outbox.table))
                        total = connection.scalar(query, {"days": older_than_days}) or 0
                        break
                    deleted = connection.execute(
                        text(PRUNE.format(table=outbox.table)),
                        {"days": older_than_days, "rows": batch_rows},
                    ).rowcount
                total += deleted
                if deleted < batch_rows:
                    break
                if monotonic() >= deadline:
                    finished = False
                    break
            rows[outbox.table] = total
    finally:
        engine.dispose()
    return PruneResult(rows, finished)
