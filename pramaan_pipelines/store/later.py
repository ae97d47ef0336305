"""What a migration leaves for after its commit: what has to read a whole table that others use.

Promises: an index is built CONCURRENTLY and a constraint is validated beside the table's writers;
each is done once, in order, and taken off the ledger then; what was interrupted or failed is begun
anew by the next migration, and an index that was left invalid is dropped first.
Never: waits for long while it holds, or asks for, a lock that stands in a writer's way.

Source: https://www.postgresql.org/docs/current/sql-createindex.html#SQL-CREATEINDEX-CONCURRENTLY
"""

import re
import time
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from pramaan_pipelines.errors import SchemaError
from pramaan_pipelines.store.database import LOCK_NOT_AVAILABLE, sqlstate
from pramaan_pipelines.store.ledger import LEDGER_TABLE

ONE_BUILDER: Final = 4_101_978
"""The advisory lock of whoever builds."""

INDEX: Final = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON (\w+)\.\w+ ")
CONSTRAINT: Final = re.compile(r"ALTER TABLE (\S+) (?:ADD|VALIDATE) CONSTRAINT (\S+)")

LEFT: Final = text(f"""
    SELECT id, later FROM public.{LEDGER_TABLE} WHERE later IS NOT NULL ORDER BY id
""")  # noqa: S608
DONE: Final = text(f"UPDATE public.{LEDGER_TABLE} SET later = NULL WHERE id = :id")  # noqa: S608
LEDGER: Final = text("""
    SELECT 1 FROM pg_attribute
    WHERE attrelid = to_regclass(:name) AND attname = 'later' AND NOT attisdropped
""")
VALID: Final = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
THERE: Final = text("""
    SELECT 1 FROM pg_constraint
    WHERE conrelid = to_regclass(:table) AND quote_ident(conname) = :name
""")


def left(connection: Connection) -> Sequence[tuple[int, str]]:
    """Return what is still to be done, oldest first."""
    if connection.scalar(LEDGER, {"name": f"public.{LEDGER_TABLE}"}) is None:
        return []
    return [(number, statement) for number, statement in connection.execute(LEFT)]


def do_what_is_left(connection: Connection, *, lock_seconds: float, build_seconds: float) -> None:
    """Do what migrations left, on a session of its own in AUTOCOMMIT.

    Args:
        connection: as the owner, to the server itself: the lock of the builder is the session's.
        lock_seconds: for a lock that stands in others' way.
        build_seconds: for transactions older than a build, which stand in nobody's way meanwhile.

    Raises:
        SchemaError: one could not be done; it and what comes after it are left.
    """
    if not left(connection):
        return
    connection.execute(text("SET statement_timeout = 0"))
    _become_the_builder(connection, build_seconds)
    for number, statement in left(connection):
        # A build and a validation block no reader and no writer, also while they wait.
        patient = "CONCURRENTLY" in statement or "VALIDATE" in statement
        seconds = build_seconds if patient else lock_seconds
        connection.exec_driver_sql(f"SET lock_timeout = {int(1000 * seconds)}")
        try:
            if not _is_done(connection, statement):
                connection.exec_driver_sql(statement)
        except DBAPIError as error:
            raise _explained(statement, error) from None
        connection.execute(DONE, {"id": number})


def _become_the_builder(connection: Connection, seconds: float) -> None:
    # By trying: a session that waits for a lock holds a snapshot, for which a build would wait.
    deadline = time.monotonic() + seconds
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": ONE_BUILDER}):
        if time.monotonic() > deadline:
            raise SchemaError(
                "The schema is migrated; another migration still builds its indexes. Let it end, "
                "and migrate again."
            )
        time.sleep(0.2)


def _is_done(connection: Connection, statement: str) -> bool:
    """Tell whether an interrupted run did it; an index that it left invalid is dropped."""
    index = INDEX.match(statement)
    if index is not None:
        name = f"{index[2]}.{index[1]}"
        valid = connection.scalar(VALID, {"name": name})
        if valid is False:
            connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY {name}")
        return bool(valid)
    added = CONSTRAINT.match(statement)
    if added is None or "VALIDATE" in statement:
        return False  # To validate twice does nothing.
    return bool(connection.scalar(THERE, {"table": added[1], "name": added[2]}))


def _explained(statement: str, error: DBAPIError) -> SchemaError:
    what = " ".join(statement.split()[:6])
    if sqlstate(error) == LOCK_NOT_AVAILABLE:
        why = (
            "an older transaction is still open. Find it in pg_stat_activity by its xact_start, "
            "let it end"
        )
    else:
        # The server's own text may hold values.
        why = (
            f"Postgres refused it (SQLSTATE {sqlstate(error)}). Mend the rows that stand against it"
        )
    return SchemaError(
        f"The schema is migrated, but `{what} ...` is not done: {why}, and migrate again: it goes "
        "on where it stopped."
    )
