"""`python -m pramaan_pipelines_tests.growth`: rows and bytes that Dagster's storage gains, a thing.

A Postgres and an AWS stand-in of its own, an instance on SQLite, and every run in this process.
docs/growth.md says what a day comes to, from these numbers.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from dagster import DagsterInstance, build_sensor_context
from dagster._serdes import serialize_value
from pydantic import SecretStr
from sqlalchemy import select

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.local.aws import EmbeddedAws
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, DATABASE, OWNER
from pramaan_pipelines.messaging.provision import provision
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store import migrate
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.orchestration.bench import Agent, Rail
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.world import World, body

RUNS = 3


def measure(rail: Rail) -> None:
    """Print what each thing costs, once it is warm."""
    instance, world = rail.instance, rail.world

    def relay() -> None:
        put(world, DOCUMENT_INGEST, 50)
        assert (
            defs.resolve_job_def(f"{DOCUMENT_INGEST.name}_job")
            .execute_in_process(instance=instance)
            .success
        )

    def framed() -> None:
        rail.deliver(body(world.firm_a, world.matter(world.firm_a)))

    def blocked() -> None:
        firm = world.firm_without_consent
        rail.deliver(body(firm, world.matter(firm)))

    def checks() -> None:
        assert defs.resolve_job_def("check_road_job").execute_in_process(instance=instance).success

    def tick() -> None:
        # Without a cursor all is news, as it is every hour.
        needed = {
            key: make_resources()[key] for key in ("settings", "database", "view_settings", "watch")
        }
        sensor = defs.get_repository_def().get_sensor_def("road_watch_sensor")
        with build_sensor_context(instance=instance, resources=needed) as context:
            for event in sensor.evaluate_tick(context).asset_events:
                instance.report_runless_asset_event(event)

    for name, act in {
        "a relay run of 50 rows": relay,
        "a framer run that ends in a frame": framed,
        "a framer run that stops at consent": blocked,
        "a run of check_road_job": checks,
        "a look that tells everything": tick,
    }.items():
        act()
        print_cost(name, instance, act)


def print_cost(name: str, instance: DagsterInstance, act: Callable[[], None]) -> None:
    """Print what one `act` adds, on the average of a few."""
    known = {run.run_id for run in instance.get_runs()}
    before = loose(instance)
    for _ in range(RUNS):
        act()
    texts = loose(instance)[len(before) :]
    for run in instance.get_runs():
        if run.run_id not in known:
            texts += [serialize_value(entry) for entry in instance.all_logs(run.run_id)]
    rows, held = len(texts) / RUNS, sum(map(len, texts)) / RUNS / 1024
    sys.stdout.write(f"{name:<40} {rows:>6.1f} events {held:>8.1f} KiB\n")
    sys.stdout.flush()


def loose(instance: DagsterInstance) -> list[str]:
    """Return the events that belong to no run, oldest first, as they are stored."""
    from dagster._core.storage.event_log.schema import (  # noqa: PLC0415 - brings Alembic along
        SqlEventLogStorageTable,
    )

    storage: Any = instance.event_log_storage
    columns = SqlEventLogStorageTable.c
    query = select(columns.event).where(columns.run_id == "").order_by(columns.id)
    with storage.index_connection() as connection:
        return list(connection.scalars(query))


def main() -> None:
    """Start what is needed, measure, and stop it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        postgres, aws = EmbeddedPostgres(folder / "postgres"), EmbeddedAws(folder / "aws")
        try:
            postgres.start()
            aws.start()
            os.environ |= {"AWS_ACCESS_KEY_ID": "1" * 12, "AWS_SECRET_ACCESS_KEY": "test"}
            bare = settings_for(aws.endpoint_url)
            url = postgres.url(APP, DATABASE)
            migrate.upgrade(SecretStr(postgres.url(OWNER, DATABASE)))
            os.environ |= {
                "PRAMAAN_ENVIRONMENT": "test",
                "DATABASE_URL": url,
                "AWS_ENDPOINT_URL": aws.endpoint_url,
                **provision(bare, visibility_timeout_seconds=60),
            }
            home = folder / "home"
            home.mkdir()
            (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
            database = Database.connect(url)
            with (
                psycopg.connect(postgres.admin_url(DATABASE), autocommit=True) as god,
                DagsterInstance.from_config(str(home)) as instance,
            ):
                world = World.build(database, god)
                measure(Rail(Settings.load(), world, instance, Agent()))
            database.close()
        finally:
            aws.stop()
            postgres.wipe()


if __name__ == "__main__":
    main()
