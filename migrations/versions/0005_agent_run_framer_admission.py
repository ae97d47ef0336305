"""`agents.agent_run` admits the framer: narrowly, so that every other rail keeps its constraints.

- `vega_matter_frame` joins each closed CHECK on agent_key;
- the scope constraint admits a run that names a matter and nothing else, for this rail alone;
- user_id may be absent, for this rail alone (`agent_run_user_present`);
- trigger_event_id is the consumer's dedupe key (EB-07), unique within a firm;
- claimed_generation fences what a run may still write (H10).

The names and texts of the constraints are the application's, so they are read from the catalogue,
widened, and put back word for word by the downgrade.
"""

import re

from pramaan_pipelines.errors import SchemaError
from pramaan_pipelines.store.ledger import Ledger
from pramaan_pipelines.store.roles import APP_ROLE

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLE = "agents.agent_run"
FRAMER = "vega_matter_frame"
UNREAD = " NOT VALID"
FRAMER_SCOPE = (
    f"(agent_key = '{FRAMER}' AND matter_id IS NOT NULL "
    "AND chat_session_id IS NULL AND wizard_form_id IS NULL)"
)
CHECKS = """
    SELECT quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = to_regclass('agents.agent_run') AND contype = 'c' ORDER BY conname
"""
INSERTED = (
    "id",
    "firm_id",
    "matter_id",
    "agent_key",
    "status",
    "started_at",
    "trigger_event_id",
    "claimed_generation",
    "traceparent",
    "tracestate",
)
CLOSED_SET = re.compile(r"(agent_key\)?(?:::text)? = ANY \(\(?ARRAY\[)")


A_SET = re.compile(r"agent_key\)?(?:::text)? = ANY ")
SCOPE = re.compile(r"CHECK \((.*)\)((?: NOT VALID)?)", flags=re.DOTALL)


def upgrade() -> None:
    ledger = Ledger(revision)
    ledger.force_row_security(TABLE)
    # The undo runs from the last entry to the first: row level security opens for the owner, each
    # step deletes the runs that could not have been before it, and it closes again.
    ledger.on_undo(f"ALTER TABLE {TABLE} FORCE ROW LEVEL SECURITY")
    for name, definition in ledger.rows(CHECKS):
        widened, impossible = _widened(definition)
        if widened != definition:
            valid = not (ledger.is_new(TABLE) or widened.endswith(UNREAD))
            unread = widened + UNREAD if valid else widened
            ledger.run(
                f"ALTER TABLE {TABLE} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} {unread}",
                f"ALTER TABLE {TABLE} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} {definition}",
            )
            if valid:
                ledger.validate_later(TABLE, name)
            ledger.on_undo(_delete_framer_runs(impossible))
    if ledger.exists(
        "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(:table) "
        "AND attname = 'user_id' AND attnotnull",
        table=TABLE,
    ):
        ledger.run(
            f"ALTER TABLE {TABLE} ALTER COLUMN user_id DROP NOT NULL",
            f"ALTER TABLE {TABLE} ALTER COLUMN user_id SET NOT NULL",
        )
        ledger.on_undo(_delete_framer_runs("user_id IS NULL"))
    ledger.check(TABLE, "agent_run_user_present", f"user_id IS NOT NULL OR agent_key = '{FRAMER}'")
    for column, ddl in {
        "trigger_event_id": "uuid",
        "claimed_generation": "bigint",
        "traceparent": "text",
        "tracestate": "text",
    }.items():
        ledger.column(TABLE, column, ddl)
    ledger.index(
        "agents",
        "agent_run_firm_id_trigger_event_id_key",
        f"{TABLE} (firm_id, trigger_event_id) WHERE trigger_event_id IS NOT NULL",
        unique=True,
    )
    ledger.index(
        "agents",
        "agent_run_firm_id_matter_id_generation_idx",
        f"{TABLE} (firm_id, matter_id, claimed_generation) WHERE claimed_generation IS NOT NULL",
    )
    ledger.revoke(APP_ROLE, TABLE, "DELETE")
    ledger.grant(APP_ROLE, TABLE, "SELECT")
    ledger.grant(APP_ROLE, TABLE, "INSERT", INSERTED)
    ledger.grant(APP_ROLE, TABLE, "UPDATE", ("status", "finished_at"))
    ledger.on_undo(f"ALTER TABLE {TABLE} NO FORCE ROW LEVEL SECURITY")


def downgrade() -> None:
    Ledger(revision).undo()


def _delete_framer_runs(which: str) -> str:
    return f"DELETE FROM {TABLE} WHERE agent_key = '{FRAMER}' AND {which}"


def _widened(definition: str) -> tuple[str, str]:
    """Return the definition that admits the framer, and which of its runs the old one refuses."""
    if FRAMER in definition:
        return definition, "false"
    if "chat_session_id" in definition and "wizard_form_id" in definition:
        inner = SCOPE.fullmatch(definition)
        if inner is None:
            raise _unreadable(definition)
        return f"CHECK (({inner[1]}) OR {FRAMER_SCOPE}){inner[2]}", f"({inner[1]}) IS FALSE"
    widened = CLOSED_SET.sub(rf"\g<1>'{FRAMER}'::text, ", definition)
    if widened == definition and A_SET.search(definition):
        raise _unreadable(definition)
    return widened, "true"


def _unreadable(definition: str) -> SchemaError:
    return SchemaError(
        f"a constraint of {TABLE} cannot be read ({definition}): "
        f"admit {FRAMER} in it by hand, then migrate again"
    )
