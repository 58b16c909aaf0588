"""the ledger that each party says it has seen."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "seen_ledgers",
        sa.Column("collaboration_id", sa.String(length=32), nullable=False),
        sa.Column("party", sa.String(length=63), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("statement", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collaboration_id"], ["collaborations.id"], name=op.f("fk_seen_ledgers_collaboration_id")
        ),
        sa.PrimaryKeyConstraint("collaboration_id", "party", name=op.f("pk_seen_ledgers")),
    )
