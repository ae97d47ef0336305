"""Postgres restarts, or its connections are cut, between two runs and in the middle of a batch."""

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy.exc import OperationalError

from pramaan_pipelines.errors import DatabaseUnavailableError
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, DATABASE, OWNER
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store import migrate
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.faults.bench import Disturbed, Interrupted
from pramaan_pipelines_tests.faults.matrix import (
    BATCH,
    BATCHED_ROWS,
    DATABASE_FAULTS,
    LANES,
    DatabaseFault,
)
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.world import World

CUT = """
    SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE usename = %s
"""


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server that may be restarted: no other test stands on it."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("restarted"), durable=False)
    try:
        server.start()
        migrate.upgrade(SecretStr(server.url(OWNER)))
        yield server
    finally:
        server.wipe()


@pytest.fixture
def relay(
    lane_name: str, own_server: EmbeddedPostgres, provisioned: Settings, record: TelemetryRecord
) -> Iterator[Disturbed]:
    """The lane's relay on the server that may be restarted."""
    database = Database.connect(SecretStr(own_server.url(APP)))
    world = World.build(database, _god(own_server))
    yield Disturbed(LANES[lane_name], world, database, provisioned, record.telemetry)
    database.close()
    world.god.close()


def _god(server: EmbeddedPostgres) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(server.admin_url(DATABASE), autocommit=True)


def restart(server: EmbeddedPostgres, relay: Disturbed) -> None:
    """Stop the server as an operator does, and start it."""
    server.stop()
    server.start()
    with suppress(psycopg.Error):
        relay.world.god.close()
    relay.world.god = _god(server)


def cut(relay: Disturbed) -> None:
    """End every session of the service."""
    assert relay.world.one(CUT, APP) > 0


@pytest.mark.parametrize("fault", DATABASE_FAULTS, ids=lambda fault: fault.name)
def test_nothing_is_lost_and_at_most_the_batch_under_way_is_repeated(
    relay: Disturbed, own_server: EmbeddedPostgres, fault: DatabaseFault
) -> None:
    events = relay.put(BATCHED_ROWS)
    publisher = relay.publisher()
    told: Exception | None = None

    if fault.sending:
        happen = (lambda: restart(own_server, relay)) if fault.restart else (lambda: cut(relay))
        with pytest.raises(OperationalError) as raised:
            relay.run(Interrupted(publisher, 2, happen), rows=BATCH)
        told = raised.value
    else:
        relay.run(publisher, rows=BATCH, budget_seconds=0)
        if fault.restart:
            own_server.stop()
            with pytest.raises(DatabaseUnavailableError) as refused:
                relay.run(publisher, rows=BATCH)
            told = refused.value
            restart(own_server, relay)
        else:
            cut(relay)
    assert (type(told).__name__ if told else None) == fault.says
    assert _password(own_server) not in f"{told!r} {told}"
    assert relay.dispatched() == events[:BATCH]

    relay.until_calm(rows=BATCH)
    expected = fault.expected
    assert relay.measure(BATCHED_ROWS + expected.duplicates) == expected
    twice = {event for event, copies in relay.arrived.items() if copies > 1}
    assert twice == set(events[BATCH : BATCH + expected.duplicates])


def _password(server: EmbeddedPostgres) -> str:
    return server.url(APP).split(":")[2].split("@")[0]
