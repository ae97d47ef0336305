"""Roles, schemas, and the application's tables where they are absent.

In a real installation the application has made these already, and this revision leaves them as they
are; only `agents.agent_run` is extended, by what a framer's run needs. Alone, the pipeline makes
them in the form that the application gave them before the framer: revision 0005 then extends both
in the same way.
"""

from pramaan_pipelines.store.ledger import LEDGER_TABLE, Ledger
from pramaan_pipelines.store.roles import APP_ROLE, MAINTENANCE_ROLE
from pramaan_pipelines.store.scope_ddl import make_scope

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = "uuid PRIMARY KEY DEFAULT gen_random_uuid()"
NOW = "timestamptz NOT NULL DEFAULT now()"

MY_FIRM = "firm_id = (SELECT ops.pramaan_firm(false))"
FIRM_ADMIN = "(SELECT current_setting('app.role', true)) = 'firm_admin'"
MY_USER = "(SELECT NULLIF(current_setting('app.user_id', true), '')::uuid)"

# The planner's estimate for `title = 'a guess'` would tell any firm that another has such a matter.
UNGUESSED = "ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0"

AGENTS = "'blake_registrar', 'clerk_chat', 'wizard_fill'"


def upgrade() -> None:
    ledger = Ledger(revision)
    for role in (APP_ROLE, MAINTENANCE_ROLE):
        ledger.login_role(role)
    for schema in ("ops", "agents"):
        ledger.schema(schema)
        ledger.grant_usage(APP_ROLE, schema)
    ledger.grant_usage(MAINTENANCE_ROLE, "ops")
    make_scope(ledger)
    _firms(ledger)
    _matters(ledger)
    _documents(ledger)
    _agent_run(ledger)
    # So that the service can tell whether the database is at the revision that it needs.
    ledger.grant(APP_ROLE, "public.pramaan_pipelines_version", "SELECT")


def downgrade() -> None:
    ledger = Ledger(revision)
    ledger.undo()
    ledger.run(f"DROP TABLE public.{LEDGER_TABLE}", None)


def _firms(ledger: Ledger) -> None:
    if ledger.absent("public.firms"):
        ledger.table("public.firms", {"id": ID, "name": "text NOT NULL", "created_at": NOW})
        ledger.run(UNGUESSED.format(table="public.firms", column="name"), None)
        mine = MY_FIRM.replace("firm_id", "id", 1)
        _seal(
            ledger,
            "public.firms",
            f"USING ({mine}) WITH CHECK ({mine} AND {FIRM_ADMIN})",
            ("name",),
        )
    if ledger.absent("public.firm_inference_egress_consents"):
        ledger.table(
            "public.firm_inference_egress_consents",
            {"firm_id": "uuid PRIMARY KEY", "granted": "boolean NOT NULL", "updated_at": NOW},
        )
        _seal(
            ledger,
            "public.firm_inference_egress_consents",
            f"USING ({MY_FIRM}) WITH CHECK ({MY_FIRM} AND {FIRM_ADMIN})",
            ("granted", "updated_at"),
        )


def _matters(ledger: Ledger) -> None:
    if not ledger.absent("public.matters"):
        return
    if ledger.absent("public.matter_assignments"):
        ledger.table(
            "public.matter_assignments",
            {"firm_id": "uuid NOT NULL", "matter_id": "uuid NOT NULL", "user_id": "uuid NOT NULL"},
            # The firm first: a key without it tells one firm of another's rows, and lets it take
            # their place.
            ("PRIMARY KEY (firm_id, matter_id, user_id)",),
        )
        # A user sees what it is assigned, and does not assign itself.
        _seal(
            ledger,
            "public.matter_assignments",
            f"USING ({MY_FIRM} AND ({FIRM_ADMIN} OR user_id = {MY_USER})) "
            f"WITH CHECK ({MY_FIRM} AND {FIRM_ADMIN})",
            ("user_id",),
        )
    ledger.table(
        "public.matters",
        {"id": ID, "firm_id": "uuid NOT NULL", "title": "text NOT NULL", "created_at": NOW},
    )
    ledger.run(UNGUESSED.format(table="public.matters", column="title"), None)
    assigned = (
        "EXISTS (SELECT 1 FROM public.matter_assignments a "
        f"WHERE a.matter_id = matters.id AND a.user_id = {MY_USER})"
    )
    _seal(
        ledger,
        "public.matters",
        f"USING ({MY_FIRM} AND ({FIRM_ADMIN} OR {assigned})) WITH CHECK ({MY_FIRM})",
        ("title",),
    )


def _documents(ledger: Ledger) -> None:
    if ledger.absent("public.documents"):
        ledger.table(
            "public.documents",
            {
                "id": ID,
                "firm_id": "uuid NOT NULL",
                "matter_id": "uuid",
                "registration_status": "text NOT NULL DEFAULT 'not_requested'",
                "created_at": NOW,
            },
            (
                "CONSTRAINT documents_registration_status_check CHECK (registration_status IN "
                "('not_requested', 'queued', 'registering', 'registered', 'failed'))",
            ),
        )
        _seal(
            ledger,
            "public.documents",
            f"USING ({MY_FIRM}) WITH CHECK ({MY_FIRM})",
            ("matter_id", "registration_status"),
        )


def _agent_run(ledger: Ledger) -> None:
    table = "agents.agent_run"
    ledger.table(
        table,
        {
            "id": "uuid NOT NULL DEFAULT gen_random_uuid()",
            "firm_id": "uuid NOT NULL",
            "matter_id": "uuid",
            "chat_session_id": "uuid",
            "wizard_form_id": "uuid",
            "user_id": "uuid NOT NULL",
            "agent_key": "text NOT NULL",
            "status": "text NOT NULL",
            "created_at": NOW,
            "started_at": "timestamptz",
            "finished_at": "timestamptz",
        },
        (
            "PRIMARY KEY (id)",
            "CONSTRAINT agent_run_status_check CHECK "
            "(status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled'))",
            # The three closed sets: which agents there are, which of them may start by themselves,
            # and which may name a matter.
            f"CONSTRAINT agent_run_agent_key_check CHECK (agent_key IN ({AGENTS}))",
            "CONSTRAINT agent_run_started_check CHECK "
            f"(started_at IS NULL OR agent_key IN ({AGENTS}))",
            "CONSTRAINT agent_run_matter_check CHECK "
            f"(matter_id IS NULL OR agent_key IN ({AGENTS}))",
            "CONSTRAINT agent_run_scope_check CHECK "
            "(num_nonnulls(chat_session_id, wizard_form_id) = 1)",
        ),
    )
    ledger.force_row_security(table)
    if not ledger.exists("SELECT 1 FROM pg_policy WHERE polrelid = to_regclass(:t)", t=table):
        mine = f"{MY_FIRM} AND ({FIRM_ADMIN} OR user_id = {MY_USER})"
        ledger.policy(table, "agent_run_firm_isolation", f"USING ({mine}) WITH CHECK ({mine})")


def _seal(ledger: Ledger, table: str, policy: str, updated: tuple[str, ...]) -> None:
    ledger.force_row_security(table)
    ledger.policy(table, f"{table.split('.')[1]}_firm_isolation", policy)
    for privilege in ("SELECT", "INSERT"):
        ledger.grant(APP_ROLE, table, privilege)
    # By column: a right to update the whole table is also one to lock it against everybody.
    ledger.grant(APP_ROLE, table, "UPDATE", updated)
