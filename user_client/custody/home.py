"""The state directory of one institution: who it is, its keys, and what it keeps of each round.

::

    membership.json  key.pem  certificate.pem  root.pem     who we are
    invitation.json                                         while joining; erased afterwards
    consortium/                                             the lead institution only
        root.locked  root.pem  invitations/ID.json
        issued/SERIAL.pem                               every certificate this root has issued
    revocations.crl                                     the newest revocation list we know
    renewal.odc                                         while our certificate is renewed
    collaborations/ID/
        terms.odc  acceptance.odc  sealing.key  anchor.odc  signed messages, and the key to the anchor
        anchor.matrix                                       of a public anchor, sealed
        anchors.odc                                         the lead only: the anchor, sealed for each member
        basis.npy                                           F_i: never leaves
        uplink.odc  uplink.payload  prepared.json           what leaves
        receipt.odc  downlink.odc  change_of_basis.bin  model.onnx
        own_model.npz                                       t_i, under NRI-DC in the place of the two
        forgotten.odc                                       our word on what was erased, and when
    analyst.json                                            what the analyst said of itself, for a day
    traffic.jsonl                                           bytes on the wire, by kind: counts only
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from protocol.errors import CertificateRefusedError, InputError
from protocol.identity import Identity, TrustRoot, load_certificate
from protocol.messages import Role
from user_client.custody.files import write_whole
from user_client.errors import NotJoinedError


def revocations_der(data: bytes) -> bytes:
    """Return a revocation list as it is sent, from a file; raises `CertificateRefusedError`."""
    if not data.startswith(b"-----BEGIN"):
        return data
    try:
        return x509.load_pem_x509_crl(data).public_bytes(Encoding.DER)
    except ValueError:
        raise CertificateRefusedError("the revocation list cannot be read") from None


@dataclass(frozen=True)
class Membership:
    """Which consortium this institution belongs to, and as what."""

    consortium: str
    consortium_id: str
    analyst_url: str
    role: Role
    party: str

    @property
    def identity(self) -> Identity:
        return Identity(self.consortium_id, self.role, self.party)


class Home:
    """Reads and writes the state directory; knows where things lie and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<Home {self.path}>"

    @property
    def key_path(self) -> Path:
        return self.path / "key.pem"

    @property
    def certificate_path(self) -> Path:
        return self.path / "certificate.pem"

    @property
    def root_path(self) -> Path:
        return self.path / "root.pem"

    @property
    def invitation_path(self) -> Path:
        return self.path / "invitation.json"

    @property
    def consortium_path(self) -> Path:
        return self.path / "consortium"

    @property
    def revocations_path(self) -> Path:
        return self.path / "revocations.crl"

    @property
    def renewal_path(self) -> Path:
        return self.path / "renewal.odc"

    @property
    def analyst_path(self) -> Path:
        return self.path / "analyst.json"

    @property
    def traffic_path(self) -> Path:
        return self.path / "traffic.jsonl"

    def collaboration(self, collaboration_id: str) -> Path:
        """Return where one round's files lie; raises `InputError` for what is no id.

        The id comes from a person or from the analyst: neither may name a place outside.
        """
        if not re.fullmatch("[0-9a-f]{32}", collaboration_id):
            raise InputError("a collaboration's id is 32 hexadecimal digits; `odc status` shows it")
        return self.path / "collaborations" / collaboration_id

    def make_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the identity key, drawn here if there is none yet; it is never replaced."""
        if not self.key_path.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            write_whole(self.key_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return self.key()

    def key(self) -> ec.EllipticCurvePrivateKey:
        key = load_pem_private_key(self._read("key.pem"), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateRefusedError(f"{self.key_path} is not an ECDSA key")
        return key

    def certificate(self) -> x509.Certificate:
        return load_certificate(self._read("certificate.pem"))

    def root(self) -> TrustRoot:
        """Return what we believe certificates by, with the revocation list if we know one."""
        root = TrustRoot(load_certificate(self._read("root.pem")))
        if self.revocations_path.exists():
            root.adopt(revocations_der(self.revocations_path.read_bytes()))
        return root

    def membership(self) -> Membership:
        """Return who we are; raises `NotJoinedError`."""
        try:
            stored = Membership(**json.loads(self._read("membership.json")))
            is_known = stored.role in get_args(Role)
        except (ValueError, TypeError):
            is_known = False
        if not is_known:
            raise NotJoinedError(f"{self.path / 'membership.json'} is damaged")
        return stored

    def write_membership(
        self, membership: Membership, certificate: x509.Certificate, root: x509.Certificate
    ) -> None:
        """Keep a membership; ``membership.json`` comes last, so a broken join is no join."""
        write_whole(self.root_path, root.public_bytes(Encoding.PEM))
        write_whole(self.certificate_path, certificate.public_bytes(Encoding.PEM))
        write_whole(self.path / "membership.json", json.dumps(asdict(membership), indent=2).encode())

    def write_revocations(self, der: bytes) -> None:
        """Keep a revocation list, in the form that TLS reads."""
        crl = x509.load_der_x509_crl(der)
        write_whole(self.revocations_path, crl.public_bytes(Encoding.PEM))

    def write_certificate(self, certificate: x509.Certificate) -> None:
        """Put a newer certificate of our key in the place of the old one."""
        write_whole(self.certificate_path, certificate.public_bytes(Encoding.PEM))

    def is_joined(self) -> bool:
        return (self.path / "membership.json").exists()

    def _read(self, name: str) -> bytes:
        path = self.path / name
        if not path.exists():
            raise NotJoinedError(f"there is no {name} in {self.path}")
        return path.read_bytes()
