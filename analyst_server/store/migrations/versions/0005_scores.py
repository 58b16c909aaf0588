"""the scores that institutions send back."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "scores",
        sa.Column("collaboration_id", sa.String(length=32), nullable=False),
        sa.Column("party", sa.String(length=63), nullable=False),
        sa.Column("score", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collaboration_id"], ["collaborations.id"], name=op.f("fk_scores_collaboration_id")
        ),
        sa.PrimaryKeyConstraint("collaboration_id", "party", name=op.f("pk_scores")),
    )
