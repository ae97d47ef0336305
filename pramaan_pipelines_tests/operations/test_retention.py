"""Pruning: what was dispatched long ago and nothing else, under a role that can do no more."""

from typing import Any

import psycopg
import pytest
from dagster import DagsterInstance, ScheduleDefinition, build_schedule_context
from dagster._core.definitions.schedule_definition import ScheduleExecutionData
from pydantic import SecretStr

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.errors import SettingsError
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines.orchestration.names import DO_IT
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.outbox import retention
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOCUMENT_REGISTRATION, DOMAIN_EVENT
from pramaan_pipelines.outbox.retention import prune_dispatched
from pramaan_pipelines_tests.operations.bench import press
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.world import World

JOB, OP = "prune_outboxes_job", "prune_outboxes"
DOCUMENTS, DOMAIN = "ops.document_ingest_outbox", "ops.domain_event_outbox"
KINDS = {
    "old": "dispatched_at = now() - interval '31 days'",
    "young": "dispatched_at = now() - interval '29 days'",
    "pending": "next_attempt_at = now()",
    "parked": "parked_at = now() - interval '900 days', parked_reason = 'no'",
}


def rows_of(world: World, kind: str, count: int = 1) -> None:
    """Write `count` rows of `kind` for each lane, all created long ago."""
    for lane in (DOCUMENT_INGEST, DOCUMENT_REGISTRATION, DOMAIN_EVENT):
        made = put(world, lane, count)
        world.god.execute(
            f"UPDATE {lane.outbox.table} SET created_at = now() - interval '1000 days', "  # noqa: S608
            f"{KINDS[kind]} WHERE event_id = ANY(%s::uuid[])",
            [made],
        )


def left(world: World) -> dict[str, int]:
    """Return how many rows each table holds."""
    return {
        table: world.one(f"SELECT count(*) FROM {table}")  # noqa: S608
        for table in (DOCUMENTS, DOMAIN)
    }


def test_only_what_was_dispatched_longer_ago_than_the_age_is_pruned(
    world: World, maintenance_url: SecretStr
) -> None:
    for kind in KINDS:
        rows_of(world, kind)
    result = prune_dispatched(maintenance_url, older_than_days=30, dry_run=False)
    assert (result.rows, result.finished) == ({DOCUMENTS: 2, DOMAIN: 1}, True)
    assert left(world) == {DOCUMENTS: 6, DOMAIN: 3}
    again = prune_dispatched(maintenance_url, older_than_days=30, dry_run=False)
    assert again.rows == {DOCUMENTS: 0, DOMAIN: 0}
    youngest = prune_dispatched(maintenance_url, older_than_days=1, dry_run=False)
    assert youngest.rows == {DOCUMENTS: 2, DOMAIN: 1}
    kept = world.rows(
        f"SELECT dispatched_at FROM {DOCUMENTS} UNION ALL SELECT dispatched_at FROM {DOMAIN}"  # noqa: S608
    )
    assert kept == [(None,)] * 6  # pending and parked, however old


def test_a_dry_run_counts_and_deletes_nothing(world: World, maintenance_url: SecretStr) -> None:
    for kind in KINDS:
        rows_of(world, kind, 3)
    before = left(world)
    result = prune_dispatched(maintenance_url, older_than_days=30, dry_run=True)
    assert (result.rows, result.finished) == ({DOCUMENTS: 6, DOMAIN: 3}, True)
    assert left(world) == before


def test_batches_are_small_oldest_first_and_each_is_committed(
    world: World, maintenance_url: SecretStr
) -> None:
    """An end in the middle keeps what was done."""
    rows_of(world, "old", 10)
    world.god.execute(
        f"UPDATE {DOCUMENTS} SET dispatched_at = dispatched_at - id * interval '1 hour'"  # noqa: S608
    )
    oldest = world.one(f"SELECT max(id) FROM {DOCUMENTS}")  # noqa: S608
    result = prune_dispatched(
        maintenance_url, older_than_days=30, dry_run=False, budget_seconds=0, batch_rows=4
    )
    assert (result.rows, result.finished) == ({DOCUMENTS: 4, DOMAIN: 4}, False)
    remaining = {number for (number,) in world.rows(f"SELECT id FROM {DOCUMENTS}")}  # noqa: S608
    assert remaining == set(range(oldest - 19, oldest - 3))
    whole = prune_dispatched(maintenance_url, older_than_days=30, dry_run=False, batch_rows=4)
    assert (whole.rows, whole.finished) == ({DOCUMENTS: 16, DOMAIN: 6}, True)


@pytest.mark.parametrize("days", [0, -1])
def test_no_age_under_a_day_is_taken(maintenance_url: SecretStr, world: World, days: int) -> None:
    rows_of(world, "young")
    with pytest.raises(ValueError, match="a day at least"):
        prune_dispatched(maintenance_url, older_than_days=days, dry_run=False)
    assert left(world) == {DOCUMENTS: 2, DOMAIN: 1}


def test_it_prunes_as_the_maintenance_role_and_as_no_other(
    world: World, server: EmbeddedPostgres, database_name: str, app_url: SecretStr
) -> None:
    """The owner would see no row and call it pruned; a superuser is bound by no policy."""
    rows_of(world, "old")
    for url in (app_url.get_secret_value(), server.url(OWNER, database_name)):
        for dry_run in (True, False):
            with pytest.raises(SettingsError, match="role is not pramaan_maintenance"):
                prune_dispatched(SecretStr(url), older_than_days=30, dry_run=dry_run)
    with pytest.raises(SettingsError, match="role is not pramaan_maintenance"):
        prune_dispatched(
            SecretStr(server.admin_url(database_name)), older_than_days=30, dry_run=False
        )
    assert left(world) == {DOCUMENTS: 2, DOMAIN: 1}


def test_the_role_itself_could_delete_no_pending_or_parked_row(
    world: World, maintenance_url: SecretStr
) -> None:
    """Whatever the statement says: it is the policies that bind it."""
    rows_of(world, "pending")
    rows_of(world, "parked")
    with psycopg.connect(maintenance_url.get_secret_value(), autocommit=True) as connection:
        for table in (DOCUMENTS, DOMAIN):
            assert connection.execute(f"DELETE FROM {table}").rowcount == 0  # noqa: S608
    assert left(world) == {DOCUMENTS: 4, DOMAIN: 2}


@pytest.mark.parametrize("query", ["PRUNE", "COUNT"])
def test_a_big_table_is_pruned_by_its_index_of_dispatched_rows(
    world: World, maintenance_url: SecretStr, query: str
) -> None:
    put(world, DOCUMENT_INGEST, 30_000)
    world.god.execute(f"UPDATE {DOCUMENTS} SET dispatched_at = now() - id * interval '1 minute'")  # noqa: S608
    world.god.execute(f"ANALYZE {DOCUMENTS}")
    statement = getattr(retention, query).format(table=DOCUMENTS)
    statement = statement.replace(":days", "20").replace(":rows", "500")
    with psycopg.connect(maintenance_url.get_secret_value()) as connection:
        found = connection.execute(f"EXPLAIN {statement}").fetchall()
    plan = "\n".join(line for (line,) in found)
    assert "document_ingest_outbox_dispatched_idx" in plan
    assert "Seq Scan" not in plan


def environment(
    monkeypatch: pytest.MonkeyPatch, app_url: SecretStr, maintenance: SecretStr | None
) -> None:
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", app_url.get_secret_value())
    if maintenance is not None:
        monkeypatch.setenv("MAINTENANCE_DATABASE_URL", maintenance.get_secret_value())


def tick(instance: DagsterInstance) -> ScheduleExecutionData:
    schedule = defs.get_repository_def().get_schedule_def("prune_outboxes_schedule")
    assert isinstance(schedule, ScheduleDefinition)
    needed = {"settings": make_resources()["settings"]}
    with build_schedule_context(instance=instance, resources=needed) as context:
        return schedule.evaluate_tick(context)


def test_the_schedule_asks_in_earnest_and_its_run_prunes(
    world: World,
    instance: DagsterInstance,
    app_url: SecretStr,
    maintenance_url: SecretStr,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(monkeypatch, app_url, maintenance_url)
    rows_of(world, "old")
    rows_of(world, "young")
    (request,) = tick(instance).run_requests or []
    assert request.run_key is None
    config: dict[str, Any] = request.run_config["ops"][OP]["config"]
    run = press(instance, JOB, OP, config)
    assert run.green
    assert run.told == {DOCUMENTS: 2, DOMAIN: 1, "finished": True}
    assert left(world) == {DOCUMENTS: 2, DOMAIN: 1}


def test_the_schedule_skips_where_there_is_no_maintenance_url(
    instance: DagsterInstance, app_url: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(monkeypatch, app_url, None)
    data = tick(instance)
    assert not data.run_requests
    assert data.skip_message == "MAINTENANCE_DATABASE_URL is not set: nothing is pruned"


def test_the_job_is_dry_by_default(
    world: World,
    instance: DagsterInstance,
    app_url: SecretStr,
    maintenance_url: SecretStr,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(monkeypatch, app_url, maintenance_url)
    rows_of(world, "old")
    run = press(instance, JOB, OP, {})
    assert run.green
    assert run.told == {DOCUMENTS: 2, DOMAIN: 1, "finished": True}
    assert "would be pruned" in run.logs
    assert DO_IT in run.logs
    assert left(world) == {DOCUMENTS: 2, DOMAIN: 1}


@pytest.mark.usefixtures("world")
def test_the_job_without_a_url_names_the_variable(
    instance: DagsterInstance, app_url: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(monkeypatch, app_url, None)
    run = press(instance, JOB, OP, {})
    assert not run.green
    assert "MAINTENANCE_DATABASE_URL is not set" in run.failure
