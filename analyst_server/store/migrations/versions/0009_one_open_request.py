"""one request of a party without a certificate, why the lead has rejected one; excluded parties are found."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_OPEN = sa.text("certificate IS NULL AND rejected IS NULL")

_EXCLUDED = sa.text("event = 'exclude party'")


def upgrade() -> None:
    op.add_column("enrolments", sa.Column("rejected", sa.Text(), nullable=True))
    _forget_all_but_the_newest(op.get_bind())
    op.drop_index("ix_enrolments_pending", "enrolments")
    op.create_index(
        "ix_enrolments_pending",
        "enrolments",
        ["certificate", "rejected"],
        unique=False,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_index(op.f("ix_enrolments_party"), "enrolments", ["party"], unique=False)
    op.create_index(
        "ix_ledger_excluded",
        "ledger",
        ["collaboration_id", "event", "party"],
        unique=False,
        sqlite_where=_EXCLUDED,
        postgresql_where=_EXCLUDED,
    )


def _forget_all_but_the_newest(connection: sa.Connection) -> None:
    rows = connection.execute(
        sa.text(
            "SELECT invitation_id, role, party FROM enrolments WHERE certificate IS NULL"
            " ORDER BY created_at, invitation_id"
        )
    ).all()
    newest = {(row.role, row.party): row.invitation_id for row in rows}
    for row in rows:
        if newest[row.role, row.party] != row.invitation_id:
            connection.execute(
                sa.text("DELETE FROM enrolments WHERE invitation_id = :id"), {"id": row.invitation_id}
            )
