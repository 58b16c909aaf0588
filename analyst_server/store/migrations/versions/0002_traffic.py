"""bytes counted on the wire."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "traffic",
        sa.Column("party", sa.String(length=63), nullable=False),
        sa.Column("collaboration_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("counter", sa.String(length=16), nullable=False),
        sa.Column("up_wire_bytes", sa.BigInteger(), nullable=False),
        sa.Column("up_plain_bytes", sa.BigInteger(), nullable=False),
        sa.Column("up_body_bytes", sa.BigInteger(), nullable=False),
        sa.Column("up_segments", sa.BigInteger(), nullable=False),
        sa.Column("down_wire_bytes", sa.BigInteger(), nullable=False),
        sa.Column("down_retransmitted_bytes", sa.BigInteger(), nullable=False),
        sa.Column("down_plain_bytes", sa.BigInteger(), nullable=False),
        sa.Column("down_body_bytes", sa.BigInteger(), nullable=False),
        sa.Column("down_segments", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("party", "collaboration_id", "kind", name=op.f("pk_traffic")),
    )
