"""PostgreSQL orders the names of parties by their bytes, as SQLite does."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_TABLES = (
    "enrolments",
    "members",
    "uplinks",
    "downlinks",
    "scores",
    "seen_ledgers",
    "ledger",
    "tokens",
    "traffic",
)


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in _TABLES:
        op.alter_column(table, "party", type_=sa.String(63, collation="C"))
