from __future__ import annotations

import ipaddress
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from protocol.errors import CertificateRefusedError
from protocol.identity import Identity, TrustRoot, requested_key
from tests.harness.certificates import NOW
from user_client.custody import authority as authority_module
from user_client.custody.authority import Authority
from user_client.custody.passphrase import lock as real_lock
from user_client.errors import PassphraseError

DAY_S = 24 * 3600


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("Heart consortium", now=NOW)


@pytest.fixture
def root(authority: Authority) -> TrustRoot:
    return TrustRoot(authority.certificate)


@pytest.fixture(scope="module")
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def request(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, name: str = "anything") -> bytes:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject)
    wanted = x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier(Identity("f" * 32, "lead", name).urn)]
    )
    return csr.add_extension(wanted, critical=False).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_two_consortia_have_two_ids() -> None:
    one, other = (TrustRoot(Authority.create("Same name", now=NOW).certificate) for _ in range(2))
    assert one.consortium_id != other.consortium_id


@pytest.mark.parametrize("role", ["lead", "institution", "analyst"])
def test_an_issued_certificate_is_whom_the_lead_named(
    authority: Authority, root: TrustRoot, key: ec.EllipticCurvePrivateKey, role: str
) -> None:
    identity = Identity(root.consortium_id, role, "hospital-a")  # type: ignore[arg-type]
    issued = authority.issue(key.public_key(), identity, now=NOW)
    assert root.identify(issued, at=NOW) == identity


@pytest.mark.parametrize("offset_s", [-3600, 0, 365 * DAY_S])
def test_a_certificate_holds_for_a_year_and_for_clocks_that_run_late(
    authority: Authority, root: TrustRoot, key: ec.EllipticCurvePrivateKey, offset_s: int
) -> None:
    identity = Identity(root.consortium_id, "institution", "hospital-a")
    assert root.identify(authority.issue(key.public_key(), identity, now=NOW), at=NOW + offset_s)


@pytest.mark.parametrize("offset_s", [-3601, 365 * DAY_S + 1])
def test_a_certificate_does_not_hold_outside_its_time(
    authority: Authority, root: TrustRoot, key: ec.EllipticCurvePrivateKey, offset_s: int
) -> None:
    identity = Identity(root.consortium_id, "institution", "hospital-a")
    issued = authority.issue(key.public_key(), identity, now=NOW)
    with pytest.raises(CertificateRefusedError):
        root.identify(issued, at=NOW + offset_s)


@pytest.mark.parametrize("host", ["analyst.example.org", "127.0.0.1", "::1"])
def test_a_server_certificate_holds_for_its_address(
    authority: Authority, root: TrustRoot, key: ec.EllipticCurvePrivateKey, host: str
) -> None:
    identity = Identity(root.consortium_id, "analyst", "analyst")
    issued = authority.issue(key.public_key(), identity, hosts=[host], now=NOW)
    try:
        subject: x509.DNSName | x509.IPAddress = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        subject = x509.DNSName(host)
    policy = PolicyBuilder().store(Store([authority.certificate])).time(datetime.fromtimestamp(NOW, UTC))
    assert policy.build_server_verifier(subject).verify(issued, [])[0] == issued
    assert root.identify(issued, at=NOW) == identity


def test_an_institution_cannot_serve_as_the_analyst(
    authority: Authority, root: TrustRoot, key: ec.EllipticCurvePrivateKey
) -> None:
    identity = Identity(root.consortium_id, "institution", "hospital-a")
    issued = authority.issue(key.public_key(), identity, now=NOW)
    usage = issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_of_a_request_only_the_key_is_taken_over(
    authority: Authority, root: TrustRoot, key: ec.EllipticCurvePrivateKey
) -> None:
    identity = Identity(root.consortium_id, "institution", "hospital-a")
    issued = authority.issue(requested_key(request(key, "lead-hospital")), identity, now=NOW)
    assert root.identify(issued, at=NOW) == identity
    assert issued.public_key() == key.public_key()
    assert "lead-hospital" not in issued.subject.rfc4514_string()


def test_a_request_that_cannot_be_read_is_refused(authority: Authority, root: TrustRoot) -> None:
    identity = Identity(root.consortium_id, "institution", "hospital-a")
    with pytest.raises(CertificateRefusedError, match="cannot be read"):
        authority.issue(requested_key(b"nothing"), identity, now=NOW)


def test_a_request_with_another_kind_of_key_is_refused(authority: Authority, root: TrustRoot) -> None:
    identity = Identity(root.consortium_id, "institution", "hospital-a")
    other = rsa.generate_private_key(65537, 2048)
    with pytest.raises(CertificateRefusedError, match="ECDSA"):
        authority.issue(requested_key(request(other)), identity, now=NOW)


def test_a_request_that_its_holder_did_not_sign_is_refused(
    authority: Authority, root: TrustRoot, key: ec.EllipticCurvePrivateKey
) -> None:
    identity = Identity(root.consortium_id, "institution", "hospital-a")
    forged = bytearray(request(key))
    forged[-1] ^= 1
    with pytest.raises(CertificateRefusedError):
        authority.issue(requested_key(bytes(forged)), identity, now=NOW)


def test_a_locked_root_issues_again_after_it_was_unlocked(
    authority: Authority, root: TrustRoot, key: ec.EllipticCurvePrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authority_module, "lock", lambda data, words: real_lock(data, words, log2_n=4))
    locked = authority.lock("correct horse")
    again = Authority.unlock(locked, "correct horse", authority.certificate)
    identity = Identity(root.consortium_id, "institution", "hospital-a")
    assert root.identify(again.issue(key.public_key(), identity, now=NOW), at=NOW) == identity
    with pytest.raises(PassphraseError):
        Authority.unlock(locked, "wrong", authority.certificate)


def test_an_authority_shows_nothing_of_itself(authority: Authority) -> None:
    assert repr(authority) == "<Authority, unlocked>"
