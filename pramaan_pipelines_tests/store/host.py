"""The database of a real application before the pipeline comes, and what a catalogue says of one.

The names and forms are not ours on purpose: varchar columns, other constraint names, one that must
be quoted, grants by column.
"""
# ruff: noqa: S608 - statements made of constants

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from pramaan_pipelines.local.roles import OWNER

Connection = psycopg.Connection[tuple[Any, ...]]

FIRM = UUID("11111111-1111-4111-8111-111111111111")
MATTER = UUID("22222222-2222-4222-8222-222222222222")
USER = UUID("33333333-3333-4333-8333-333333333333")
FRAMER = "vega_matter_frame"

HOST = f"""
    SET ROLE {OWNER};
    CREATE SCHEMA ops;
    CREATE SCHEMA agents;
    GRANT USAGE ON SCHEMA ops, agents TO pramaan_app;

    CREATE TABLE firms (id uuid PRIMARY KEY, display_name varchar(200) NOT NULL);
    CREATE TABLE matters (
        id uuid PRIMARY KEY, firm_id uuid NOT NULL REFERENCES firms, caption varchar NOT NULL);
    CREATE TABLE documents (
        id uuid PRIMARY KEY,
        firm_id uuid NOT NULL REFERENCES firms,
        registration_status varchar(32) NOT NULL DEFAULT 'not_requested');
    CREATE TABLE firm_inference_egress_consents (
        firm_id uuid PRIMARY KEY REFERENCES firms, granted boolean NOT NULL, recorded_by varchar);

    CREATE TABLE ops.document_ingest_outbox (
        id bigserial PRIMARY KEY,
        event_id uuid NOT NULL CONSTRAINT uq_outbox_event UNIQUE,
        firm_id uuid NOT NULL REFERENCES firms,
        document_id uuid NOT NULL REFERENCES documents,
        event_type varchar(100) NOT NULL,
        traceparent varchar,
        tracestate varchar,
        created_at timestamptz NOT NULL DEFAULT now(),
        dispatched_at timestamptz,
        last_dispatch_error varchar);
    CREATE INDEX ix_outbox_undispatched ON ops.document_ingest_outbox (created_at)
        WHERE dispatched_at IS NULL;

    CREATE TABLE agents.agent_run (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        firm_id uuid NOT NULL REFERENCES firms,
        matter_id uuid REFERENCES matters,
        chat_session_id uuid,
        wizard_form_id uuid,
        user_id uuid NOT NULL,
        agent_key varchar(64) NOT NULL,
        status varchar(32) NOT NULL DEFAULT 'queued',
        created_at timestamptz DEFAULT now(),
        started_at timestamptz,
        finished_at timestamptz,
        CONSTRAINT ck_known CHECK (agent_key IN ('blake_registrar', 'clerk_chat', 'wizard_fill')),
        CONSTRAINT "ck Starts" CHECK (started_at IS NULL OR agent_key::text = ANY (
            ARRAY['blake_registrar'::text, 'clerk_chat', 'wizard_fill'])),
        CONSTRAINT ck_matter CHECK (
            matter_id IS NULL OR agent_key IN ('blake_registrar', 'clerk_chat')),
        CONSTRAINT ck_scope CHECK (
            (chat_session_id IS NOT NULL)::int + (wizard_form_id IS NOT NULL)::int = 1),
        CONSTRAINT ck_wizard CHECK (agent_key <> 'wizard_fill' OR wizard_form_id IS NOT NULL),
        CONSTRAINT ck_label CHECK (agent_key NOT LIKE '%:%'));

    DO $$
    DECLARE name text;
    BEGIN
        FOREACH name IN ARRAY ARRAY['matters', 'documents', 'firm_inference_egress_consents',
            'ops.document_ingest_outbox', 'agents.agent_run'] LOOP
            EXECUTE 'ALTER TABLE ' || name || ' ENABLE ROW LEVEL SECURITY';
            EXECUTE 'CREATE POLICY tenant ON ' || name || ' USING '
                '(firm_id::text = current_setting(''app.firm_id'', true))';
        END LOOP;
    END $$;
    ALTER TABLE matters FORCE ROW LEVEL SECURITY;
    GRANT SELECT, INSERT, UPDATE ON firms, matters, documents, firm_inference_egress_consents
        TO pramaan_app;
    GRANT SELECT, INSERT, DELETE ON ops.document_ingest_outbox TO pramaan_app;
    GRANT USAGE ON SEQUENCE ops.document_ingest_outbox_id_seq TO pramaan_app;
    GRANT UPDATE (dispatched_at) ON ops.document_ingest_outbox TO pramaan_app;
    GRANT SELECT, UPDATE, DELETE ON agents.agent_run TO pramaan_app;
    GRANT INSERT (id, firm_id, chat_session_id, wizard_form_id, user_id, agent_key, status)
        ON agents.agent_run TO pramaan_app;
    RESET ROLE;

    INSERT INTO firms VALUES ('{FIRM}', 'Host & Partners');
    INSERT INTO matters VALUES ('{MATTER}', '{FIRM}', 'In re Host');
    INSERT INTO firm_inference_egress_consents VALUES ('{FIRM}', true, 'a clerk');
    INSERT INTO documents VALUES (gen_random_uuid(), '{FIRM}'), (gen_random_uuid(), '{FIRM}');
    -- A trace that is none, as an application without a live span may have written it.
    INSERT INTO ops.document_ingest_outbox (event_id, firm_id, document_id, event_type, traceparent)
        SELECT gen_random_uuid(), firm_id, id, 'document.ingest.requested', '' FROM documents;
    INSERT INTO agents.agent_run (firm_id, chat_session_id, user_id, agent_key)
        VALUES ('{FIRM}', gen_random_uuid(), '{USER}', 'clerk_chat');
"""

HOST_TABLES = (
    "firms",
    "matters",
    "documents",
    "firm_inference_egress_consents",
    "ops.document_ingest_outbox",
    "agents.agent_run",
)

CATALOGUE = """
    WITH mine AS (
        SELECT oid, nspname FROM pg_namespace
        WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'
    ), relations AS (
        SELECT c.*, format('%I.%I', m.nspname, c.relname) AS name
        FROM pg_class c JOIN mine m ON m.oid = c.relnamespace
    ), granted AS (
        SELECT 'schema ' || n.nspname AS what, n.nspacl AS acl, n.nspowner AS owner, 'n' AS kind
        FROM pg_namespace n JOIN mine USING (oid)
        UNION ALL
        SELECT 'relation ' || name, relacl, relowner, CASE relkind WHEN 'S' THEN 's' ELSE 'r' END
        FROM relations WHERE relkind IN ('r', 'v', 'S')
    )
    SELECT 'schema', nspname, '' FROM mine
    UNION ALL
    SELECT 'relation', name, format('%s owner=%s security=%s forced=%s', relkind,
        pg_get_userbyid(relowner), relrowsecurity, relforcerowsecurity) FROM relations
    UNION ALL
    SELECT 'column', r.name || '.' || a.attname, format('%s null=%s identity=%s default=%s',
        format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.attidentity,
        pg_get_expr(d.adbin, d.adrelid))
    FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid
    LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'v')
    UNION ALL
    SELECT 'constraint', r.name || '.' || conname, pg_get_constraintdef(k.oid)
    FROM relations r JOIN pg_constraint k ON k.conrelid = r.oid
    UNION ALL
    SELECT 'index', name, pg_get_indexdef(oid) FROM relations WHERE relkind = 'i'
    UNION ALL
    SELECT 'policy', r.name || '.' || polname, format('%s permissive=%s to=%s using=%s check=%s',
        polcmd, polpermissive, (SELECT array_agg(pg_get_userbyid(o) ORDER BY o)
            FROM unnest(polroles) o),
        pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
    FROM relations r JOIN pg_policy p ON p.polrelid = r.oid
    UNION ALL
    SELECT 'function', p.oid::regprocedure::text, p.prosrc
    FROM pg_proc p JOIN mine m ON m.oid = p.pronamespace
    UNION ALL
    SELECT 'grant', g.what, format('%s to %s', a.privilege_type,
        CASE a.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END)
    FROM granted g, aclexplode(coalesce(g.acl, acldefault(g.kind::"char", g.owner))) a
    UNION ALL
    SELECT 'column grant', r.name || '.' || t.attname, format('%s to %s', a.privilege_type,
        pg_get_userbyid(a.grantee))
    FROM relations r JOIN pg_attribute t ON t.attrelid = r.oid, aclexplode(t.attacl) a
    WHERE NOT t.attisdropped
"""

CASTS = re.compile(r"::(character varying|text)(\[\])?|[()]")


def build_host(god: Connection) -> None:
    """Make the application's tables and rows; `god` is a superuser's connection."""
    god.execute(HOST)


def catalogue(god: Connection) -> set[tuple[Any, ...]]:
    """Return every schema, table, column, constraint, index, policy and grant of the database.

    Postgres writes a varchar's casts in another way after it has read its own text once, so a
    constraint is compared without casts and parentheses.
    """
    return {
        (kind, name, CASTS.sub("", text) if kind == "constraint" else text)
        for kind, name, text in god.execute(CATALOGUE)
    }


def host_rows(god: Connection) -> dict[str, list[dict[str, Any]]]:
    """Return what stands in the application's tables, as it stands there."""
    return {
        table: [
            dict(row)
            for (row,) in god.execute(
                sql.SQL("SELECT to_jsonb(t) FROM {} t ORDER BY 1").format(sql.SQL(table))
            )
        ]
        for table in HOST_TABLES
    }


class Attempt(NamedTuple):
    """One way to write an agent run."""

    agent_key: str
    matter_id: UUID | None
    chat_session_id: UUID | None
    wizard_form_id: UUID | None
    user_id: UUID | None
    started: bool

    @property
    def is_matter_only(self) -> bool:
        """Whether it names a matter and nothing else."""
        return (
            self.matter_id is not None
            and self.chat_session_id is None
            and self.wizard_form_id is None
        )


def every_attempt() -> Iterator[Attempt]:
    """Return every combination of what the constraints look at."""
    keys = ("blake_registrar", "clerk_chat", "wizard_fill", "a:b", "nobody", FRAMER)
    for key, matter, chat, wizard, user, started in itertools.product(
        keys, (None, MATTER), (None, MATTER), (None, MATTER), (None, USER), (False, True)
    ):
        yield Attempt(key, matter, chat, wizard, user, started)


def refusal(god: Connection, attempt: Attempt) -> str | None:
    """Try to write the run and take it back; return what refused it (a constraint or a column)."""
    values: Mapping[str, object] = {**attempt._asdict(), "firm_id": FIRM}
    try:
        with god.transaction(force_rollback=True):
            god.execute(
                "INSERT INTO agents.agent_run (firm_id, matter_id, chat_session_id, "
                "wizard_form_id, user_id, agent_key, status, started_at) VALUES "
                "(%(firm_id)s, %(matter_id)s, %(chat_session_id)s, %(wizard_form_id)s, "
                "%(user_id)s, %(agent_key)s, 'queued', CASE WHEN %(started)s THEN now() END)",
                values,
            )
    except psycopg.errors.IntegrityError as error:
        return str(
            error.diag.column_name
            if isinstance(error, psycopg.errors.NotNullViolation)
            else error.diag.constraint_name
        )
    return None


def refusals(god: Connection) -> dict[Attempt, str | None]:
    """Return what becomes of every attempt."""
    return {attempt: refusal(god, attempt) for attempt in every_attempt()}
