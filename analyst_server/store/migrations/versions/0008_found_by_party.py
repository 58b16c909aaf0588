"""the ledger is found by party without reading all of it."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_ledger_party", "ledger", ["collaboration_id", "party", "event", "index"], unique=False
    )
