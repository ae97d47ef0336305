"""A real Postgres for the session, a migrated database for each test, and telemetry in memory.

The emulator and the stub of AWS stand in support/aws.py.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, OWNER
from pramaan_pipelines.store import migrate
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry, span_limits
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.world import World

pytest_plugins = ["pramaan_pipelines_tests.support.aws"]

TEMPLATE = "template_at_head"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """The session's Postgres."""
    running = EmbeddedPostgres(tmp_path_factory.mktemp("server"), durable=False)
    running.start()
    yield running
    running.wipe()


@pytest.fixture(scope="session")
def template(server: EmbeddedPostgres) -> str:
    """A database at head, made once; each test gets a copy."""
    _create(server, TEMPLATE)
    migrate.upgrade(SecretStr(server.url(OWNER, TEMPLATE)))
    return TEMPLATE


@pytest.fixture
def empty_database(server: EmbeddedPostgres) -> Iterator[str]:
    """The name of a database with nothing in it, owned by the owner."""
    name = f"empty_{next(_numbers)}"
    _create(server, name)
    yield name
    _drop(server, name)


@pytest.fixture
def database_name(server: EmbeddedPostgres, template: str) -> Iterator[str]:
    """The name of a database at head that is this test's own."""
    name = f"test_{next(_numbers)}"
    _create(server, name, template)
    yield name
    _drop(server, name)


@pytest.fixture
def app_url(server: EmbeddedPostgres, database_name: str) -> SecretStr:
    """The service's URL: never a superuser, owns nothing."""
    return SecretStr(server.url(APP, database_name))


@pytest.fixture
def database(app_url: SecretStr) -> Iterator[Database]:
    """The database as the service sees it."""
    opened = Database.connect(app_url, pool_size=4)
    yield opened
    opened.close()


@pytest.fixture
def world(server: EmbeddedPostgres, database: Database, database_name: str) -> Iterator[World]:
    """Two firms that consent and one that does not; looks at tables past row level security."""
    with psycopg.connect(server.admin_url(database_name), autocommit=True) as god:
        yield World.build(database, god)


@pytest.fixture
def record() -> Iterator[TelemetryRecord]:
    """Telemetry that keeps what it was told."""
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(span_limits=span_limits())
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    meters = MeterProvider(metric_readers=[reader])
    telemetry = Telemetry(tracers.get_tracer("test"), meters.get_meter("test"), "test")
    yield TelemetryRecord(telemetry, spans, reader)
    meters.shutdown()
    tracers.shutdown()


@pytest.fixture
def repository() -> Path:
    """The checkout."""
    return Path(__file__).parents[1]


def _create(server: EmbeddedPostgres, name: str, template: str = "template0") -> None:
    with psycopg.connect(server.admin_url(), autocommit=True) as god:
        god.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER {OWNER}')


def _drop(server: EmbeddedPostgres, name: str) -> None:
    with psycopg.connect(server.admin_url(), autocommit=True) as god:
        god.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
