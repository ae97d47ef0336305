"""The frame jobs: one row per matter says who may build its frame.

Columns, statuses and claim semantics are shared with other services: add, never reshape.
`pending_event_id` and `failed_tries` are the pipeline's own additions.
"""

from pramaan_pipelines.store.ledger import Ledger
from pramaan_pipelines.store.outbox_ddl import MY_FIRM, seal_staff
from pramaan_pipelines.store.roles import APP_ROLE

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLE = "ops.matter_frame_jobs"
WRITTEN = {
    "run_status": "text NOT NULL DEFAULT 'idle'",
    "rebuild_needed": "boolean NOT NULL DEFAULT false",
    "requested_generation": "bigint NOT NULL DEFAULT 0",
    "claimed_generation": "bigint NOT NULL DEFAULT 0",
    "claimed_at": "timestamptz",
    "last_skip_reason": "text",
    "last_skip_at": "timestamptz",
    "pending_event_id": "uuid",
    "failed_tries": "integer NOT NULL DEFAULT 0",
    "updated_at": "timestamptz NOT NULL DEFAULT now()",
}

# By a first claim, or a first skip.
FIRST_WRITTEN = (
    "run_status",
    "requested_generation",
    "claimed_generation",
    "claimed_at",
    "last_skip_reason",
    "last_skip_at",
)


def upgrade() -> None:
    ledger = Ledger(revision)
    ledger.table(
        TABLE,
        {
            "id": "uuid NOT NULL DEFAULT gen_random_uuid()",
            "firm_id": "uuid NOT NULL",
            "matter_id": "uuid NOT NULL",
            **WRITTEN,
            "created_at": "timestamptz NOT NULL DEFAULT now()",
        },
        (
            "PRIMARY KEY (id)",
            "CONSTRAINT matter_frame_jobs_firm_id_matter_id_key UNIQUE (firm_id, matter_id)",
            "CONSTRAINT matter_frame_jobs_run_status_check CHECK "
            "(run_status IN ('idle', 'queued', 'running', 'failed'))",
            "CONSTRAINT matter_frame_jobs_claimed_at_check CHECK "
            "(run_status <> 'running' OR claimed_at IS NOT NULL)",
        ),
    )
    ledger.index(
        "ops", "matter_frame_jobs_running_idx", f"{TABLE} (claimed_at) WHERE run_status = 'running'"
    )
    ledger.index(
        "ops",
        "matter_frame_jobs_owed_idx",
        f"{TABLE} (firm_id, updated_at) "
        "WHERE run_status <> 'running' AND (rebuild_needed OR run_status = 'failed')",
    )
    ledger.force_row_security(TABLE)
    ledger.policy(
        TABLE, "matter_frame_jobs_firm_isolation", f"USING ({MY_FIRM}) WITH CHECK ({MY_FIRM})"
    )
    seal_staff(ledger, TABLE, "matter_frame_jobs")
    ledger.grant(APP_ROLE, TABLE, "SELECT")
    ledger.grant(APP_ROLE, TABLE, "INSERT", ("firm_id", "matter_id", *FIRST_WRITTEN))
    ledger.grant(APP_ROLE, TABLE, "UPDATE", tuple(WRITTEN))
    ledger.revoke(APP_ROLE, TABLE, "DELETE")


def downgrade() -> None:
    Ledger(revision).undo()
