"""Random interleavings on the real code, beside a model, with invariants after every step."""

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.properties.bench import Bench, Machine
from pramaan_pipelines_tests.properties.machines import MACHINES, run

BRIEF = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=20,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
"""The same interleavings each time. What is found is told as it is: to shrink it takes minutes."""

LONG = settings(
    BRIEF,
    derandomize=False,
    max_examples=300,
    phases=[Phase.generate, Phase.shrink],
    print_blob=True,
)
"""Other interleavings each time."""


@pytest.fixture
def bench(server: EmbeddedPostgres, database: Database, database_name: str) -> Iterator[Bench]:
    """One database for all examples of a test."""
    with psycopg.connect(server.admin_url(database_name), autocommit=True) as god:
        yield Bench.of(database, god)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_nothing_is_lost_in_any_order(machine: type[Machine], bench: Bench) -> None:
    run(machine, bench, BRIEF)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_nothing_is_lost_in_many_more_orders(machine: type[Machine], bench: Bench) -> None:
    run(machine, bench, LONG)
