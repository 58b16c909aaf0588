"""how far a computation is."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("collaborations", sa.Column("computing", sa.JSON(), nullable=True))
