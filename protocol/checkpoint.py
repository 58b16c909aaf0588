"""Checkpoints of a ledger: its length and Merkle root as a signed text, for members and for others to cosign.

The texts are those of C2SP tlog-checkpoint and signed-note; the signatures are ECDSA P-256 (type 0x02).
Layout and rules: docs/protocol.md, "Checkpoint".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeAlias, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from protocol.codec import encode
from protocol.errors import InputError, LimitExceededError, MalformedMessageError, SignatureError
from protocol.identity import certified_name, public_key
from protocol.ledger import LedgerEntry
from protocol.limits import MAX_NOTE_BYTES
from protocol.merkle import leaf_hash, root_hash

_ORIGIN: Final = "odc-ledger/v1/"
_ROOT: Final = "[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]="
"""Canonical base64 of 32 bytes (RFC 4648, section 3.5): the two bits behind the last byte are zero."""
_TEXT: Final = re.compile(rf"{_ORIGIN}([0-9a-f]{{32}})\n(0|[1-9][0-9]{{0,15}})\n({_ROOT})\n", re.ASCII)
_LINE: Final = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_KEY_ID_BYTES: Final = 4
_HASH: Final = ec.ECDSA(hashes.SHA256())
_ED25519, _COSIGNATURE, _TIME_BYTES = 0x01, 0x04, 8
"""Signature types of C2SP for keys of witnesses, and how long the time in a cosignature is."""
NoteKey: TypeAlias = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
"""A key that can have signed a note: of a certificate, or of a witness outside."""
_Holds: TypeAlias = Callable[[bytes, bytes], bool]


@dataclass(frozen=True)
class Checkpoint:
    """How long a ledger is, and the root of the Merkle tree over its entries."""

    collaboration_id: str
    size: int
    root: bytes

    @classmethod
    def of(cls, collaboration_id: str, entries: Iterable[LedgerEntry]) -> Checkpoint:
        """Return the checkpoint of all entries of a ledger."""
        leaves = leaf_hashes(entries)
        return cls(collaboration_id, len(leaves), root_hash(leaves))

    @property
    def origin(self) -> str:
        """The first line, which says of which ledger it is."""
        return _ORIGIN + self.collaboration_id

    @property
    def text(self) -> str:
        """What is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


@dataclass(frozen=True)
class Note:
    """A checkpoint with the signatures under it."""

    checkpoint: Checkpoint
    lines: tuple[str, ...]
    """The lines of the signatures, those of unknown keys too."""

    @classmethod
    def parse(cls, data: bytes) -> Note:
        """Read a note, and check no signature.

        Raises `MalformedMessageError`, or `LimitExceededError`.
        """
        if len(data) > MAX_NOTE_BYTES:
            raise LimitExceededError("checkpoint in bytes", MAX_NOTE_BYTES, len(data))
        try:
            text, _, signatures = data.decode("utf-8").partition("\n\n")
        except UnicodeDecodeError:
            raise MalformedMessageError("checkpoint", "is not UTF-8") from None
        found, lines = _TEXT.fullmatch(text + "\n"), signatures.split("\n")
        if found is None:
            raise MalformedMessageError("checkpoint", "is not three lines: the ledger, its length, its root")
        if len(lines) < 2 or lines[-1] or not all(map(_LINE.fullmatch, lines[:-1])):
            raise MalformedMessageError("checkpoint", "has no signatures, or lines that are none")
        root = base64.b64decode(found[3])
        return cls(Checkpoint(found[1], int(found[2]), root), tuple(lines[:-1]))

    @property
    def bytes(self) -> bytes:
        return "".join([self.checkpoint.text, "\n", *(f"{line}\n" for line in self.lines)]).encode()

    def signed(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Note:
        """Return the note with one more signature, that of the certificate's holder."""
        signature = key.sign(self.checkpoint.text.encode(), _HASH)
        written = base64.b64encode(_key_id(key.public_key()) + signature).decode()
        line = f"— {self.name_of(certificate)} {written}"
        return Note(self.checkpoint, (*self.lines, line))

    def is_signed_by(self, certificate: x509.Certificate) -> bool:
        """Return whether the certificate's holder has signed.

        Raises `SignatureError` if a line says so in its name and with its key, and is wrong.
        """
        return self.is_signed_with(self.name_of(certificate), public_key(certificate))

    def is_signed_with(self, name: str, key: NoteKey) -> bool:
        """Return whether a key has signed under a name; raises `SignatureError` as `is_signed_by` does."""
        known, is_found = _signings(name, key), False
        for line in self.lines:
            _, its_name, written = line.split(" ")
            try:
                signature = base64.b64decode(written, validate=True)
            except binascii.Error:  # of an unknown key, as far as anybody can tell
                continue
            holds = known.get(signature[:_KEY_ID_BYTES])
            if its_name != name or holds is None:
                continue
            if not holds(signature[_KEY_ID_BYTES:], self.checkpoint.text.encode()):
                raise SignatureError(f"checkpoint: was not signed by {name}")
            is_found = True
        return is_found

    def name_of(self, certificate: x509.Certificate) -> str:
        """Return the name under which a certificate's holder signs: the analyst with that of the ledger."""
        identity = certified_name(certificate)
        return self.checkpoint.origin if identity.role == "analyst" else identity.urn


def leaf_hashes(entries: Iterable[LedgerEntry]) -> list[bytes]:
    """Return the leaf hashes of entries."""
    return [leaf_hash(encode(entry)) for entry in entries]


def load_note_key(data: bytes) -> NoteKey:
    """Return the public key of a witness, PEM: EC P-256 or Ed25519; raises `InputError` for any other."""
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError("the key of a witness is a public key in PEM") from None
    is_p256 = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)
    if not is_p256 and not isinstance(key, ed25519.Ed25519PublicKey):
        raise InputError("the key of a witness is of EC P-256 or Ed25519; this one is of neither")
    return cast("NoteKey", key)


def _signings(name: str, key: NoteKey) -> dict[bytes, _Holds]:
    """Return how a key signs notes, by the key id in the line: C2SP signed-note and tlog-cosignature."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return {_key_id(key): lambda signature, text: _verified(key.verify, signature, text, _HASH)}

    def cosigned(signature: bytes, text: bytes) -> bool:
        at = int.from_bytes(signature[:_TIME_BYTES])
        covered = f"cosignature/v1\ntime {at}\n".encode() + text
        return _verified(key.verify, signature[_TIME_BYTES:], covered)

    def key_id(kind: int) -> bytes:
        return sha256(name.encode() + b"\n" + bytes([kind]) + key.public_bytes_raw()).digest()[:_KEY_ID_BYTES]

    return {
        key_id(_ED25519): lambda signature, text: _verified(key.verify, signature, text),
        key_id(_COSIGNATURE): cosigned,
    }


def _verified(verify: Callable[..., None], *arguments: object) -> bool:
    try:
        verify(*arguments)
    except InvalidSignature:
        return False
    return True


def _key_id(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return the id of an ECDSA key in a note: of its SubjectPublicKeyInfo alone, without the name."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(der).digest()[:_KEY_ID_BYTES]
