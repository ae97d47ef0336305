"""The outbox of the documents: one table, two batons."""

from pramaan_pipelines.store.ledger import Ledger
from pramaan_pipelines.store.outbox_ddl import make_outbox

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    make_outbox(
        Ledger(revision),
        "document_ingest_outbox",
        {"event_id": "uuid NOT NULL DEFAULT gen_random_uuid()", "document_id": "uuid NOT NULL"},
    )


def downgrade() -> None:
    Ledger(revision).undo()
