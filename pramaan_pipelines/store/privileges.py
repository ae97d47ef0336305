"""What each role must be granted, and by whom it is used: the migrations grant it, doctor looks.

Promises: on the tables that are the pipeline's, this is all that is granted, column by column; the
tests hold it to a migrated database, and each grant to a use.
Never: names what the application does with its own tables.
"""

from typing import Final, NamedTuple

from sqlalchemy import Connection, text

from pramaan_pipelines.store.ledger import VERSION_TABLE
from pramaan_pipelines.store.outbox_ddl import DISPATCH, TRACE
from pramaan_pipelines.store.roles import APP_ROLE, MAINTENANCE_ROLE

DOCUMENTS: Final = "ops.document_ingest_outbox"
EVENTS: Final = "ops.domain_event_outbox"
JOBS: Final = "ops.matter_frame_jobs"
RUNS: Final = "agents.agent_run"
REPLAYS: Final = "ops.outbox_replays"
SEALED: Final = (DOCUMENTS, EVENTS, JOBS, RUNS, REPLAYS)
"""The tables from which nothing is ever deleted as the service."""

_FRAME_JOB: Final = (
    *("run_status", "requested_generation", "claimed_generation", "claimed_at"),
    *("last_skip_reason", "last_skip_at"),
)


class Grant(NamedTuple):
    """One privilege of a role.

    Attributes:
        role: who has it.
        on: the table, or `SCHEMA name`.
        privilege: as in GRANT.
        columns: on which columns; on none, on the whole.
        used_by: which process of the pipeline needs it.
    """

    role: str
    on: str
    privilege: str
    columns: tuple[str, ...]
    used_by: str


REQUIRED: Final = (
    Grant(APP_ROLE, "SCHEMA ops", "USAGE", (), "all"),
    Grant(APP_ROLE, "SCHEMA agents", "USAGE", (), "framer"),
    Grant(APP_ROLE, f"public.{VERSION_TABLE}", "SELECT", (), "doctor, checks"),
    Grant(APP_ROLE, DOCUMENTS, "SELECT", (), "relays, buttons, checks"),
    Grant(
        APP_ROLE,
        DOCUMENTS,
        "INSERT",
        ("firm_id", "event_type", "event_id", "document_id", *TRACE),
        "producers",
    ),
    Grant(APP_ROLE, DOCUMENTS, "UPDATE", tuple(DISPATCH), "relays, buttons"),
    Grant(APP_ROLE, EVENTS, "SELECT", (), "relays, buttons, checks"),
    Grant(
        APP_ROLE,
        EVENTS,
        "INSERT",
        ("firm_id", "event_type", "event_id", "envelope", *TRACE),
        "producers",
    ),
    Grant(APP_ROLE, EVENTS, "UPDATE", tuple(DISPATCH), "relays, buttons"),
    Grant(APP_ROLE, REPLAYS, "SELECT", (), "replays"),
    Grant(APP_ROLE, REPLAYS, "INSERT", ("lane", "day", "also_sent"), "replays"),
    Grant(
        APP_ROLE,
        REPLAYS,
        "UPDATE",
        (
            *("status", "updated_at", "passed_at", "passed_id"),
            *("owed", "sent", "again", "failed"),
        ),
        "replays",
    ),
    Grant(APP_ROLE, JOBS, "SELECT", (), "framer, sweep, healing, checks"),
    Grant(APP_ROLE, JOBS, "INSERT", ("firm_id", "matter_id", *_FRAME_JOB), "framer"),
    Grant(
        APP_ROLE,
        JOBS,
        "UPDATE",
        (*_FRAME_JOB, "rebuild_needed", "pending_event_id", "failed_tries", "updated_at"),
        "framer, sweep, healing",
    ),
    Grant(APP_ROLE, RUNS, "SELECT", (), "framer, sweep"),
    Grant(
        APP_ROLE,
        RUNS,
        "INSERT",
        (
            *("id", "firm_id", "matter_id", "agent_key", "status", "started_at"),
            *("trigger_event_id", "claimed_generation", *TRACE),
        ),
        "framer",
    ),
    Grant(APP_ROLE, RUNS, "UPDATE", ("status", "finished_at"), "framer, sweep"),
    # The application's tables: what the pipeline itself reads and writes there.
    Grant(APP_ROLE, "public.matters", "SELECT", ("id", "firm_id"), "framer, healing"),
    Grant(APP_ROLE, "public.matters", "INSERT", ("id", "firm_id", "title"), "producers"),
    Grant(
        APP_ROLE,
        "public.firm_inference_egress_consents",
        "SELECT",
        ("firm_id", "granted"),
        "framer, healing",
    ),
    Grant(
        APP_ROLE,
        "public.documents",
        "SELECT",
        ("id", "firm_id", "registration_status"),
        "producers",
    ),
    Grant(APP_ROLE, "public.documents", "UPDATE", ("registration_status",), "producers"),
    Grant(MAINTENANCE_ROLE, "SCHEMA ops", "USAGE", (), "pruning"),
    Grant(MAINTENANCE_ROLE, DOCUMENTS, "SELECT", ("id", "dispatched_at"), "pruning"),
    Grant(MAINTENANCE_ROLE, DOCUMENTS, "DELETE", (), "pruning"),
    Grant(MAINTENANCE_ROLE, EVENTS, "SELECT", ("id", "dispatched_at"), "pruning"),
    Grant(MAINTENANCE_ROLE, EVENTS, "DELETE", (), "pruning"),
)

# By the catalogue: to_regclass raises where the schema may not be looked into.
LACKING: Final = text("""
    WITH wanted AS (
        SELECT * FROM unnest(
            CAST(:targets AS text[]), CAST(:privileges AS text[]), CAST(:names AS text[]))
            AS wanted(target, privilege, name)
    ), tables AS (
        SELECT c.oid, n.nspname || '.' || c.relname AS target
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    )
    SELECT wanted.target, wanted.privilege, wanted.name
    FROM wanted LEFT JOIN tables ON tables.target = wanted.target
    WHERE NOT CASE
        WHEN wanted.target LIKE 'SCHEMA %' THEN has_schema_privilege(
            current_user, to_regnamespace(substr(wanted.target, 8))::oid, wanted.privilege)
        WHEN wanted.name IS NULL
            THEN has_table_privilege(current_user, tables.oid, wanted.privilege)
        ELSE has_column_privilege(current_user, tables.oid, wanted.name, wanted.privilege)
    END
    ORDER BY 1, 2, 3
""")

TOO_MUCH: Final = text("""
    SELECT n.nspname || '.' || c.relname, privilege
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
         unnest(ARRAY['DELETE', 'TRUNCATE']) AS privilege
    WHERE n.nspname || '.' || c.relname = ANY (CAST(:targets AS text[]))
      AND has_table_privilege(current_user, c.oid, privilege)
    ORDER BY 1, 2
""")


def lacking(connection: Connection, role: str) -> list[str]:
    """Return the grants of `role` that the connection's user has not, each as GRANT names it."""
    atoms = [
        (grant.on, grant.privilege, column)
        for grant in REQUIRED
        if grant.role == role
        for column in grant.columns or (None,)
    ]
    targets, privileges, names = (list(each) for each in zip(*atoms, strict=True))
    found = connection.execute(
        LACKING, {"targets": targets, "privileges": privileges, "names": names}
    )
    return [f"{kind}{f' ({name})' if name else ''} ON {target}" for target, kind, name in found]


def too_much(connection: Connection) -> list[str]:
    """Return what the connection's user could delete of the sealed tables, as REVOKE names it."""
    found = connection.execute(TOO_MUCH, {"targets": list(SEALED)})
    return [f"{privilege} ON {target}" for target, privilege in found]
