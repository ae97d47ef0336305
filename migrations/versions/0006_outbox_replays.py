"""Replays: how far each has come, and what lets a day of an outbox be read without the others.

A replay belongs to no firm: it names a lane and a day, and is the staff worker's alone.
"""

from pramaan_pipelines.store.ledger import Ledger
from pramaan_pipelines.store.outbox_ddl import STAFF, seal_staff
from pramaan_pipelines.store.roles import APP_ROLE

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = "ops.outbox_replays"
NAMED = {"lane": "text NOT NULL", "day": "date NOT NULL", "also_sent": "boolean NOT NULL"}
WRITTEN = {
    "status": "text NOT NULL DEFAULT 'open'",
    "updated_at": "timestamptz NOT NULL DEFAULT now()",
    # The last row that was sent before and has been passed, in the order (created_at, id).
    "passed_at": "timestamptz",
    "passed_id": "bigint",
    # Rows that were passed and not accepted: they are tried once more at the end.
    "owed": "bigint[] NOT NULL DEFAULT '{}'",
    "sent": "bigint NOT NULL DEFAULT 0",
    "again": "bigint NOT NULL DEFAULT 0",
    "failed": "bigint NOT NULL DEFAULT 0",
}


def upgrade() -> None:
    ledger = Ledger(revision)
    for outbox in ("document_ingest_outbox", "domain_event_outbox"):
        ledger.index(
            "ops",
            f"{outbox}_pending_day_idx",
            f"ops.{outbox} (event_type, created_at, id) "
            "WHERE dispatched_at IS NULL AND parked_at IS NULL",
        )
        ledger.index(
            "ops",
            f"{outbox}_sent_day_idx",
            f"ops.{outbox} (event_type, created_at, id) WHERE dispatched_at IS NOT NULL",
        )
    ledger.table(
        TABLE,
        {
            "id": "uuid NOT NULL DEFAULT gen_random_uuid()",
            **NAMED,
            "started_at": "timestamptz NOT NULL DEFAULT now()",
            **WRITTEN,
        },
        (
            "PRIMARY KEY (id)",
            "CONSTRAINT outbox_replays_status_check CHECK "
            "(status IN ('open', 'finished', 'abandoned'))",
            "CONSTRAINT outbox_replays_passed_check CHECK "
            "((passed_at IS NULL) = (passed_id IS NULL))",
        ),
    )
    # One that is unfinished is gone on with, and never doubled.
    ledger.index(
        "ops",
        "outbox_replays_open_key",
        f"{TABLE} (lane, day, also_sent) WHERE status = 'open'",
        unique=True,
    )
    ledger.force_row_security(TABLE)
    seal_staff(ledger, TABLE, "outbox_replays")
    ledger.policy(TABLE, "outbox_replays_staff_insert", f"FOR INSERT WITH CHECK ({STAFF})")
    ledger.grant(APP_ROLE, TABLE, "SELECT")
    ledger.grant(APP_ROLE, TABLE, "INSERT", tuple(NAMED))
    ledger.grant(APP_ROLE, TABLE, "UPDATE", tuple(WRITTEN))
    ledger.revoke(APP_ROLE, TABLE, "DELETE")


def downgrade() -> None:
    Ledger(revision).undo()
