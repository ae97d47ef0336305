"""The scopes, their bounds, and what an error or a `repr` shows of a URL."""

import time
import traceback
from datetime import UTC, date, datetime
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from pramaan_pipelines.errors import DatabaseUnavailableError, ScopeError, SettingsError
from pramaan_pipelines.store.database import TIMEOUTS, Database, make_engine
from pramaan_pipelines_tests.support.world import World

PASSWORD = "hunter2-Secret"
A_FIRM = UUID("5b4b6e0c-6a1f-4d0b-9a51-0d5f0e7c6a11")


@pytest.mark.parametrize("firm_id", [None, "", str(A_FIRM), "null", 0, A_FIRM.int, A_FIRM.bytes])
def test_a_scope_without_a_firms_uuid_is_refused_before_anything_is_asked(firm_id: object) -> None:
    """EB-06. The port is closed: a scope that went on would raise another error."""
    database = Database.connect(SecretStr("postgresql://nobody@127.0.0.1:1/none"))
    with pytest.raises(ScopeError, match="UUID"), database.firm(firm_id):  # type: ignore[arg-type]
        pytest.fail("the scope opened")


@pytest.mark.parametrize("scope", ["firm", "staff"])
def test_a_scope_bounds_statements_locks_and_idling(database: Database, scope: str) -> None:
    opened = database.firm(uuid4()) if scope == "firm" else database.staff()
    with opened as connection:
        found = {
            name: connection.scalar(
                text("SELECT setting FROM pg_settings WHERE name = :n"), {"n": n}
            )
            for name, n in (
                ("statement_ms", "statement_timeout"),
                ("lock_ms", "lock_timeout"),
                ("idle_ms", "idle_in_transaction_session_timeout"),
            )
        }
    assert found == TIMEOUTS
    assert all(int(value) > 0 for value in TIMEOUTS.values())


def test_a_statement_that_takes_too_long_ends(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TIMEOUTS, "statement_ms", "50")
    started = time.monotonic()
    with pytest.raises(OperationalError, match="statement timeout"), database.staff() as connection:
        connection.execute(text("SELECT pg_sleep(30)"))
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("where", ["DATABASE", "ROLE"])
def test_a_statement_sees_what_was_committed_before_it_whatever_the_default_is(
    world: World, app_url: SecretStr, database_name: str, where: str, level: str
) -> None:
    """The gates read again after they have waited: under a snapshot they would read the past."""
    for_whom = {"DATABASE": "", "ROLE": "ROLE pramaan_app IN "}[where]
    world.god.execute(
        f"ALTER {for_whom}DATABASE {database_name} SET default_transaction_isolation = '{level}'"
    )
    asked = text("SELECT granted FROM public.firm_inference_egress_consents")
    revoke = "UPDATE firm_inference_egress_consents SET granted = false"
    # A connection of its own, made after the change.
    other = Database.connect(app_url, pool_size=1)
    try:
        with other.firm(world.firm_a) as connection:
            assert connection.scalar(asked) is True
            world.god.execute(revoke)
            assert connection.scalar(asked) is False
        with other.staff() as connection:
            level_now = connection.scalar(text("SHOW transaction_isolation"))
        assert level_now == "read committed"
    finally:
        other.close()


@pytest.mark.parametrize(
    "default", ["client_encoding = 'latin1'", "DateStyle = 'German'", "DateStyle = 'SQL, DMY'"]
)
def test_a_scope_reads_what_was_written_whatever_the_defaults_are(
    world: World, app_url: SecretStr, database_name: str, default: str
) -> None:
    world.god.execute(f"ALTER ROLE pramaan_app IN DATABASE {database_name} SET {default}")
    title, other = "Erbsache \u6f22 \u20ac", Database.connect(app_url, pool_size=1)
    matter = text("INSERT INTO public.matters (firm_id, title) VALUES (:firm, :title)")
    try:
        with other.firm(world.firm_a) as connection:
            connection.execute(matter, {"firm": world.firm_a, "title": title})
            read = connection.execute(text("SELECT title, now(), DATE '2026-02-01' FROM matters"))
            found, now, day = read.one()
        assert (found, day) == (title, date(2026, 2, 1))
        assert abs((datetime.now(UTC) - now).total_seconds()) < 600
    finally:
        other.close()


def test_a_scope_commits_at_its_end_and_an_error_takes_everything_back(world: World) -> None:
    insert = text("INSERT INTO matters (firm_id, title) VALUES (:firm, 'A matter')")
    with world.database.firm(world.firm_a) as connection:
        connection.execute(insert, {"firm": world.firm_a})
    with (  # noqa: PT012 - what was written before the error is the point
        pytest.raises(RuntimeError, match="failed"),
        world.database.firm(world.firm_a) as connection,
    ):
        connection.execute(insert, {"firm": world.firm_a})
        raise RuntimeError("the work failed")
    assert world.one("SELECT count(*) FROM matters") == 1


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://app:{PASSWORD}@db/pramaan",
        f"postgres://app:{PASSWORD}@db/pramaan",
        f"app:{PASSWORD}@db",
        f"postgresql://app:{PASSWORD}@db:port/pramaan",
        f"postgresql://app:x@y:{PASSWORD}@db/pramaan",
        f"postgresql://app:x@{PASSWORD}@db:5432/pramaan",
        f"postgresql://app@db/pramaan?password={PASSWORD}",
        PASSWORD,
        "",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match="postgresql://") as caught:
        Database.connect(SecretStr(url))
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_connection_that_fails_does_not_show_the_password() -> None:
    database = Database.connect(SecretStr(f"postgresql://app:{PASSWORD}@127.0.0.1:1/pramaan"))
    with pytest.raises(DatabaseUnavailableError) as caught, database.staff():
        pytest.fail("connected to a closed port")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_no_repr_shows_the_password() -> None:
    url = SecretStr(f"postgresql://app:{PASSWORD}@db/pramaan")
    engine = make_engine(url)
    for shown in (repr(Database.connect(url)), repr(engine), str(engine.url), repr(engine.pool)):
        assert PASSWORD not in shown


def test_an_error_of_a_statement_does_not_show_its_parameters(world: World) -> None:
    """A parameter may hold document text or matter content."""
    with (
        pytest.raises(Exception, match="invalid input syntax") as caught,
        world.database.firm(world.firm_a) as connection,
    ):
        connection.execute(
            text("INSERT INTO matters (firm_id, title) VALUES (CAST(:bad AS uuid), :title)"),
            {"bad": "no uuid", "title": "PRIVILEGED"},
        )
    assert "PRIVILEGED" not in str(caught.value)


def test_a_prepared_statement_never_outlives_its_transaction(database: Database) -> None:
    """A transaction pooler gives the next transaction another session."""
    for _ in range(8):
        with database.staff() as connection:
            connection.execute(text("SELECT 1"))
    with database.staff() as connection:
        assert connection.scalar(text("SELECT count(*) FROM pg_prepared_statements")) == 0
