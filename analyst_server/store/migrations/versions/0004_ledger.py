"""the history becomes a chained ledger; API tokens."""

from collections import defaultdict
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

from protocol.codec import decode
from protocol.envelope import Signed
from protocol.ledger import LedgerEntry, entry_digest, first_previous
from protocol.states import Event, State

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_DIGESTS = (
    "SELECT id, 'publish terms', NULL, created_at, terms_digest FROM collaborations",
    "SELECT collaboration_id, 'begin uplink', party, created_at, manifest_digest FROM uplinks",
    "SELECT collaboration_id, 'accept uplink', party, received_at, manifest_digest FROM uplinks",
    "SELECT h.collaboration_id, h.event, h.party, h.at, m.anchor_commitment FROM history h"
    " JOIN members m ON m.collaboration_id = h.collaboration_id AND m.party = h.party"
    " WHERE h.event = 'publish anchor'",
)
"""What a step was about: collaboration, event, party, time, digest."""
_SIGNED = (
    "SELECT collaboration_id, 'accept terms', party, accepted_at, acceptance FROM members"
    " WHERE acceptance IS NOT NULL",
    "SELECT collaboration_id, 'fetch downlink', party, fetched_at, manifest FROM downlinks",
)
"""The same with the signed message in the place of its digest."""


def upgrade() -> None:
    ledger = op.create_table(
        "ledger",
        sa.Column("collaboration_id", sa.String(length=32), nullable=False),
        sa.Column("index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.String(length=32), nullable=False),
        sa.Column("party", sa.String(length=63), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("subject", sa.LargeBinary(), nullable=True),
        sa.Column("previous", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collaboration_id"], ["collaborations.id"], name=op.f("fk_ledger_collaboration_id")
        ),
        sa.PrimaryKeyConstraint("collaboration_id", "index", name=op.f("pk_ledger")),
    )
    for chain in _chains(op.get_bind()).values():
        op.bulk_insert(ledger, chain)
    op.drop_table("history")
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("party", sa.String(length=63), nullable=False),
        sa.Column("certificate", sa.LargeBinary(), nullable=True),
        sa.Column("collaboration_id", sa.String(length=32), nullable=True),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["collaboration_id"], ["collaborations.id"], name=op.f("fk_tokens_collaboration_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    op.create_index(op.f("ix_tokens_party"), "tokens", ["party"], unique=False)


def _chains(connection: sa.Connection) -> dict[str, list[dict[str, Any]]]:
    subjects = {tuple(row[:4]): row[4] for query in _DIGESTS for row in connection.execute(sa.text(query))}
    for query in _SIGNED:
        for row in connection.execute(sa.text(query)):
            subjects[tuple(row[:4])] = sha256(decode(Signed, row[4]).payload).digest()
    chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
    steps = "SELECT collaboration_id, event, party, at, state FROM history ORDER BY id"
    for row in connection.execute(sa.text(steps)):
        chain = chains[row.collaboration_id]
        entry = LedgerEntry(
            index=len(chain),
            at=row.at,
            event=Event(row.event),
            party=row.party,
            state=State(row.state),
            subject=subjects.get(tuple(row[:4])),
            previous=chain[-1]["digest"] if chain else first_previous(row.collaboration_id),
        )
        chain.append(
            {
                "collaboration_id": row.collaboration_id,
                **entry.model_dump(),
                "digest": entry_digest(entry),
            }
        )
    return chains
