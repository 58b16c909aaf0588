"""what late consumers are aligned with, and why one could not be."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("collaborations", sa.Column("kept", sa.JSON(), nullable=True))
    op.add_column("uplinks", sa.Column("refused", sa.Text(), nullable=True))
