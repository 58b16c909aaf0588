"""The tables. A change here needs a migration beside it; a test compares the two.

Signed messages are kept as the bytes that came, so that they can be shown again. Times are unix
seconds.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Text, text
from sqlalchemy.orm import DeclarativeBase, Mapped, column_property, mapped_column

from protocol.states import State

PARTY: Final = String(63).with_variant(String(63, collation="C"), "postgresql")
"""A party's name. Names are ordered by their bytes, as Python and SQLite do, in whatever language a database
of PostgreSQL was made: members page through them, and rounds are computed in their order."""


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {int: BigInteger, bytes: LargeBinary, dict[str, Any]: JSON}  # noqa: RUF012  # SQLAlchemy's own form


class Enrolled(Base):
    """A request for a certificate, and the certificate once the lead has issued it.

    A party has one at most that has no certificate. A ``renewal`` has its own id in the place of an
    invitation's, and a Signed Renewal as its request.
    """

    __tablename__ = "enrolments"
    __table_args__ = (
        Index(
            "ix_enrolments_pending",  # none but those without an answer: so it stays small
            "certificate",
            "rejected",
            sqlite_where=text("certificate IS NULL AND rejected IS NULL"),
            postgresql_where=text("certificate IS NULL AND rejected IS NULL"),
        ),
    )

    invitation_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), server_default="enrolment")
    role: Mapped[str] = mapped_column(String(16))
    party: Mapped[str] = mapped_column(PARTY, index=True)
    request: Mapped[bytes]
    certificate: Mapped[bytes | None]
    rejected: Mapped[str | None] = mapped_column(Text)
    """Why the lead has rejected it."""
    created_at: Mapped[int]


class Revocations(Base):
    """The revocation lists the lead has published; the highest number holds."""

    __tablename__ = "revocations"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    der: Mapped[bytes]
    received_at: Mapped[int]


class Collaboration(Base):
    """One passage through the states."""

    __tablename__ = "collaborations"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    title: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    terms: Mapped[bytes]
    terms_digest: Mapped[bytes]
    failure: Mapped[str | None] = mapped_column(Text)
    # the next three have a part for each party, and few requests need them: each is read when it is asked for
    results: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    kept: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    """What late consumers are aligned with: `services.latecomers` writes and reads it."""
    unjudged: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True), deferred=True)
    """What its model is judged with, until it is: `services.judging` writes and reads it."""
    is_judging: Mapped[bool] = column_property(unjudged.is_not(None))
    """Whether there is something in ``unjudged``, as of when the row was read."""
    lease_owner: Mapped[str | None] = mapped_column(String(64))
    lease_number: Mapped[int] = mapped_column(default=0, server_default="0")
    """Grows with every claim: who claimed it before writes nothing more, even under the same name."""
    lease_until: Mapped[int | None]
    """Grows with every renewal; `Leases` looks at whether it does, and compares it with no clock."""
    cut_off: Mapped[int] = mapped_column(default=0, server_default="0")
    """How many of its workers have ended without a word since it was last begun by a person, or computed."""
    computing: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """How far its computation is, as its worker saw it last; of no account without one."""
    created_at: Mapped[int]
    updated_at: Mapped[int]

    def __repr__(self) -> str:
        return f"<Collaboration {self.id[:8]} {self.state}>"

    @property
    def now_in(self) -> State:
        return State(self.state)


class Member(Base):
    """An institution the terms name, and what it has signed."""

    __tablename__ = "members"

    collaboration_id: Mapped[str] = mapped_column(ForeignKey("collaborations.id"), primary_key=True)
    party: Mapped[str] = mapped_column(PARTY, primary_key=True)
    acceptance: Mapped[bytes | None]
    accepted_at: Mapped[int | None]
    sealed_anchor: Mapped[bytes | None]
    anchor_commitment: Mapped[bytes | None]
    last_seen_at: Mapped[int | None]
    rejected: Mapped[str | None] = mapped_column(Text)
    """Why it does not sign the terms."""


class Uplink(Base):
    """An upload, complete once it has a receipt. A party may begin several and complete one."""

    __tablename__ = "uplinks"
    __table_args__ = (
        Index("ix_uplinks_party", "collaboration_id", "party"),
        Index("ix_uplinks_received", "collaboration_id", "received_at"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    collaboration_id: Mapped[str] = mapped_column(ForeignKey("collaborations.id"))
    party: Mapped[str] = mapped_column(PARTY)
    manifest: Mapped[bytes]
    manifest_digest: Mapped[bytes]
    rows: Mapped[int]
    payload_bytes: Mapped[int]
    receipt: Mapped[bytes | None]
    refused: Mapped[str | None] = mapped_column(Text)
    """Why a late consumer could not be aligned."""
    takeovers: Mapped[int] = mapped_column(default=0, server_default="0")
    """How often another process went on with it: the one that did so last may write its bytes."""
    stored_as: Mapped[int] = mapped_column(default=0, server_default="0")
    """The takeover under whose names its bytes lie; behind ``takeovers`` while they are being moved."""
    created_at: Mapped[int]
    received_at: Mapped[int | None]


class Downlink(Base):
    """What one institution fetches."""

    __tablename__ = "downlinks"

    collaboration_id: Mapped[str] = mapped_column(ForeignKey("collaborations.id"), primary_key=True)
    party: Mapped[str] = mapped_column(PARTY, primary_key=True)
    manifest: Mapped[bytes]
    fetched_at: Mapped[int | None]
    """When it had arrived, not when it was asked for: the ledger says that."""


class ScoreRow(Base):
    """The score that an institution has sent back: the last one, as the signed message that came."""

    __tablename__ = "scores"

    collaboration_id: Mapped[str] = mapped_column(ForeignKey("collaborations.id"), primary_key=True)
    party: Mapped[str] = mapped_column(PARTY, primary_key=True)
    score: Mapped[bytes]
    received_at: Mapped[int]


class SeenLedgerRow(Base):
    """The longest ledger that a party says it has seen, as the signed message that came."""

    __tablename__ = "seen_ledgers"

    collaboration_id: Mapped[str] = mapped_column(ForeignKey("collaborations.id"), primary_key=True)
    party: Mapped[str] = mapped_column(PARTY, primary_key=True)
    length: Mapped[int]
    statement: Mapped[bytes]


class LedgerRow(Base):
    """One step of a collaboration, chained to the one before (`protocol.ledger`).

    The primary key admits one row for each index, so a chain cannot fork.
    """

    __tablename__ = "ledger"
    __table_args__ = (
        Index("ix_ledger_party", "collaboration_id", "party", "event", "index"),
        Index(
            "ix_ledger_excluded",
            "collaboration_id",
            "event",
            "party",
            sqlite_where=text("event = 'exclude party'"),
            postgresql_where=text("event = 'exclude party'"),
        ),
    )

    collaboration_id: Mapped[str] = mapped_column(ForeignKey("collaborations.id"), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[int]
    event: Mapped[str] = mapped_column(String(32))
    party: Mapped[str | None] = mapped_column(PARTY)
    state: Mapped[str] = mapped_column(String(16))
    subject: Mapped[bytes | None]
    previous: Mapped[bytes]
    digest: Mapped[bytes]
    """Of this entry; the next one has it as ``previous``."""


class Token(Base):
    """An API token, by its digest; the token itself is never stored."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    scope: Mapped[str] = mapped_column(String(16))
    party: Mapped[str] = mapped_column(PARTY, index=True)
    """Empty for the analyst's operator."""
    certificate: Mapped[bytes | None]
    """Of the party that made the token (PEM); it must still be valid when the token is used."""
    collaboration_id: Mapped[str | None] = mapped_column(ForeignKey("collaborations.id"))
    label: Mapped[str] = mapped_column(Text)
    created_at: Mapped[int]
    expires_at: Mapped[int]
    revoked_at: Mapped[int | None]
    last_used_at: Mapped[int | None]


class ActRow(Base):
    """What somebody has done to the analyst (`services.acts`)."""

    __tablename__ = "acts"

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True)
    at: Mapped[int] = mapped_column(index=True)
    act: Mapped[str] = mapped_column(String(32))
    actor_kind: Mapped[str] = mapped_column(String(16))
    actor: Mapped[str] = mapped_column(String(255))
    collaboration_id: Mapped[str | None] = mapped_column(String(32))
    """None for what belongs to no collaboration; no foreign key, so that nothing an act is about holds it."""
    subject: Mapped[str] = mapped_column(Text)


class ToldRow(Base):
    """Whom and what a collaboration waits for, as far as somebody outside was told (`services.waits`)."""

    __tablename__ = "told"

    about: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Id of a collaboration; empty for requests for certificates."""
    waits: Mapped[dict[str, Any]]
    """Since when, in unix seconds, by who has to do what."""


class NoticeRow(Base):
    """What somebody outside is to be told: it stays until it is delivered or given up."""

    __tablename__ = "notices"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    created_at: Mapped[int]
    body: Mapped[str] = mapped_column(Text)
    """JSON, as it is sent each time."""
    attempts: Mapped[int]
    """How often it was sent, or was about to be."""
    next_at: Mapped[int]
    """When it is sent next. Whoever sends it puts this off first, so that no other does meanwhile."""


class StoreRow(Base):
    """A store beside the records that they speak of (`blobs.store_id`)."""

    __tablename__ = "stores"

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    id: Mapped[str] = mapped_column(String(64))


class TrafficRow(Base):
    """How many bytes were counted on the connections of one party."""

    __tablename__ = "traffic"

    party: Mapped[str] = mapped_column(PARTY, primary_key=True)
    """Empty for connections without a certificate."""
    collaboration_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Empty for requests that name none: joining, listing."""
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    counter: Mapped[str] = mapped_column(String(16))
    up_wire_bytes: Mapped[int]
    up_plain_bytes: Mapped[int]
    up_body_bytes: Mapped[int]
    up_segments: Mapped[int]
    down_wire_bytes: Mapped[int]
    down_retransmitted_bytes: Mapped[int]
    down_plain_bytes: Mapped[int]
    down_body_bytes: Mapped[int]
    down_segments: Mapped[int]


class EnrolledState(NamedTuple):
    """What a list shows of a request for a certificate, without the request."""

    invitation_id: str
    kind: str
    role: str
    party: str
    created_at: int
    request_bytes: int


class MemberState(NamedTuple):
    """What a status shows of a member, without what it has signed."""

    party: str
    has_accepted: bool
    has_anchor: bool
    last_seen_at: int | None
    rejected: str | None


class UplinkState(NamedTuple):
    """What a status shows of an uplink, without its manifest and its receipt."""

    id: str
    collaboration_id: str
    party: str
    rows: int
    is_received: bool
    refused: str | None
    payload_bytes: int
    stored_as: int


class Reserved(NamedTuple):
    """An uplink that has begun, for which there has to be space."""

    id: str
    collaboration_id: str
    party: str
    payload_bytes: int
    stored_as: int


class DownlinkState(NamedTuple):
    """What a status shows of a downlink, without its manifest."""

    party: str
    is_fetched: bool


class Progress(NamedTuple):
    """What changes with a collaboration as a whole, read often: no column of it grows with its parties."""

    collaboration_id: str
    state: str
    failure: str | None
    is_leased: bool
    is_judging: bool
    steps: int
    """Entries of the ledger."""
