"""An analyst with a real database and real certificates, and parties that send it real uplinks."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import Blobs, DirectoryBlobs
from analyst_server.services import prepare
from analyst_server.services.analyst import Analyst
from analyst_server.services.ingest import Ingest, UploadStatus
from analyst_server.store import Collaboration, Enrolled, Leases, Records
from protocol.alignment_terms import AlignmentTerms
from protocol.anchor_terms import AnchorTerms
from protocol.arrays import chunks_of, frame, little_endian, quantise, raw_bytes, specify
from protocol.codec import Message, digest
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, anchor_info, seal, seed_commitment, sign
from protocol.identity import Identity
from protocol.labels import Label
from protocol.ledger import SeenLedger
from protocol.limits import MIN_CHUNK_BYTES
from protocol.messages import Acceptance, MemberScore, Role, SealedAnchor, SeenHead, UplinkManifest
from protocol.model_terms import LogisticTerms
from protocol.row_bounds import longest_row
from protocol.table_schema import NumericColumn, Schema
from protocol.terms import Terms
from tests.harness.certificates import CONSORTIUM_ID, NOW, shared_member, shared_root

LEAD, HOSPITAL = "lead-hospital", "hospital-a"
LIMIT_S = 30
SEED = bytes(range(32))
FEATURES, LATENT_DIM = 4, 2


class Clock:
    """A clock that stands still until it is told to go on, or is set."""

    def __init__(self, now: int = NOW) -> None:
        self.now, self._passed_s = now, 0.0

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: int) -> None:
        self.now += seconds
        self._passed_s += seconds

    def set_back(self, seconds: int) -> None:
        """Show an earlier time, although no time passes."""
        self.now -= seconds

    def monotonic(self) -> float:
        """Return the seconds that have really passed."""
        return self._passed_s


def role_of(party: str) -> Role:
    return "lead" if party == LEAD else "analyst" if party == "analyst" else "institution"


def identity(party: str) -> Identity:
    return Identity(CONSORTIUM_ID, role_of(party), party)


def signed(party: str, message: Message) -> bytes:
    member = shared_member(role_of(party), party)
    return sign(message, member.key, member.certificate)


def make_terms(**changed: Any) -> Terms:
    values: dict[str, Any] = {
        "consortium_id": CONSORTIUM_ID,
        "collaboration_id": "c0" * 16,
        "title": "Readmission",
        "parties": (LEAD, HOSPITAL),
        "lead": LEAD,
        "table_schema": Schema(
            columns=tuple(NumericColumn(name=f"x{index}", low=-1, high=1) for index in range(FEATURES)),
            label_column=Label(name="y", classes=("no", "yes")),
        ),
        "latent_dim": LATENT_DIM,
        "anchor": AnchorTerms(kind="haar", rows=FEATURES),
        "alignment": AlignmentTerms(method="isotropic"),
        "model": LogisticTerms(),
    }
    return Terms(**{**values, **changed})


DRAFT = make_terms().model_dump(mode="json", exclude={"consortium_id", "collaboration_id"})
"""Terms as the operator submits them: without the ids that the analyst adds."""


@dataclass
class Uplink:
    """What one party sends."""

    party: str
    manifest: UplinkManifest
    arrays: list[NDArray[Any]]
    body: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.body = signed(self.party, self.manifest)

    @property
    def stream(self) -> bytes:
        chunk_bytes = self.manifest.chunk_bytes
        return b"".join(
            bytes(piece) for array in self.arrays for piece in frame(chunks_of(raw_bytes(array), chunk_bytes))
        )

    @property
    def whole_digest(self) -> bytes:
        return hashlib.sha256(b"".join(spec.digest for spec in self.manifest.arrays)).digest()


def in_type(matrix: NDArray[Any], terms: Terms) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a matrix in the number type of the terms, and its scales."""
    values, scale = quantise(matrix)
    return (values if terms.rep_dtype == "i1" else matrix.astype("<" + terms.rep_dtype)), scale


def make_uplink(
    terms: Terms,
    party: str,
    *,
    rows: int = 30,
    seed: int = 0,
    own_dim: int | None = None,
    arrays: dict[str, NDArray[Any]] | None = None,
    **changed: Any,
) -> Uplink:
    """Return an uplink of separable rows; ``arrays`` replaces some of its arrays, ``changed`` fields."""
    own_dim = own_dim or terms.latent_dim
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % terms.table_schema.label_column.outputs
    projected = rng.standard_normal((rows, own_dim)) + 2 * labels[:, None]
    # as long as encoded rows can be
    projected *= longest_row(terms.table_schema) / np.linalg.norm(projected, axis=1).max(initial=1)
    rep, rep_scale = in_type(projected, terms)
    basis = np.linalg.qr(rng.standard_normal((terms.anchor.rows, own_dim)))[0]
    anchor_rep, anchor_rep_scale = in_type(basis, terms)
    scales = {"rep_scale": rep_scale, "anchor_rep_scale": anchor_rep_scale}
    values: dict[str, NDArray[Any]] = {
        "rep": rep,
        "anchor_rep": anchor_rep,
        "labels": labels.astype("<u1"),
        **(scales if terms.rep_dtype == "i1" else {}),
        **(arrays or {}),
    }
    chunk_bytes = changed.pop("chunk_bytes", MIN_CHUNK_BYTES)
    on_wire = []
    specs = []
    for name, array in values.items():
        dtype: Any = array.dtype.str[1:]
        on_wire.append(little_endian(array, dtype))
        specs.append(specify(name, on_wire[-1], dtype, chunk_bytes))
    manifest = UplinkManifest(
        **{
            "collaboration_id": terms.collaboration_id,
            "terms_digest": digest(terms),
            "party": party,
            "anchor_commitment": seed_commitment(SEED),
            "chunk_bytes": chunk_bytes,
            "arrays": tuple(specs),
            **changed,
        }
    )
    return Uplink(party, manifest, on_wire)


def new_database(path: Path) -> str:
    """Write an empty database with the tables of this version to ``path``, and return its URL.

    The tables are made once per run and copied, because making them takes longer than most tests.
    """
    path.write_bytes(_empty_database())
    return f"sqlite:///{path}"


@cache
def _empty_database() -> bytes:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "odc.sqlite"
        records = Records(f"sqlite:///{path}")
        records.migrate()
        records.dispose()
        return path.read_bytes()


class World:
    """The analyst of a consortium, and short words for what parties do to it."""

    def __init__(
        self, directory: Path, *, blobs: Blobs | None = None, database: str = "", **options: Any
    ) -> None:
        self.directory = directory
        self.clock = Clock()
        self.database = database or new_database(directory / "odc.sqlite")
        self.records = Records(self.database)
        me = shared_member("analyst", "analyst")
        self.analyst = Analyst(
            records=self.records,
            blobs=blobs or DirectoryBlobs(directory / "blobs"),
            root=shared_root().trust_root,
            certificate=me.certificate,
            key=me.key,
            clock=self.clock,
            **{"leases": self.leases(), **options},
        )
        self.ingest = Ingest(self.analyst)
        self.terms = make_terms()

    def close(self) -> None:
        """Close the connections once all are back: a thread that an event loop has left may still read."""
        deadline = time.monotonic() + LIMIT_S
        while self.records.connections_in_use and time.monotonic() < deadline:
            time.sleep(0.01)
        self.records.dispose()

    def leases(self) -> Leases:
        """Return the leases as a process sees them that has just started."""
        return Leases(self.directory / "workers", monotonic=self.clock.monotonic)

    def restart(self) -> None:
        """Forget everything that is not on the disk."""
        self.ingest = Ingest(self.analyst)

    def enrol(self, *parties: str) -> None:
        """Let parties have asked for a certificate, as `odc join` does."""
        with self.records.begin(write=True) as unit:
            for number, party in enumerate(parties):
                unit.add(
                    Enrolled(
                        invitation_id=f"{number:032x}",
                        role="institution",
                        party=party,
                        request=b"request",
                        certificate=None,
                        created_at=self.clock(),
                    )
                )

    def publish(self, terms: Terms | None = None) -> Terms:
        self.terms = terms or self.terms
        prepare.create(self.analyst, self.terms)
        return self.terms

    @property
    def id(self) -> str:
        return self.terms.collaboration_id

    def row(self) -> Collaboration:
        with self.records.begin() as unit:
            found = unit.collaboration(self.id)
            assert found is not None
            _ = found.results, found.kept, found.unjudged  # read only when they are asked for
        return found

    @property
    def state(self) -> str:
        return self.row().state

    def acceptance(self, party: str, **changed: Any) -> bytes:
        values = {
            "collaboration_id": self.id,
            "terms_digest": digest(self.terms),
            "shown_digest": plain_words_digest(self.terms),
            "party": party,
            "sealing_suite": self.terms.sealing_suites[0],
            "sealing_key": b"key",
        }
        return signed(party, Acceptance(**{**values, **changed}))

    def accept(self, *parties: str) -> None:
        """Accept with a key of its own each time, so that no acceptance is an earlier one."""
        for party in parties:
            body = self.acceptance(party, sealing_key=secrets.token_bytes(8))
            prepare.accept(self.analyst, identity(party), self.id, body)

    def score(self, party: str, *, by: str | None = None, **changed: Any) -> bytes:
        values = {
            "collaboration_id": self.id,
            "terms_digest": digest(self.terms),
            "party": party,
            "rows": 12,
            "metric": "roc_auc",
            "together": 0.875,
            "alone": 0.75,
            "gain_low": 0.0625,
            "gain_high": 0.1875,
        }
        return signed(by or party, MemberScore(**{**values, **changed}))

    def seen_ledger(self, party: str, *, by: str | None = None, length: int = 1, **changed: Any) -> bytes:
        """What a party says of the first entries of the ledger."""
        with self.records.begin() as unit:
            last = unit.ledger(self.id, start=length - 1, limit=1)
        values = {
            "collaboration_id": self.id,
            "party": party,
            "seen": SeenHead(length=length, digest=last[0].digest if last else bytes(32)),
            "at": self.clock(),
        }
        return signed(by or party, SeenLedger(**{**values, **changed}))

    def sealed_anchor(self, party: str, *, by: str = LEAD, seed: bytes = SEED, **changed: Any) -> bytes:
        values = {
            "collaboration_id": self.id,
            "terms_digest": digest(self.terms),
            "recipient": party,
            "commitment": seed_commitment(seed),
            "sealing_suite": self.terms.sealing_suites[0],
            "ciphertext": b"sealed",
        }
        return signed(by, SealedAnchor(**{**values, **changed}))

    def publish_anchor(self, bodies: list[bytes] | None = None, *, by: str = LEAD) -> None:
        sent = bodies if bodies is not None else [self.sealed_anchor(party) for party in self.terms.parties]
        prepare.publish_anchor(self.analyst, identity(by), self.id, sent)

    def until_anchored(self, terms: Terms | None = None) -> World:
        self.publish(terms)
        self.accept(*self.terms.parties)
        self.publish_anchor()
        return self

    def begin(self, uplink: Uplink) -> UploadStatus:
        return self.ingest.begin(identity(uplink.party), self.id, uplink.body)

    def append(self, uplink: Uplink, upload_id: str, offset: int = 0, data: bytes | None = None) -> int:
        append = self.ingest.append(identity(uplink.party), upload_id, offset)
        if append is None:
            return offset
        try:
            append.write(uplink.stream[offset:] if data is None else data)
        finally:
            reached = append.close()
        return reached

    def complete(self, uplink: Uplink, upload_id: str) -> bytes:
        return self.ingest.complete(identity(uplink.party), upload_id, uplink.whole_digest)

    def send(self, uplink: Uplink) -> bytes:
        """Begin, append everything, complete."""
        status = self.begin(uplink)
        self.append(uplink, status.upload_id, status.offset)
        return self.complete(uplink, status.upload_id)

    def until_sealed(self, terms: Terms | None = None, **uplink: Any) -> World:
        self.until_anchored(terms)
        for number, party in enumerate(self.terms.parties):
            self.send(make_uplink(self.terms, party, seed=number, **uplink))
        return self


def really_sealed(terms: Terms, party: str, key: SealingKey) -> bytes:
    """Return the ciphertext of `SEED` for one member's key."""
    info = anchor_info(terms.collaboration_id, digest(terms), party)
    return seal(SEED, key.suite, key.public_bytes(), info)
