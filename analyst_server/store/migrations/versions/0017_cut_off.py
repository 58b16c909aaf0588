"""how often the worker of a round has ended without a word."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("collaborations", sa.Column("cut_off", sa.BigInteger(), server_default="0", nullable=False))
