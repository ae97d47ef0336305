"""A tenant's settings end with their transaction, whoever gets the connection next."""

import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.errors import ScopeError
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.outbox.backlog import backlog
from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT
from pramaan_pipelines.store.database import Database, enter_firm, transaction
from pramaan_pipelines_tests.sealed.attack import SETTINGS
from pramaan_pipelines_tests.sealed.pooler import PROGRAM, transaction_pooler
from pramaan_pipelines_tests.support.world import World

ROUNDS = 120
CLIENTS = 6
FIRMS = text("SELECT DISTINCT firm_id FROM ops.domain_event_outbox")
UNSCOPED = (
    "SELECT 1 FROM ops.domain_event_outbox FOR UPDATE SKIP LOCKED",
    "UPDATE ops.domain_event_outbox SET attempts = 0",
    "SELECT 1 FROM matters",
)
BACKEND = text("SELECT pg_backend_pid()")


@pytest.fixture(params=["a pool of one", "pgbouncer"])
def shared(
    request: pytest.FixtureRequest, app_url: SecretStr, tmp_path: Path
) -> Iterator[SecretStr]:
    """A URL whose transactions all end up on one server connection."""
    if request.param == "a pool of one":
        yield app_url
        return
    if PROGRAM is None:
        pytest.skip("pgbouncer is not installed here (Debian: apt-get install pgbouncer)")
    tmp_path.chmod(0o755)
    with transaction_pooler(app_url.get_secret_value(), tmp_path) as url:
        yield SecretStr(url)


@pytest.fixture
def one(shared: SecretStr) -> Iterator[Database]:
    """The service on that one connection."""
    database = Database.connect(shared, pool_size=1)
    yield database
    database.close()


def test_no_transaction_sees_what_the_one_before_it_was(one: Database, world: World) -> None:
    """Firms, staff, nobody, failures and roll-backs in random order on one connection."""
    firms = (world.firm_a, world.firm_b)
    for firm in firms:
        world.created_matter(firm)
    chosen, backends = random.Random(4), set()  # noqa: S311 - an order, no secret
    for _ in range(ROUNDS):
        kind = chosen.choice(["firm", "staff", "nobody", "fails"])
        firm = chosen.choice(firms)
        if kind == "firm":
            with one.firm(firm) as connection:
                backends.add(connection.scalar(BACKEND))
                assert set(connection.scalars(FIRMS)) == {firm}
        elif kind == "staff":
            with one.staff() as connection:
                assert set(connection.scalars(FIRMS)) == set(firms)
        elif kind == "nobody":
            with transaction(one._engine) as connection:
                backends.add(connection.scalar(BACKEND))
                for name in SETTINGS:
                    assert not connection.scalar(
                        text("SELECT current_setting(:n, true)"), {"n": name}
                    )
            for statement in UNSCOPED:
                with (
                    pytest.raises(ProgrammingError, match="no firm is set"),
                    transaction(one._engine) as connection,
                ):
                    connection.execute(text(statement))
        else:
            with pytest.raises(ProgrammingError), one.firm(firm) as connection:
                connection.execute(text("SELECT a_column_that_is_not"))
    assert len(backends) == 1, "every transaction was on the same connection"


def test_sessions_at_once_through_one_connection_keep_apart(
    shared: SecretStr, world: World
) -> None:
    """Each client has a connection of its own to the pooler, and shares the server's."""
    firms = (world.firm_a, world.firm_b)
    for firm in firms:
        world.created_matter(firm)

    def work(number: int) -> set[int]:
        database, seen = Database.connect(shared, pool_size=1), set()
        for turn in range(ROUNDS // CLIENTS):
            firm = firms[(number + turn) % 2]
            with database.firm(firm) as connection:
                seen.add(connection.scalar(BACKEND))
                assert set(connection.scalars(FIRMS)) == {firm}
            with database.staff() as connection:
                assert set(connection.scalars(FIRMS)) == set(firms)
        database.close()
        return seen

    with ThreadPoolExecutor(CLIENTS) as pool:
        backends = set().union(*pool.map(work, range(CLIENTS)))
    assert len(backends) in {1, CLIENTS}


def test_a_claim_and_its_release_are_whole_on_a_shared_connection(
    one: Database, world: World
) -> None:
    """The service's own work, with staff in between."""
    matter = world.created_matter(world.firm_a).matter_id
    claims = FrameJobClaims(one, lease_seconds=900)
    claim = claims.claim(FrameRequest(world.firm_a, matter, uuid4()), TraceContext())
    assert isinstance(claim, Claim)
    with one.staff() as connection:
        assert backlog(connection, DOMAIN_EVENT).pending.number == 1
    with one.firm(world.firm_b) as connection:
        assert connection.scalar(text("SELECT count(*) FROM agents.agent_run")) == 0
    assert claims.release(claim)


def test_a_scope_stands_over_what_a_stranger_left_in_the_session(
    one: Database, shared: SecretStr, world: World
) -> None:
    """A setting for the whole session is another's mistake; a scope of ours replaces all four."""
    for firm in (world.firm_a, world.firm_b):
        world.created_matter(firm)
    dirty = {
        "app.firm_id": str(world.firm_a),
        "app.role": "firm_admin",
        "app.is_staff": "true",
        "app.user_id": str(uuid4()),
    }
    with transaction(one._engine) as connection:
        for name, value in dirty.items():
            connection.execute(
                text("SELECT set_config(:name, :value, false)"), {"name": name, "value": value}
            )
    del shared
    with one.firm(world.firm_b) as connection:
        assert set(connection.scalars(FIRMS)) == {world.firm_b}
        assert connection.scalar(text("SELECT count(*) FROM matters")) == 1
    with one.staff() as connection:
        assert set(connection.scalars(FIRMS)) == {world.firm_a, world.firm_b}
        with pytest.raises(ProgrammingError, match="no firm is set"), connection.begin_nested():
            connection.execute(text("SELECT 1 FROM matters"))


def test_the_code_keeps_nothing_in_a_session(repository: Path) -> None:
    """What outlives a transaction would be met by whoever gets the connection next."""
    kept = re.compile(
        r"WITH\s+HOLD|CREATE\s+(LOCAL\s+)?TEMP|pg_(try_)?advisory_lock\(|\bLISTEN\s+\w|SET\s+SESSION\s+(AUTH|CHAR)"
        r"|^\s*PREPARE\s|set_config\([^)]*,\s*false\)",
        re.MULTILINE,
    )
    found = {
        path.relative_to(repository).as_posix()
        for folder in ("pramaan_pipelines", "migrations")
        for path in (repository / folder).rglob("*.py")
        if kept.search(path.read_text(encoding="utf-8"))
    }
    # What a migration builds after its commit, as the owner, is built behind no pooler.
    assert found == {"pramaan_pipelines/store/later.py"}
    assert kept.search("SELECT set_config('app.firm_id', :firm, false)")
    assert kept.search("DECLARE c CURSOR WITH HOLD FOR SELECT 1")


@pytest.mark.parametrize("firm", [None, "", "x", 0])
def test_a_scope_on_the_callers_own_transaction_needs_a_firm(
    database: Database, firm: object
) -> None:
    """README: the application calls it on a connection or session of its own."""
    with transaction(database._engine) as connection, pytest.raises(ScopeError, match="UUID"):
        enter_firm(connection, firm)  # type: ignore[arg-type]
