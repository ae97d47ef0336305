"""The outbox of the domain events: the envelope, and the same dispatch columns."""

from pramaan_pipelines.store.ledger import Ledger
from pramaan_pipelines.store.outbox_ddl import make_outbox

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    ledger = Ledger(revision)
    make_outbox(
        ledger,
        "domain_event_outbox",
        {"event_id": "uuid NOT NULL", "envelope": "jsonb NOT NULL"},
    )
    ledger.check(
        "ops.domain_event_outbox",
        "domain_event_outbox_envelope_check",
        # Over 256 KiB it can never be sent, and is parked; over this a drain could not render it.
        "jsonb_typeof(envelope) = 'object' AND octet_length(envelope::text) <= 1048576",
    )


def downgrade() -> None:
    Ledger(revision).undo()
