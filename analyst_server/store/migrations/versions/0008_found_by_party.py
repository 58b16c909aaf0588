"""the ledger is found by party, uplinks and requests are counted, without reading all of them."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_ledger_party", "ledger", ["collaboration_id", "party", "event", "index"], unique=False
    )
    op.create_index(
        "ix_enrolments_pending",
        "enrolments",
        ["certificate"],
        unique=False,
        sqlite_where=sa.text("certificate IS NULL"),
        postgresql_where=sa.text("certificate IS NULL"),
    )
    op.create_index("ix_uplinks_received", "uplinks", ["collaboration_id", "received_at"], unique=False)
