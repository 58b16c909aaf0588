"""What an analyst that does not relay what it was given can do: write into its database, and forge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from analyst_server.store import Unit
from protocol.codec import M, Message
from protocol.envelope import decode_stored, sign
from protocol.errors import CertificateRefusedError, NotPermittedError, SignatureError
from protocol.identity import Identity, load_certificate
from tests.harness.consortium import Consortium
from user_client.custody.authority import Authority
from user_client.sdk.session import unix_now

Row = TypeVar("Row")


@contextmanager
def tampering(made: Consortium) -> Iterator[Unit]:
    """A transaction in the analyst's records."""
    with made.operator() as opened, opened.records.begin(write=True) as unit:
        yield unit


def the(row: Row | None) -> Row:
    assert row is not None
    return row


def content(kind: type[M], signed: bytes | None) -> M:
    assert signed is not None
    return decode_stored(kind, signed)


Signer = Callable[[Message], bytes]


def signed_by_the_analyst(made: Consortium) -> Signer:
    identity = made.analyst.data_dir / "identity"
    key = load_pem_private_key((identity / "key.pem").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = load_certificate((identity / "certificate.pem").read_bytes())
    return lambda message: sign(message, key, certificate)


def signed_by_another_member(made: Consortium) -> Signer:
    return made.sessions["hospital-c"].sign


def signed_under_a_root_of_its_own(made: Consortium) -> Signer:
    """With a certificate in the victim's name, from an authority the analyst made up."""
    authority = Authority.create("Test consortium", now=unix_now())
    key = ec.generate_private_key(ec.SECP256R1())
    name = Identity(made.lead.membership.consortium_id, "institution", "hospital-b")
    certificate: x509.Certificate = authority.issue(key.public_key(), name, now=unix_now())
    return lambda message: sign(message, key, certificate)


def with_the_victims_certificate(made: Consortium) -> Signer:
    """Certificates are public; the key behind one is not."""
    key = ec.generate_private_key(ec.SECP256R1())
    return lambda message: sign(message, key, made.sessions["hospital-b"].home.certificate())


FORGERS = [
    (signed_by_the_analyst, NotPermittedError),
    (signed_by_another_member, NotPermittedError),
    (signed_under_a_root_of_its_own, CertificateRefusedError),
    (with_the_victims_certificate, SignatureError),
]
