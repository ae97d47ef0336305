"""An index of the matters that stopped at consent, so that counting them reads no other job."""

from pramaan_pipelines.store.ledger import Ledger

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    Ledger(revision).index(
        "ops",
        "matter_frame_jobs_blocked_idx",
        "ops.matter_frame_jobs (firm_id, last_skip_at) WHERE run_status <> 'running' "
        "AND last_skip_reason = 'consent_blocked' "
        "AND last_skip_at > coalesce(claimed_at, '-infinity')",
    )


def downgrade() -> None:
    Ledger(revision).undo()
