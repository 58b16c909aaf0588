"""whom others are told of, and what is not delivered yet."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "told",
        sa.Column("about", sa.String(length=32), nullable=False),
        sa.Column("waits", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("about", name=op.f("pk_told")),
    )
    op.create_table(
        "notices",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
    )
