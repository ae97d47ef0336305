"""The engine and the two scopes that work may run in: one firm, or staff.

Promises: a scope is one transaction; its tenant settings are transaction-local, set in one round
trip with the time-outs, and gone at commit, so that a transaction pooler in between is safe.
Never: a scope without a firm that is not explicitly staff.

Source: https://www.postgresql.org/docs/current/functions-admin.html (set_config, is_local).
"""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.errors import (
    DatabaseUnavailableError,
    PramaanError,
    ScopeError,
    SettingsError,
)

FIRM_ADMIN: Final = "firm_admin"
"""The role of the system worker: it has no user to whom a matter could be assigned (0077)."""

SET_SCOPE: Final = text("""
    SELECT set_config('app.firm_id', :firm_id, true),
           set_config('app.user_id', :user_id, true),
           set_config('app.role', :role, true),
           set_config('app.is_staff', :is_staff, true),
           set_config('DateStyle', 'ISO, MDY', true),
           set_config('statement_timeout', :statement_ms, true),
           set_config('lock_timeout', :lock_ms, true),
           set_config('idle_in_transaction_session_timeout', :idle_ms, true)
""")
"""The style of dates goes with it, for psycopg reads times in ISO's alone."""

IS_STAFF: Final = text("SELECT current_setting('app.is_staff', true) = 'true'")

TRIGGER_EVENT_INDEX: Final = "agent_run_firm_id_trigger_event_id_key"
"""One run row an event (H11). Named here, for the tables are described to migrations alone."""

_QUOTED_VALUE: Final = re.compile(r': ".*')

LOCK_NOT_AVAILABLE: Final = "55P03"
"""What Postgres says when lock_timeout is over."""

TIMEOUTS: Final = {"statement_ms": "30000", "lock_ms": "10000", "idle_ms": "120000"}
"""Milliseconds. A drain idles in its transaction while it sends, for 60 s at the most."""


class Database:
    """A small pool of connections as the service role, reached through scopes only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def connect(cls, url: SecretStr | str, *, pool_size: int = 2) -> Self:
        """Return a database for `url`; no connection is opened yet.

        Args:
            url: a `postgresql://` URL of the service role.
            pool_size: connections kept; as many again may be opened for a moment.

        Raises:
            SettingsError: `url` is not a Postgres URL.
        """
        secret = SecretStr(url) if isinstance(url, str) else url
        return cls(make_engine(secret, pool_size=pool_size))

    @contextmanager
    def firm(
        self, firm_id: UUID, *, user_id: UUID | None = None, role: str = FIRM_ADMIN
    ) -> Iterator[Connection]:
        """Open a transaction under one firm; it commits when the block ends without an error.

        Args:
            firm_id: the tenant.
            user_id: the acting user; None for the system worker.
            role: `firm_admin` sees the firm, any other role only what is assigned to `user_id`.

        Raises:
            ScopeError: `firm_id` is not a UUID.
        """
        _require_uuid(firm_id)
        with transaction(self._engine) as connection:
            enter_firm(connection, firm_id, user_id=user_id, role=role)
            yield connection

    @contextmanager
    def staff(self) -> Iterator[Connection]:
        """Open a transaction of the staff worker: outboxes and frame jobs, SELECT and UPDATE."""
        with transaction(self._engine) as connection:
            enter_staff(connection)
            yield connection

    @contextmanager
    def unscoped(self) -> Iterator[Connection]:
        """Open a transaction in which no scope is set yet, for a caller that sets them in turn."""
        with transaction(self._engine) as connection:
            yield connection

    def ping(self) -> None:
        """Ask Postgres for a sign of life.

        Raises:
            DatabaseUnavailableError: no connection is to be had.
        """
        with transaction(self._engine) as connection:
            connection.exec_driver_sql("SELECT 1")

    def close(self) -> None:
        """Close the pooled connections."""
        self._engine.dispose()


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that commits when the block ends without an error; no scope is set.

    Raises:
        DatabaseUnavailableError: no connection is to be had.
    """
    try:
        connection = engine.connect()
    except OperationalError as error:
        raise DatabaseUnavailableError(
            f"Postgres at {engine.url.host}:{engine.url.port} gives no connection "
            f"({safe_text(error.orig)}). Start it (`pramaan up` for the embedded one), or look at "
            "the database's URL and its role's password."
        ) from None
    with connection, connection.begin():
        yield connection


def told_of(error: BaseException) -> str:
    """Return what an error says, safe to store and to show.

    Of a database error that is Postgres's own sentence: SQLAlchemy's text would hold the whole
    statement. Of an error that nobody here has worded, only where it was raised is told: its text
    may hold any value.
    """
    if isinstance(error, DBAPIError):
        message = getattr(getattr(error.orig, "diag", None), "message_primary", None)
        told = safe_text(message or error.orig or error)
        # Of a value that it cannot read, Postgres says which: invalid input syntax for ...: "..."
        return _QUOTED_VALUE.sub("", told) if (sqlstate(error) or "").startswith("22") else told
    if isinstance(error, PramaanError | OSError):
        return safe_text(error)
    return f"an error without a text of ours, raised at {_raised_at(error)}"


def _raised_at(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)
    return f"{'/'.join(Path(where[-1].filename).parts[-3:])}:{where[-1].lineno}" if where else "?"


def sqlstate(error: DBAPIError) -> str | None:
    """Return the five characters by which Postgres names an error; None where it gave none."""
    state = getattr(error.orig, "sqlstate", None)
    return None if state is None else str(state)


def enter_firm(
    connection: Connection, firm_id: UUID, *, user_id: UUID | None = None, role: str = FIRM_ADMIN
) -> None:
    """Set the firm scope on the caller's own transaction; it ends with that transaction.

    Raises:
        ScopeError: `firm_id` is not a UUID.
    """
    _require_uuid(firm_id)
    _set_scope(
        connection,
        firm_id=str(firm_id),
        user_id="" if user_id is None else str(user_id),
        role=role,
        is_staff="false",
    )


def enter_staff(connection: Connection) -> None:
    """Set the staff worker's scope on the caller's own transaction; it ends with it."""
    _set_scope(connection, firm_id="", user_id="", role="", is_staff="true")


def require_firm(scope: str | None, firm_id: UUID) -> None:
    """Check `scope`, the app.firm_id that a query returned beside its answer.

    Raises:
        ScopeError: the transaction does not work for `firm_id`, so that no row means nothing.
    """
    if (scope or "").lower() != str(firm_id):
        raise ScopeError(
            "the transaction works for another firm than it is asked about, or for none: open "
            "`Database.firm` for that firm, or call `enter_firm` on the transaction"
        )


def require_staff(connection: Connection) -> None:
    """Check that the transaction is the staff worker's, who sees every firm's rows.

    Raises:
        ScopeError: it is not, so that no row would not mean that nothing is there.
    """
    if connection.scalar(IS_STAFF) is not True:
        raise ScopeError("lane work reads every firm's rows: open `Database.staff` for it")


def make_engine(url: SecretStr, *, pool_size: int = 2) -> Engine:
    """Return an engine on psycopg 3, safe behind a transaction pooler (no prepared statements).

    Raises:
        SettingsError: `url` is not a Postgres URL.
    """
    try:
        parsed = make_url(url.get_secret_value())
    except (ArgumentError, ValueError):
        raise _unreadable() from None
    if "@" in (parsed.host or "") or "password" in parsed.query:
        # Part of a password stands where errors and `repr` would show it.
        raise _unreadable()
    if parsed.get_backend_name() != "postgresql":
        raise SettingsError("the database URL must begin with postgresql://")
    return create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        # Named in each BEGIN: what a statement reads after it has waited must be what stands then,
        # and a database's default may be another. Consent and claims rest on it.
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        connect_args={
            "connect_timeout": 10,
            "application_name": "pramaan-pipelines",
            "prepare_threshold": None,
            # A database's default may be another, which cannot hold what a firm has written.
            "client_encoding": "utf8",
            # A host that vanishes without a word would otherwise hold a drain for many minutes.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        },
    )


def _require_uuid(firm_id: object) -> None:
    if not isinstance(firm_id, UUID):
        raise ScopeError("a firm scope needs the firm's UUID; open `staff()` for lane work")


def _unreadable() -> SettingsError:
    return SettingsError(
        "the database URL cannot be read: give it as postgresql://user:password@host:port/name, "
        "with @, :, / and # in the password percent-encoded"
    )


def _set_scope(connection: Connection, **settings: str) -> None:
    connection.execute(SET_SCOPE, {**settings, **TIMEOUTS})
