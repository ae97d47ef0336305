"""The shape that every outbox has in the database, used by the migrations.

Promises: producers may insert what is theirs and nothing else; a relay, as staff, may read and may
write the dispatch columns; only the maintenance role may delete, and only what was dispatched.
Never: changed for an outbox that a released migration has made; a new revision alters it.
"""

from collections.abc import Mapping
from typing import Final

from pramaan_pipelines.errors import SchemaError
from pramaan_pipelines.store.ledger import Ledger
from pramaan_pipelines.store.roles import APP_ROLE, MAINTENANCE_ROLE

MY_FIRM: Final = "firm_id = (SELECT ops.pramaan_firm(true))"
STAFF: Final = "(SELECT ops.pramaan_is_staff())"

DISPATCH: Final = {
    "dispatched_at": "timestamptz",
    "last_dispatch_error": "text",
    "attempts": "integer NOT NULL DEFAULT 0",
    "next_attempt_at": "timestamptz NOT NULL DEFAULT now()",
    "parked_at": "timestamptz",
    "parked_reason": "text",
}
TRACE: Final = {"traceparent": "text", "tracestate": "text"}


def make_outbox(ledger: Ledger, name: str, own: Mapping[str, str]) -> None:
    """Make the outbox `ops.<name>` with its own columns beside the common ones.

    Raises:
        SchemaError: the outbox exists, with an `id` that tells nothing of the order of its rows.
    """
    table = f"ops.{name}"
    made = ledger.table(
        table,
        {
            "id": "bigint NOT NULL GENERATED ALWAYS AS IDENTITY",
            "firm_id": "uuid NOT NULL",
            "event_type": "text NOT NULL",
            **own,
            **TRACE,
            "created_at": "timestamptz NOT NULL DEFAULT now()",
            **DISPATCH,
        },
        ("PRIMARY KEY (id)",),
    )
    _require_order(ledger, table)
    ledger.unique(table, f"{name}_event_id_key", "event_id")
    if made:
        # An application that has the table may write there what it likes, and has rows already.
        # Any two hex flag digits: today's root spans end in -03.
        ledger.check(
            table,
            f"{name}_traceparent_check",
            "traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'",
        )
        ledger.check(table, f"{name}_tracestate_check", "length(tracestate) <= 512")
        ledger.check(table, f"{name}_event_type_check", "length(event_type) <= 100")
    ledger.check(table, f"{name}_parked_check", "parked_at IS NULL OR dispatched_at IS NULL")
    ledger.index(
        "ops",
        f"{name}_pending_idx",
        f"{table} (event_type, id) WHERE dispatched_at IS NULL AND parked_at IS NULL",
    )
    ledger.index(
        "ops", f"{name}_parked_idx", f"{table} (event_type, id) WHERE parked_at IS NOT NULL"
    )
    ledger.index(
        "ops",
        f"{name}_dispatched_idx",
        f"{table} (dispatched_at) WHERE dispatched_at IS NOT NULL",
    )
    ledger.force_row_security(table)
    # A firm reads and writes what it announces, and does not mark it as sent.
    ledger.policy(table, f"{name}_firm_isolation", f"FOR SELECT USING ({MY_FIRM})")
    ledger.policy(table, f"{name}_firm_insert", f"FOR INSERT WITH CHECK ({MY_FIRM})")
    seal_staff(ledger, table, name)
    ledger.policy(
        table,
        f"{name}_maintenance_read",
        f"FOR SELECT TO {MAINTENANCE_ROLE} USING (dispatched_at IS NOT NULL)",
    )
    ledger.policy(
        table,
        f"{name}_maintenance_prune",
        f"FOR DELETE TO {MAINTENANCE_ROLE} USING (dispatched_at IS NOT NULL)",
    )
    # Whatever scope it sets, and so whatever the firm's policy would let it do.
    ledger.policy(
        table,
        f"{name}_maintenance_bound",
        f"AS RESTRICTIVE FOR DELETE TO {MAINTENANCE_ROLE} USING (dispatched_at IS NOT NULL)",
    )
    ledger.grant(APP_ROLE, table, "SELECT")
    ledger.grant(APP_ROLE, table, "INSERT", ("firm_id", "event_type", *own, *TRACE))
    ledger.grant(APP_ROLE, table, "UPDATE", tuple(DISPATCH))
    ledger.grant(MAINTENANCE_ROLE, table, "SELECT", ("id", "dispatched_at"))
    ledger.grant(MAINTENANCE_ROLE, table, "DELETE")
    ledger.revoke(APP_ROLE, table, "DELETE")


def _require_order(ledger: Ledger, table: str) -> None:
    ((kind,),) = ledger.rows(
        "SELECT format_type(atttypid, NULL) FROM pg_attribute "
        "WHERE attrelid = to_regclass(:table) AND attname = 'id'",
        table=table,
    )
    if kind not in {"bigint", "integer"}:
        raise SchemaError(
            f"{table} exists with an id of type {kind}, and a drain takes rows in the order of "
            "their id: give the table a bigint identity column of that name, then migrate again"
        )


def seal_staff(ledger: Ledger, table: str, name: str) -> None:
    """Let the staff worker read and update `table`; never insert, never delete."""
    ledger.policy(table, f"{name}_staff_select", f"FOR SELECT USING ({STAFF})")
    ledger.policy(table, f"{name}_staff_update", f"FOR UPDATE USING ({STAFF}) WITH CHECK ({STAFF})")
