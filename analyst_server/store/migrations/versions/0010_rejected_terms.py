"""why a party does not sign the terms."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("members", sa.Column("rejected", sa.Text(), nullable=True))
