"""Targets of what proves who somebody is: signed messages, certificates, requests and revocation lists."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from cryptography import x509

from protocol.codec import decode, encode
from protocol.envelope import SIGNING_ALGORITHM, SealingKey, Signed, decode_stored, seal, verify
from protocol.errors import ProtocolError, TrustError
from protocol.identity import (
    Identity,
    RevocationList,
    TrustRoot,
    certificate_request,
    certified_name,
    fingerprint,
    load_certificate,
    load_der_certificate,
    public_key,
    requested_key,
)
from protocol.own_pki import NameMapping
from protocol.sealing import HYBRID, SEALINGS
from tests.fuzz.decoders import KINDS, message_seeds, vectors
from tests.fuzz.target import Target, named, outcome, split_name, stateless
from tests.harness.certificates import NOW, reissue, revoke, shared_member, shared_root
from tests.harness.own_pki import NAME, issue, make_ca

NEWLY_SIGNED: Final = "signed "
"""Before a name: what follows is signed by us, so that the inside of it is reached as well."""
_INFO: Final = b"info"


@cache
def _kept_root() -> TrustRoot:
    """Return the root of the test vectors, which is the same each time."""
    return TrustRoot(load_certificate(vectors("signed")["root"].encode()))


def newly_signed(label: str, payload: bytes, name: str = "hospital-a") -> bytes:
    """Return any bytes signed by a member as a message of a kind."""
    member = shared_member("lead" if name.startswith("lead") else "institution", name)
    signature = member.key.sign(label.encode() + b"\x00" + payload, SIGNING_ALGORITHM)
    return encode(Signed(kind=label[:100], payload=payload, certificate=member.der, signature=signature))


def signed(data: bytes) -> str:
    """Verify a signed message of the kind in the first line."""
    name, rest = split_name(data)
    kind = KINDS.get(name.removeprefix(NEWLY_SIGNED))
    if kind is None or (name.startswith(NEWLY_SIGNED) and not rest):
        return "no kind"
    root = _kept_root()
    if name.startswith(NEWLY_SIGNED):
        root, rest = shared_root().trust_root, newly_signed(kind.signing_label, rest)

    def verified() -> str:
        found = verify(kind, rest, root, at=NOW)
        assert decode_stored(kind, rest) == found.message
        assert encode(found.message) == decode(Signed, rest).payload
        return f"{name} by {found.author.role}"

    return outcome(verified, ProtocolError, TrustError)


def signed_seeds() -> Iterator[bytes]:
    for case in vectors("signed")["messages"]:
        yield named(case["kind"], bytes.fromhex(case["hex"]))
    yield from (NEWLY_SIGNED.encode() + seed for seed in message_seeds())


def certificate(data: bytes) -> str:
    """Read a certificate and what it names; one that the root has signed over anything is no exception."""
    name, rest = split_name(data)
    if name == "inside":  # what a careless lead could issue
        rest = reissue(shared_root(), rest)
    root = shared_root().trust_root if name in ("inside", "") else _kept_root()

    def identified() -> str:
        found = (load_der_certificate if name == "der" else load_certificate)(rest)
        for read in (lambda: str(certified_name(found)), lambda: str(public_key(found).key_size)):
            outcome(read, TrustError)
        assert len(fingerprint(found)) == 79
        outcome(lambda: str(TrustRoot(found)), TrustError)
        return f"{name} {root.identify(found, at=NOW).role}"

    return outcome(identified, TrustError)


def certificate_seeds() -> Iterator[bytes]:
    for case in vectors("signed")["certificates"]:
        yield named("der", bytes.fromhex(case["hex"]))
    yield named("pem", vectors("signed")["root"].encode())
    yield named("inside", shared_member().certificate.tbs_certificate_bytes)
    yield named("inside", shared_root().certificate.tbs_certificate_bytes)


def urn(data: bytes) -> str:
    """Read the name in a certificate."""
    text = data.decode("utf-8", "replace")

    def read() -> str:
        found = Identity.from_urn(text)
        assert found.urn == text, "read from another form"
        return found.role

    return outcome(read, TrustError)


def urn_seeds() -> Iterator[bytes]:
    for role in ("lead", "institution", "analyst"):
        yield f"urn:odc:{'0' * 32}:{role}:hospital-a".encode()


@cache
def _own_pki() -> tuple[NameMapping, bytes]:
    ca = make_ca("root")
    return NameMapping(ca.certificate, NAME), issue(ca, shared_member().key.public_key())


def request(data: bytes) -> str:
    """Read a request for a certificate, and a chain of the party's own PKI."""
    name, rest = split_name(data)
    if name == "chain":
        mapping, _ = _own_pki()
        chain = [rest[start : start + 800] for start in range(0, max(len(rest), 1), 800)]

        def checked() -> str:
            mapping.check(chain, shared_member().key.public_key(), at=NOW)
            return "certified by its own PKI"

        return outcome(checked, TrustError)
    return outcome(lambda: f"a key of {requested_key(rest).key_size} bits", TrustError)


def request_seeds() -> Iterator[bytes]:
    yield named("csr", certificate_request(shared_member().key, "hospital-a"))
    yield named("chain", _own_pki()[1])


def revocations(data: bytes) -> str:
    """Read a revocation list."""
    name, rest = split_name(data)
    root = shared_root()
    if name == "inside":
        rest = reissue(root, rest)

    def read() -> str:
        found = RevocationList(rest, root.certificate)
        assert isinstance(found.number, int)
        root.trust_root.adopt(rest)
        return f"{len(found.revoked_at)} revoked"

    return outcome(read, ProtocolError, TrustError)


def revocation_seeds() -> Iterator[bytes]:
    member = shared_member().certificate
    for made in (revoke(shared_root()), revoke(shared_root(), member), revoke(shared_root(), number=None)):
        yield named("list", made)
        yield named("inside", x509.load_der_x509_crl(made).tbs_certlist_bytes)


@cache
def _sealing_key() -> SealingKey:
    return SealingKey.generate()


def sealing(data: bytes) -> str:
    """Open what was sealed for us, and seal for a key that somebody sent."""
    name, rest = split_name(data)
    if name == "open":
        return outcome(lambda: f"{len(_sealing_key().open(rest, _INFO))} bytes", TrustError)
    suite = name if name in SEALINGS else HYBRID  # an `Acceptance` names no other
    return outcome(lambda: f"{len(seal(b'seed', suite, rest, _INFO))} bytes", ProtocolError)


def sealing_seeds() -> Iterator[bytes]:
    key = _sealing_key()
    yield named("open", seal(b"seed", key.suite, key.public_bytes(), _INFO))
    yield named(key.suite, key.public_bytes())
    for suite in ("x25519", "mlkem1024-p384", "p256"):
        yield named(suite, SealingKey.generate(suite).public_bytes())


TARGETS: Final = (
    Target("signed", stateless(signed), signed_seeds, 10),
    Target("certificate", stateless(certificate), certificate_seeds, 6),
    Target("urn", stateless(urn), urn_seeds, 2),
    Target("request", stateless(request), request_seeds, 3),
    Target("revocations", stateless(revocations), revocation_seeds, 4),
    Target("sealing", stateless(sealing), sealing_seeds, 2),
)
