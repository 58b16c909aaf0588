"""what the model of a computed round is judged with, until it is."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("collaborations", sa.Column("unjudged", sa.JSON(), nullable=True))
