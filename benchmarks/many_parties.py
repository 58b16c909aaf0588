"""Thousands of simulated institutions that join, sign the terms and send once.

Only the lead works with the SDK. The others have a key, a certificate and the messages of the product, but no
table, no basis and no state directory: what they send is drawn at random. The server sees no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificate

from protocol.arrays import little_endian, raw_bytes, specify
from protocol.codec import Message, digest, encode
from protocol.consent import plain_words_digest
from protocol.envelope import SealingKey, decode_stored, sign
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import Acceptance, ArraySpec, SealedAnchor, UplinkManifest
from protocol.operations import (
    ACCEPT_TERMS,
    CERTIFICATE_REQUEST_STATUS,
    FETCH_ANCHOR,
    FETCH_TERMS,
    REQUEST_CERTIFICATE,
)
from protocol.terms import Terms
from user_client import sdk
from user_client.sdk import Session
from user_client.transport import AnalystConnection, Traffic
from user_client.transport.connection import Identity
from user_client.transport.upload import send_uplink


@dataclass(frozen=True)
class _Agreed:
    """What the terms say; they are the same for all, and are read once."""

    terms: Terms
    digest: bytes
    shown: bytes


class Crowd:
    """The simulated institutions, each with two small files in a folder; safe to use from several threads."""

    def __init__(self, lead: Session, url: str, names: Sequence[str], folder: Path) -> None:
        self._url, self._folder = url, folder
        folder.mkdir()
        self.root_pem = lead.home.root_path.read_text()
        self._invitations = {one.party: one for one in sdk.invite_all(lead, names)}
        self._agreed: _Agreed | None = None

    def read(self, signed_terms: bytes) -> Terms:
        """Read the terms, once for all, and return them."""
        terms = decode_stored(Terms, signed_terms)
        self._agreed = _Agreed(terms, digest(terms), plain_words_digest(terms))
        return terms

    @property
    def _terms(self) -> _Agreed:
        if self._agreed is None:
            raise RuntimeError("nobody has read the terms")
        return self._agreed

    def ask_to_join(self, session: Session) -> None:
        party = session.home.path.name
        key = ec.generate_private_key(ec.SECP256R1())
        self._key_path(party).write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        with self.line(None) as line:
            line.ask(REQUEST_CERTIFICATE, encode(self._invitations[party].answer(key)))

    def join(self, session: Session) -> None:
        party = session.home.path.name
        with self.line(None) as line:
            invitation_id = self._invitations[party].invitation_id
            answer = line.ask_json(CERTIFICATE_REQUEST_STATUS, invitation_id=invitation_id)
        self._certificate_path(party).write_text(str(answer["certificate"]))

    def accept(self, session: Session, collaboration_id: str) -> None:
        party, agreed = session.home.path.name, self._terms
        with self.line(party) as line:
            line.ask(FETCH_TERMS, collaboration_id=collaboration_id)
            key = SealingKey.generate()
            acceptance = Acceptance(
                collaboration_id=collaboration_id,
                terms_digest=agreed.digest,
                shown_digest=agreed.shown,
                party=party,
                sealing_suite=key.suite,
                sealing_key=key.public_bytes(),
                accept_row_revealing_model=False,
            )
            line.ask(ACCEPT_TERMS, self._signed(party, acceptance), collaboration_id=collaboration_id)

    def send(self, session: Session, collaboration_id: str, rows: int) -> None:
        """Fetch the sealed anchor, which is not opened, and send random arrays of the right shape."""
        party = session.home.path.name
        payload = self._folder / f"{party}.payload"
        specs = self.write(payload, rows, seed=int(party.rpartition("-")[2]))
        with self.line(party) as line:
            manifest, signed = self.manifest(line, party, collaboration_id, specs)
            send_uplink(line, collaboration_id, signed, manifest, payload)
        payload.unlink()

    def write(self, payload: Path, rows: int, *, seed: int) -> tuple[ArraySpec, ...]:
        """Write random arrays of the right shape to a file, and return the manifest's entries for them."""
        terms = self._terms.terms
        rng, dtype = np.random.default_rng(seed), terms.rep_dtype
        most = 2 * terms.latent_dim**-0.5  # no row is longer than 1
        values = {
            "rep": little_endian(most * (rng.random((rows, terms.latent_dim), np.float32) - 0.5), dtype),
            "anchor_rep": little_endian(
                most * (rng.random((terms.anchor.rows, terms.latent_dim)) - 0.5), dtype
            ),
            "labels": (np.arange(rows) % 2).astype("<u1"),
        }
        with payload.open("wb") as file:
            for value in values.values():
                file.write(raw_bytes(value))
        types = {"rep": dtype, "anchor_rep": dtype, "labels": "u1"}
        return tuple(
            specify(name, value, types[name], DEFAULT_CHUNK_BYTES)  # type: ignore[arg-type]  # types of the wire
            for name, value in values.items()
        )

    def manifest(
        self, line: AnalystConnection, party: str, collaboration_id: str, specs: tuple[ArraySpec, ...]
    ) -> tuple[UplinkManifest, bytes]:
        """Fetch the sealed anchor, and return the manifest of a party's arrays, also as it is signed."""
        sealed = line.ask(FETCH_ANCHOR, collaboration_id=collaboration_id).content
        manifest = UplinkManifest(
            collaboration_id=collaboration_id,
            terms_digest=self._terms.digest,
            party=party,
            anchor_commitment=decode_stored(SealedAnchor, sealed).commitment,
            chunk_bytes=DEFAULT_CHUNK_BYTES,
            arrays=specs,
        )
        return manifest, self._signed(party, manifest)

    def line(self, party: str | None) -> AnalystConnection:
        """Return a connection to the analyst: of a party, or of somebody without a certificate."""
        identity = None if party is None else self.identity(party)
        return AnalystConnection(self._url, self.root_pem, identity, Traffic())

    def identity(self, party: str) -> Identity:
        """Return where the certificate of a party is, and its key."""
        return self._certificate_path(party), self._key_path(party)

    def _signed(self, party: str, message: Message) -> bytes:
        key = load_pem_private_key(self._key_path(party).read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("the key is of another kind")
        return sign(message, key, load_pem_x509_certificate(self._certificate_path(party).read_bytes()))

    def _key_path(self, party: str) -> Path:
        return self._folder / f"{party}.key"

    def _certificate_path(self, party: str) -> Path:
        return self._folder / f"{party}.pem"
