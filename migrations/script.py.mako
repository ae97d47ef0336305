"""${message}."""

from pramaan_pipelines.store.ledger import Ledger

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ledger = Ledger(revision)


def downgrade() -> None:
    Ledger(revision).undo()
