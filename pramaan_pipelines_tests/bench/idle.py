"""Line 10: what a minute costs with nothing to do, in runs, statements and Dagster's own rows.

With the wake-up sensor on, and the daemon's start and first ticks left out. Statements are counted
by Postgres's log; Dagster's rows in its SQLite files, before and after.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from time import sleep

from dagster import DagsterInstance

from pramaan_pipelines_tests.bench.daemon import daemon, variables
from pramaan_pipelines_tests.bench.measure import Better, Figure, Line, Sample
from pramaan_pipelines_tests.bench.site import Ground, Site

WARM_SECONDS = 75.0
SECONDS = 180.0
QUICK_SECONDS = 60.0


def lines(site: Site, seconds: float | None = None, warm: float = WARM_SECONDS) -> list[Line]:
    """Measure."""
    seconds = seconds or (QUICK_SECONDS if site.quick else SECONDS)
    ground = site.ground()
    _log_statements(ground)
    with daemon(variables(site.settings(ground), ground.url, PRAMAAN_WAKE_UP="true")) as instance:
        sleep(warm)
        before = _counts(site, instance)
        sleep(seconds)
        after = _counts(site, instance)
    minutes = seconds / 60
    runs, statements, rows = ((b - a) / minutes for a, b in zip(before, after, strict=True))
    return [
        Line("idle: runs started", "a minute", _figure(runs), None, Better.LESS, 0),
        Line("idle: statements on the database", "a minute", _figure(statements)),
        Line("idle: rows in Dagster's storage", "a minute", _figure(rows)),
    ]


def _log_statements(ground: Ground) -> None:
    god = ground.world.god
    god.execute(f'ALTER DATABASE "{god.info.dbname}" SET log_min_duration_statement = 0')


def _counts(site: Site, instance: DagsterInstance) -> tuple[int, int, int]:
    log = site.server.log.read_text(errors="replace")
    # The extended protocol logs a statement's parse and bind besides.
    statements = sum(log.count(mark) for mark in (" ms  statement: ", " ms  execute "))
    return instance.get_runs_count(), statements, _rows(Path(instance.root_directory))


def _rows(home: Path) -> int:
    total = 0
    for path in home.rglob("*.db"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables.fetchall():
                ((count,),) = connection.execute(f'SELECT count(*) FROM "{table}"')  # noqa: S608
                total += count
    return total


def _figure(value: float) -> Figure:
    return Figure("ours", (Sample(value),))
