"""Dagster's storage with its connections kept: as few as can be, none dead, none waited for."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml  # type: ignore[import-untyped]
from dagster import DagsterInstance, in_process_executor, job, op
from dagster_postgres import PostgresEventLogStorage

from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines.orchestration.pooled_storage import KEPT
from pramaan_pipelines.orchestration.storage import storage_problems
from pramaan_pipelines_tests.support.storages import pooled
from pramaan_pipelines_tests.support.waiting import until

if TYPE_CHECKING:
    from pramaan_pipelines.local.postgres import EmbeddedPostgres


@op
def nothing() -> None:
    """Do nothing."""


@job(executor_def=in_process_executor)
def several() -> None:
    for number in range(5):
        nothing.alias(f"nothing_{number}")()


@pytest.fixture
def url(server: "EmbeddedPostgres", empty_database: str) -> str:
    """A database for Dagster."""
    return server.url(OWNER, empty_database)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], DagsterInstance]]:
    """Make an instance with the storage that is described."""
    with ExitStack() as ending:

        def made(storage: dict[str, Any]) -> DagsterInstance:
            (tmp_path / "dagster.yaml").write_text(yaml.safe_dump({"storage": storage}))
            return ending.enter_context(DagsterInstance.from_config(str(tmp_path)))

        yield made


@pytest.fixture
def god(server: "EmbeddedPostgres", empty_database: str) -> Iterator[psycopg.Connection]:
    """A superuser's connection to Dagster's database."""
    with psycopg.connect(server.admin_url(empty_database), autocommit=True) as connection:
        yield connection


def others(god: psycopg.Connection) -> set[int]:
    """Return the backends of Dagster's database, but one's own."""
    query = """
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND backend_type = 'client backend'
    """
    return {pid for (pid,) in god.execute(query).fetchall()}


def test_a_whole_run_is_written_through_one_connection(
    url: str, at: Callable[[dict[str, Any]], DagsterInstance], god: psycopg.Connection
) -> None:
    instance = at(pooled(url))
    before = others(god)
    run = several.execute_in_process(instance=instance)
    assert run.success
    assert len(before) == 1
    assert others(god) == before
    assert len(instance.all_logs(run.run_id)) > 20


def test_a_connection_that_was_cut_while_idle_is_made_anew(
    url: str, at: Callable[[dict[str, Any]], DagsterInstance], god: psycopg.Connection
) -> None:
    instance = at(pooled(url))
    for _ in range(3):
        before = others(god)
        for pid in before:
            god.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        assert several.execute_in_process(instance=instance).success
        assert not before & others(god)


def test_nobody_waits_for_anothers_connection(
    url: str, at: Callable[[dict[str, Any]], DagsterInstance], god: psycopg.Connection
) -> None:
    events = at(pooled(url)).event_log_storage
    assert isinstance(events, PostgresEventLogStorage)
    with ExitStack() as held:
        for _ in range(3 * KEPT):
            held.enter_context(events.index_connection())
        assert len(others(god)) == 3 * KEPT
    until(lambda: len(others(god)) == KEPT)


def test_it_takes_turns_with_dagsters_own_on_one_database(
    url: str, at: Callable[[dict[str, Any]], DagsterInstance], tmp_path: Path
) -> None:
    """An installation changes over by its dagster.yaml alone, and back."""
    plain = {"postgres": {"postgres_url": url}}
    runs = []
    for storage in (plain, pooled(url), plain):
        instance = at(storage)
        assert storage_problems(tmp_path) == []
        runs.append(several.execute_in_process(instance=instance).run_id)
        assert {run.run_id for run in instance.get_runs()} == set(runs)
        assert len(instance.all_logs(runs[0])) == len(instance.all_logs(runs[-1]))


def test_an_instance_that_ends_keeps_no_connection(
    url: str, tmp_path: Path, god: psycopg.Connection
) -> None:
    """Every tick of a sensor has an instance of its own."""
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump({"storage": pooled(url)}))
    ended = []
    for _ in range(3):
        with DagsterInstance.from_config(str(tmp_path)) as instance:
            assert instance.get_runs_count() == 0
            assert len(others(god)) == 1
        ended.append(instance)
        until(lambda: not others(god))
