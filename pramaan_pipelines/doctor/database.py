"""What doctor looks at in Postgres, on one connection a role.

Promises: reads catalogues, our version table and the clock; each problem says what to do.
Never: changes a thing, or reads a row of a firm's.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Connection, text

from pramaan_pipelines.store import migrate, privileges
from pramaan_pipelines.store.privileges import SEALED
from pramaan_pipelines.store.roles import APP_ROLE, MAINTENANCE_ROLE
from pramaan_pipelines.store.tables import METADATA

MAX_SKEW_SECONDS: Final = 5.0
"""Between the host's clock and the database's. Leases and pauses go by the database's alone; times
in logs, spans and envelopes by the host's, and AWS refuses a request that is five minutes off."""

ROLE: Final = text("""
    SELECT rolsuper, rolbypassrls,
           EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.relowner = r.oid
                     AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema')
    FROM pg_roles r WHERE rolname = current_user
""")

PRESENT: Final = text("""
    SELECT n.nspname || '.' || c.relname, c.relrowsecurity AND c.relforcerowsecurity
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname || '.' || c.relname = ANY (CAST(:tables AS text[]))
""")

POLICIES: Final = text("""
    SELECT schemaname || '.' || tablename, policyname, permissive = 'PERMISSIVE'
           AND (coalesce(qual, '') = 'true' OR coalesce(with_check, '') = 'true')
    FROM pg_policies WHERE schemaname || '.' || tablename = ANY (CAST(:tables AS text[]))
""")
UNBUILT: Final = text("""
    SELECT name FROM unnest(CAST(:indexes AS text[])) AS wanted(name)
    WHERE NOT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(name) AND indisvalid)
    ORDER BY name
""")
OPEN_TO_ALL: Final = "lets everybody past: DROP POLICY it, it is none of the migrations'"

NEEDED_POLICIES: Final = {
    "ops.document_ingest_outbox": ("firm_insert", "firm_isolation", "staff_select", "staff_update"),
    "ops.domain_event_outbox": ("firm_insert", "firm_isolation", "staff_select", "staff_update"),
    "ops.matter_frame_jobs": ("firm_isolation", "staff_select", "staff_update"),
    "ops.outbox_replays": ("staff_insert", "staff_select", "staff_update"),
}
"""By the ends of their names; on agents.agent_run the application may have its own."""


def migration_problems(connection: Connection) -> Iterator[str]:
    """Yield where the database is not at this code's revision, or lacks a table all the same."""
    at, head = migrate.revision_of(connection), migrate.head()
    if at is not None and at > head:
        yield f"the database is at {at}, newer than this code ({head}): deploy the newer code"
    elif at != head:
        yield f"the database is at {at or 'no revision'}, this code needs {head}: `pramaan migrate`"
    present = {name for name, _ in connection.execute(PRESENT, {"tables": list(SEALED)})}
    for table in SEALED:
        if table not in present:
            yield f"{table} is not there, whatever the revision says: restore it, or migrate anew"
    indexes = [
        f"{table.schema}.{index.name}"
        for table in METADATA.tables.values()
        for index in table.indexes
    ]
    for (index,) in connection.execute(UNBUILT, {"indexes": indexes}):
        yield (
            f"index {index} is not there, or its build was broken off: `pramaan migrate` goes on "
            "with what a migration left; otherwise drop it and create it as migrations/versions has"
        )


def row_security_problems(connection: Connection) -> Iterator[str]:
    """Yield each table of ours that a session could read past its firm."""
    tables = {"tables": list(SEALED)}
    forced: dict[str, bool] = dict(tuple(row) for row in connection.execute(PRESENT, tables))
    policies: dict[str, set[str]] = {table: set() for table in forced}
    for table, policy, is_open in connection.execute(POLICIES, tables):
        policies[table].add(policy)
        if is_open:
            yield f"policy {policy} on {table} {OPEN_TO_ALL}"
    for table in sorted(forced):
        if not forced[table]:
            yield f"{table} does not force row level security: `pramaan migrate`, or ALTER TABLE it"
        short = table.split(".")[1]
        for end in NEEDED_POLICIES.get(table, ()):
            if f"{short}_{end}" not in policies[table]:
                yield (
                    f"policy {short}_{end} on {table} is gone: create it again, as "
                    "migrations/versions has it"
                )
        if not policies[table]:
            yield f"{table} has no policy: nobody sees a row of it; create one, as 0001 does"


def role_problems(connection: Connection) -> Iterator[str]:
    """Yield what makes the service's role more than a role under row level security."""
    is_super, bypasses, owns = connection.execute(ROLE).one()
    if is_super:
        yield "DATABASE_URL's role is a superuser: use pramaan_app"
    elif bypasses:
        yield "DATABASE_URL's role bypasses row level security: ALTER ROLE it NOBYPASSRLS"
    if owns:
        yield "DATABASE_URL's role owns tables: use pramaan_app, which owns nothing"


def grant_problems(connection: Connection) -> Iterator[str]:
    """Yield the grants that the service's role lacks, and those it must not have."""
    missing = privileges.lacking(connection, APP_ROLE)
    if missing:
        yield f"the role lacks {', '.join(missing)}: GRANT it, as docs/privileges.md lists"
    for what in privileges.too_much(connection):
        yield f"the role may {what}: REVOKE it"


def maintenance_problems(connection: Connection) -> Iterator[str]:
    """Yield what keeps the pruning's role from pruning, or lets it do more."""
    role = connection.scalar(text("SELECT current_user"))
    if role != MAINTENANCE_ROLE:
        yield f"MAINTENANCE_DATABASE_URL is of the role {role}: pruning needs {MAINTENANCE_ROLE}"
        return
    missing = privileges.lacking(connection, MAINTENANCE_ROLE)
    if missing:
        yield f"the role lacks {', '.join(missing)}: GRANT it, as docs/privileges.md lists"


def clock_problems(connection: Connection) -> Iterator[str]:
    """Yield how far the host's clock and the database's are apart, where that is too far."""
    before = datetime.now(UTC)
    database = connection.scalar(text("SELECT clock_timestamp()"))
    after = datetime.now(UTC)
    if not isinstance(database, datetime):
        yield "the database tells no time"
        return
    # The answer was made somewhere between the two, however long the way was.
    skew = max((before - database).total_seconds(), (database - after).total_seconds(), 0.0)
    if skew > MAX_SKEW_SECONDS:
        yield (
            f"the clocks of this host and of the database are {skew:.0f} s apart, and at most "
            f"{MAX_SKEW_SECONDS:.0f} s are harmless: look at the time service of both"
        )
