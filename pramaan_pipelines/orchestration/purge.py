"""Deleting from Dagster's own storage what nobody asks for any more.

Promises: only finished runs, each with its events; batches of a bounded size, oldest first, until
the time is up; the newest evaluation of a check stays, however old it is; the same on SQLite and
on Postgres.
Never: touches a run that is queued or under way, or a tick, which Dagster's own `retention` keeps.

Dagster 1.13.27 deletes a run with its events on demand, but has no retention for runs, and nothing
at all for events that belong to no run (they have the run id ""), nor for asset_check_executions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from dagster._core.instance import RUNLESS_RUN_ID
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
from sqlalchemy import Select, Table, func, select

from pramaan_pipelines.errors import SettingsError
from pramaan_pipelines.orchestration.keep import DEFAULT_BUDGET_SECONDS, Keep

BATCH: Final = 500
COUNTED: Final = 100_000

SUCCESSFUL: Final = [DagsterRunStatus.SUCCESS]
FAILED: Final = [DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]

EVENTS: Final = SqlEventLogStorageTable.c
CHECKS: Final = AssetCheckExecutionsTable.c


@dataclass
class Purged:
    """What a purge deleted, or in a dry run would delete.

    Attributes:
        successful: runs.
        failed: runs.
        observations: events that belong to no run.
        evaluations: rows of the checks' history.
        finished: False where the time ran out with something left.
    """

    successful: int = 0
    failed: int = 0
    observations: int = 0
    evaluations: int = 0
    finished: bool = True


def is_anything_due(instance: DagsterInstance, keep: Keep) -> bool:
    """Tell whether a purge would delete something."""
    return (
        any(instance.get_runs(old, limit=1) for old in _old_runs(keep).values())
        or bool(_old_events(instance, keep, 1))
        or bool(_old_evaluations(instance, keep, 1))
    )


def purge(
    instance: DagsterInstance,
    keep: Keep,
    *,
    dry_run: bool,
    budget_seconds: float = DEFAULT_BUDGET_SECONDS,
    batch: int = BATCH,
) -> Purged:
    """Delete what is older than `keep` says.

    Args:
        instance: whose storage.
        keep: for how long.
        dry_run: count, and delete nothing; rows without a run are counted to 100,000.
        budget_seconds: no batch starts after these.
        batch: runs, or rows, of one step.
    """
    purged, runs = Purged(), _old_runs(keep)
    if dry_run:
        purged.successful, purged.failed = (instance.get_runs_count(old) for old in runs.values())
        purged.observations = len(_old_events(instance, keep, COUNTED))
        purged.evaluations = len(_old_evaluations(instance, keep, COUNTED))
        return purged
    steps: dict[str, Callable[[], int]] = {
        **{name: partial(_delete_runs, instance, old, batch) for name, old in runs.items()},
        "observations": partial(_delete_events, instance, keep, batch),
        "evaluations": partial(_delete_evaluations, instance, keep, batch),
    }
    deadline = monotonic() + budget_seconds
    for name, step in steps.items():
        deleted = batch
        while deleted >= batch:
            if monotonic() >= deadline:
                purged.finished = False
                return purged
            deleted = step()
            setattr(purged, name, getattr(purged, name) + deleted)
    return purged


def _old_runs(keep: Keep) -> dict[str, RunsFilter]:
    return {
        "successful": RunsFilter(statuses=SUCCESSFUL, updated_before=_before(keep.successful)),
        "failed": RunsFilter(statuses=FAILED, updated_before=_before(keep.failed)),
    }


def _delete_runs(instance: DagsterInstance, old: RunsFilter, batch: int) -> int:
    runs = instance.get_runs(old, limit=batch, ascending=True)
    for run in runs:
        instance.delete_run(run.run_id)
        storage = instance.event_log_storage
        if isinstance(storage, SqliteEventLogStorage):
            # It keeps a file for each run, and leaves it there, empty.
            shard = storage.path_for_shard(run.run_id)
            storage._initialized_dbs.discard(run.run_id)  # noqa: SLF001 - or it trusts a file that is gone
            for suffix in ("", "-wal", "-shm"):
                Path(f"{shard}{suffix}").unlink(missing_ok=True)
    return len(runs)


def _old_events(instance: DagsterInstance, keep: Keep, limit: int) -> list[int]:
    with _storage(instance).index_connection() as connection:
        return list(connection.scalars(_events_before(keep).limit(limit)))


def _events_before(keep: Keep) -> Select[tuple[int]]:
    # Reads the index on (run_id, id): an event that belongs to no run has an empty one.
    return (
        select(EVENTS.id)
        .where(EVENTS.run_id == RUNLESS_RUN_ID, EVENTS.timestamp < _naive(keep.observations))
        .order_by(EVENTS.id)
    )


def _delete_events(instance: DagsterInstance, keep: Keep, batch: int) -> int:
    storage = _storage(instance)
    if isinstance(storage, SqliteEventLogStorage):
        # It keeps a second copy, under numbers of its own, in the file of the run without a name.
        with storage.run_connection(RUNLESS_RUN_ID) as connection:
            _delete(connection, SqlEventLogStorageTable, _events_before(keep).limit(batch))
    with storage.index_connection() as connection:
        ids = list(connection.scalars(_events_before(keep).limit(batch)))
        connection.execute(
            AssetEventTagsTable.delete().where(AssetEventTagsTable.c.event_id.in_(ids))
        )
        return _delete(connection, SqlEventLogStorageTable, ids)


def _evaluations_before(keep: Keep) -> Select[tuple[int]]:
    newest = select(func.max(CHECKS.id)).group_by(CHECKS.asset_key, CHECKS.check_name)
    return (
        select(CHECKS.id)
        .where(CHECKS.create_timestamp < _naive(keep.observations), CHECKS.id.not_in(newest))
        .order_by(CHECKS.id)
    )


def _old_evaluations(instance: DagsterInstance, keep: Keep, limit: int) -> list[int]:
    with _storage(instance).index_connection() as connection:
        return list(connection.scalars(_evaluations_before(keep).limit(limit)))


def _delete_evaluations(instance: DagsterInstance, keep: Keep, batch: int) -> int:
    with _storage(instance).index_connection() as connection:
        return _delete(
            connection, AssetCheckExecutionsTable, _evaluations_before(keep).limit(batch)
        )


def _delete(connection: Any, table: Table, which: Select[tuple[int]] | list[int]) -> int:
    deleted: int = connection.execute(table.delete().where(table.c.id.in_(which))).rowcount
    return deleted


def _storage(instance: DagsterInstance) -> SqlEventLogStorage:
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        raise SettingsError(
            f"the event log is kept by {type(storage).__name__}, which is no SQL storage: nothing "
            "was purged. Keep it on SQLite or Postgres (dagster.yaml), or stop the schedule."
        )
    return storage


def _before(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def _naive(days: int) -> datetime:
    # Dagster keeps times in UTC without saying so.
    return _before(days).replace(tzinfo=None)
