"""The purge of Dagster's own storage, on SQLite and on Postgres."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterInstance,
    DagsterRunStatus,
    OpExecutionContext,
    RunsFilter,
    ScheduleDefinition,
    build_schedule_context,
    job,
    op,
)
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable as Events
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
from dagster._core.storage.runs.schema import RunTagsTable
from dagster._core.storage.runs.sql_run_storage import SqlRunStorage
from dagster._core.test_utils import create_run_for_test
from sqlalchemy import func, select, text

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.errors import SettingsError
from pramaan_pipelines.orchestration import purge as purge_module
from pramaan_pipelines.orchestration.keep import Keep
from pramaan_pipelines.orchestration.names import DO_IT
from pramaan_pipelines.orchestration.purge import (
    FAILED,
    SUCCESSFUL,
    Purged,
    is_anything_due,
    purge,
)
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines_tests.operations.bench import press

KEEP = Keep(successful=7, failed=30, observations=30)
FINISHED = [*SUCCESSFUL, *FAILED]
ASSET = AssetKey(["outbox", "some_outbox"])


@op
def tell(context: OpExecutionContext) -> None:
    context.log_event(AssetMaterialization(ASSET, tags={"a": "b"}))


@op
def fall() -> None:
    raise ValueError("on purpose")


@job(tags={"pramaan/event_id": "x"})
def good() -> None:
    tell()


@job
def bad() -> None:
    fall()


def run(instance: DagsterInstance, *, success: bool, days_ago: float) -> str:
    """Run a job, and let it have ended so long ago."""
    made = (good if success else bad).execute_in_process(instance=instance, raise_on_error=False)
    age(instance, made.run_id, days_ago)
    return made.run_id


def age(instance: DagsterInstance, run_id: str, days_ago: float) -> None:
    storage: Any = instance.run_storage
    assert isinstance(storage, SqlRunStorage)
    then = (datetime.now(UTC) - timedelta(days=days_ago)).replace(tzinfo=None)
    with storage.connect() as connection:
        connection.execute(
            text("UPDATE runs SET update_timestamp = :then WHERE run_id = :run_id"),
            {"then": then, "run_id": run_id},
        )


def left(instance: DagsterInstance) -> set[str]:
    return {run.run_id for run in instance.get_runs()}


def count(instance: DagsterInstance, table: Any, *where: Any) -> int:
    storage: Any = instance.event_log_storage
    with storage.index_connection() as connection:
        return int(connection.scalar(select(func.count()).select_from(table).where(*where)))


def report(instance: DagsterInstance, days_ago: float) -> None:
    """Report, without a run, an observation and two evaluations; they happened so long ago."""
    before = count(instance, Events)
    instance.report_runless_asset_event(AssetObservation(ASSET, metadata={"depth": 1}))
    for check in ("a", "b"):
        instance.report_runless_asset_event(AssetCheckEvaluation(ASSET, check, passed=True))
    assert count(instance, Events) == before + 3
    then = {"then": (datetime.now(UTC) - timedelta(days=days_ago)).replace(tzinfo=None)}
    storage: Any = instance.event_log_storage
    connections = [storage.index_connection()]
    if isinstance(storage, SqliteEventLogStorage):
        connections.append(storage.run_connection(""))
    for number, opened in enumerate(connections):
        with opened as connection:
            connection.execute(
                text(
                    "UPDATE event_logs SET timestamp = :then WHERE id IN (SELECT id FROM "
                    "event_logs WHERE run_id = '' ORDER BY id DESC LIMIT 3)"
                ),
                then,
            )
            if number == 0:
                connection.execute(
                    text(
                        "UPDATE asset_check_executions SET create_timestamp = :then WHERE id IN "
                        "(SELECT id FROM asset_check_executions ORDER BY id DESC LIMIT 2)"
                    ),
                    then,
                )


def shards(instance: DagsterInstance, *run_ids: str) -> list[Path]:
    """The files of these runs, of which SQLite keeps one each."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqliteEventLogStorage):
        return []
    folder = Path(storage.path_for_shard("x")).parent
    return [path for run_id in run_ids for path in folder.glob(f"{run_id}.db*")]


def test_old_runs_go_with_their_events_successes_sooner_than_failures(
    stored: DagsterInstance,
) -> None:
    young, old = (run(stored, success=True, days_ago=days) for days in (6, 8))
    young_failure, old_failure = (run(stored, success=False, days_ago=days) for days in (8, 31))
    dry = purge(stored, KEEP, dry_run=True)
    assert (dry.successful, dry.failed) == (1, 1)
    on_disk = isinstance(stored.event_log_storage, SqliteEventLogStorage)
    assert bool(shards(stored, old)) == on_disk
    assert left(stored) == {young, old, young_failure, old_failure}
    assert is_anything_due(stored, KEEP)
    assert purge(stored, KEEP, dry_run=False) == Purged(successful=1, failed=1)
    assert left(stored) == {young, young_failure}
    assert not is_anything_due(stored, KEEP)
    assert shards(stored, old, old_failure) == []
    for gone in (old, old_failure):
        assert stored.all_logs(gone) == []
        assert count(stored, Events, Events.c.run_id == gone) == 0
    assert len(stored.all_logs(young)) > 5
    storage: Any = stored.run_storage
    with storage.connect() as connection:
        tagged = connection.scalars(select(RunTagsTable.c.run_id).distinct()).all()
    assert set(tagged) <= {young, young_failure}


def test_a_run_that_is_not_finished_stays_however_old(stored: DagsterInstance) -> None:
    unfinished = [status for status in DagsterRunStatus if status not in FINISHED]
    assert len(unfinished) == len(DagsterRunStatus) - 3
    for status in unfinished:
        # A queued run would have to be launchable; for the purge it is one of NOT_STARTED.
        made = create_run_for_test(stored, status=DagsterRunStatus.NOT_STARTED)
        storage: Any = stored.run_storage
        with storage.connect() as connection:
            connection.execute(
                text("UPDATE runs SET status = :status WHERE run_id = :run_id"),
                {"status": status.value, "run_id": made.run_id},
            )
        age(stored, made.run_id, 400)
    assert purge(stored, KEEP, dry_run=False) == Purged()
    assert stored.get_runs_count() == len(unfinished)


def test_events_that_belong_to_no_run_go_too_and_the_newest_of_each_check_stays(
    stored: DagsterInstance,
) -> None:
    for days in (90, 60, 31, 5):
        report(stored, days)
    dry = purge(stored, KEEP, dry_run=True)
    assert (dry.observations, dry.evaluations) == (9, 6)
    assert purge(stored, KEEP, dry_run=False) == Purged(observations=9, evaluations=6)
    assert count(stored, Events, Events.c.run_id == "") == 3
    assert count(stored, AssetCheckExecutionsTable) == 2
    assert len(stored.fetch_observations(ASSET, limit=9).records) == 1
    storage: Any = stored.event_log_storage
    with storage.run_connection("") as connection:
        assert connection.scalar(select(func.count()).select_from(Events)) == 3


def test_the_last_word_on_a_check_stays_however_old_it_is(instance: DagsterInstance) -> None:
    for days in (90, 60):
        report(instance, days)
    assert purge(instance, KEEP, dry_run=False) == Purged(observations=6, evaluations=2)
    assert count(instance, AssetCheckExecutionsTable) == 2


def test_the_time_ends_a_purge_between_two_batches_and_the_next_goes_on(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        run(instance, success=True, days_ago=8)
    now = iter(range(100))
    monkeypatch.setattr(purge_module, "monotonic", lambda: next(now))
    cut = purge(instance, KEEP, dry_run=False, budget_seconds=2.5, batch=2)
    assert cut == Purged(successful=4, finished=False)
    assert purge(instance, KEEP, dry_run=False, batch=2) == Purged(successful=1)


def test_another_kind_of_storage_is_refused_with_what_to_do() -> None:
    class Elsewhere:
        event_log_storage = object()

    with pytest.raises(SettingsError, match="nothing was purged"):
        purge_module._storage(Elsewhere())  # type: ignore[arg-type]


def test_the_button_is_dry_by_default_and_the_settings_say_what_is_old(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = run(instance, success=True, days_ago=8)
    dry = press(instance, "purge_dagster_storage_job", "purge_dagster_storage", {})
    assert dry.green
    assert dry.told["successful"] == 1
    assert DO_IT in dry.logs
    assert old in left(instance)
    monkeypatch.setenv("PRAMAAN_KEEP_SUCCESSFUL_RUNS_DAYS", "9")
    config: dict[str, Any] = {"dry_run": False}
    kept = press(instance, "purge_dagster_storage_job", "purge_dagster_storage", config)
    assert kept.told["successful"] == 0
    config["successful_days"] = 8
    done = press(instance, "purge_dagster_storage_job", "purge_dagster_storage", config)
    assert done.told["successful"] == 1
    assert DO_IT not in done.logs
    assert old not in left(instance)


def test_the_schedule_launches_only_where_something_is_old_enough_and_in_earnest(
    stored: DagsterInstance,
) -> None:
    schedule = defs.get_repository_def().get_schedule_def("purge_dagster_storage_schedule")
    assert isinstance(schedule, ScheduleDefinition)

    def tick() -> Any:
        needed = {"view_settings": make_resources()["view_settings"]}
        with build_schedule_context(instance=stored, resources=needed) as context:
            return schedule.evaluate_tick(context)

    run(stored, success=True, days_ago=1)
    assert tick().skip_message == "nothing is old enough"
    run(stored, success=True, days_ago=8)
    (request,) = tick().run_requests
    assert request.run_config["ops"]["purge_dagster_storage"]["config"]["dry_run"] is False
    assert stored.get_runs_count(RunsFilter()) == 2
