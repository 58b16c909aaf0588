"""which process goes on with an upload, and how often a round was claimed."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    added = (("uplinks", "takeovers"), ("uplinks", "stored_as"), ("collaborations", "lease_number"))
    for table, column in added:
        op.add_column(table, sa.Column(column, sa.BigInteger(), server_default="0", nullable=False))
