from __future__ import annotations

from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ObjectIdentifier

from protocol.errors import CertificateRefusedError, CertificateRevokedError, LimitExceededError
from protocol.identity import Identity, TrustRoot, certified_name, fingerprint, load_certificate
from protocol.limits import MAX_REVOCATION_LIST_BYTES
from protocol.messages import Role
from tests.harness import certificates as fakes

URN = f"urn:odc:{fakes.CONSORTIUM_ID}:institution:hospital-a"
SUBJECT_ALTERNATIVE_NAME = ObjectIdentifier("2.5.29.17")


def identify(certificate: x509.Certificate, at: int = fakes.NOW) -> Identity:
    return fakes.shared_root().trust_root.identify(certificate, at=at)


def with_names(*names: str, **options: Any) -> x509.Certificate:
    public_key = fakes.shared_member().key.public_key()
    uris = [x509.UniformResourceIdentifier(name) for name in names]
    return fakes.issue_for(fakes.shared_root(), public_key, uris, **options)


@pytest.mark.parametrize("role", ["lead", "institution", "analyst"])
def test_a_certificate_names_role_and_member(role: Role) -> None:
    credential = fakes.issue(fakes.shared_root(), role, "somebody")
    assert identify(credential.certificate) == Identity(fakes.CONSORTIUM_ID, role, "somebody")


def test_dns_names_beside_the_one_urn_do_no_harm() -> None:
    credential = fakes.issue(fakes.shared_root(), "analyst", "analyst", dns=["a.example", "localhost"])
    assert identify(credential.certificate).name == "analyst"


@pytest.mark.parametrize(
    "names",
    [
        (URN, URN.replace("-a", "-b")),
        (URN, "urn:other:thing"),
        ("urn:other:thing",),
        (URN.replace("institution", "observer"),),
        (URN + ":more",),
        (URN.removesuffix(":hospital-a"),),
        (URN.replace("hospital-a", "Hospital-A"),),
        (URN.replace(fakes.CONSORTIUM_ID, "f" * 32),),
        (URN.replace(fakes.CONSORTIUM_ID, "f"),),
        (URN.replace("urn:", "URN:"),),
    ],
)
def test_no_name_two_names_and_wrong_names_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(CertificateRefusedError):
        identify(with_names(*names))


def test_a_certificate_without_any_name_is_refused() -> None:
    with pytest.raises(CertificateRefusedError):
        identify(with_names())


def test_a_certificate_for_servers_alone_is_refused() -> None:
    with pytest.raises(CertificateRefusedError):
        identify(with_names(URN, client_auth=False))


def test_a_member_cannot_issue_for_another() -> None:
    """Neither by being an authority, nor by signing below its own certificate."""
    with pytest.raises(CertificateRefusedError):
        identify(with_names(URN, ca=True))
    member = fakes.shared_member()
    below = fakes.issue(fakes.Authority(member.key, member.certificate), "institution", "hospital-b")
    with pytest.raises(CertificateRefusedError):
        identify(below.certificate)


def test_a_root_of_the_same_name_is_not_the_same_root() -> None:
    with pytest.raises(CertificateRefusedError):
        identify(fakes.issue(fakes.make_root()).certificate)


def test_a_certificate_holds_from_its_first_second_to_its_last() -> None:
    certificate = fakes.shared_member().certificate
    assert identify(certificate, fakes.NOT_BEFORE) == identify(certificate, fakes.NOT_AFTER)
    for at in (fakes.NOT_BEFORE - 1, fakes.NOT_AFTER + 1):
        with pytest.raises(CertificateRefusedError, match="not valid at validation time"):
            identify(certificate, at)


def test_the_subject_of_a_refused_certificate_is_not_quoted() -> None:
    with pytest.raises(CertificateRefusedError) as caught:
        identify(with_names(URN, common_name="SECRET", ca=True))
    assert "SECRET" not in caught.value.detail


def test_names_that_the_library_cannot_parse_are_refused() -> None:
    public_key = fakes.shared_member().key.public_key()
    strange = {"an address of two bytes": "30048702fffe", "an X.400 address": "3004a3020500"}
    for value in strange.values():
        names = x509.UnrecognizedExtension(SUBJECT_ALTERNATIVE_NAME, bytes.fromhex(value))
        root = fakes.shared_root()
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(root.certificate.subject)
            .public_key(public_key)
            .serial_number(1)
            .not_valid_before(root.certificate.not_valid_before_utc)
            .not_valid_after(root.certificate.not_valid_after_utc)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(root.key.public_key()), critical=False
            )
            .add_extension(names, critical=True)
            .sign(root.key, hashes.SHA256())
        )
        with pytest.raises(CertificateRefusedError, match="cannot be read"):
            identify(certificate)


def test_a_subject_that_does_not_parse_is_refused() -> None:
    """The verifier wants to quote the subject in its message, and fails at that instead."""
    tbs = fakes.shared_member().certificate.tbs_certificate_bytes
    place = tbs.index(b"hospital-a")  # first in the subject
    spoilt = fakes.reissue(fakes.shared_root(), tbs[:place] + b"\xff" + tbs[place + 1 :])
    with pytest.raises(CertificateRefusedError, match="cannot be read"):
        identify(load_certificate(spoilt), fakes.NOT_AFTER + 1)


@pytest.mark.parametrize("data", [b"", b"0\x03\x02\x01\x00", b"-----BEGIN CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(CertificateRefusedError, match="cannot be read"):
        load_certificate(data)


def test_a_certificate_of_an_unknown_version_is_refused() -> None:
    der = fakes.shared_member().der
    version = bytes.fromhex("a003020102")
    assert der.count(version) == 1
    with pytest.raises(CertificateRefusedError, match="cannot be read"):
        load_certificate(der.replace(version, bytes.fromhex("a003020107")))


def test_pem_and_der_are_the_same_certificate() -> None:
    member = fakes.shared_member()
    assert load_certificate(member.pem) == load_certificate(member.der) == member.certificate


def test_a_fingerprint_is_read_in_groups_of_four() -> None:
    text = fingerprint(fakes.shared_root().certificate)
    assert len(text) == 79
    assert {len(group) for group in text.split(" ")} == {4}
    assert text.replace(" ", "") == fakes.shared_root().certificate.fingerprint(hashes.SHA256()).hex()


def test_a_root_without_a_consortium_is_refused() -> None:
    with pytest.raises(CertificateRefusedError, match="names no consortium"):
        fakes.make_root(consortium_id=None).trust_root  # noqa: B018  # the property raises


def test_a_root_whose_subject_does_not_parse_is_refused() -> None:
    tbs = fakes.shared_root().certificate.tbs_certificate_bytes
    name = b"ODC consortium root"
    spoilt = tbs.replace(name, b"\xff" + name[1:])
    with pytest.raises(CertificateRefusedError, match="the root certificate cannot be read"):
        TrustRoot(load_certificate(fakes.reissue(fakes.shared_root(), spoilt)))


def test_the_repr_of_a_root_is_short() -> None:
    assert repr(TrustRoot(fakes.shared_root().certificate)) == "<TrustRoot of consortium 01234567>"


def test_a_name_comes_back_from_its_urn() -> None:
    identity = Identity(fakes.CONSORTIUM_ID, "institution", "hospital-a")
    assert identity.urn == URN
    assert Identity.from_urn(URN) == identity


def test_keys_of_the_fakes_are_p256() -> None:
    assert isinstance(fakes.shared_root().key.curve, ec.SECP256R1)


# revocation


def test_a_revoked_certificate_is_refused_and_others_are_not() -> None:
    root = fakes.shared_root().trust_root
    lost, other = (fakes.shared_member("institution", name).certificate for name in ("lost", "other"))
    root.adopt(fakes.revoke(fakes.shared_root(), lost))
    with pytest.raises(CertificateRevokedError, match="lost was revoked"):
        root.identify(lost, at=fakes.NOW)
    assert root.identify(other, at=fakes.NOW).name == "other"


def test_another_list_with_the_same_number_brings_no_certificate_back() -> None:
    root, lost = fakes.shared_root().trust_root, fakes.shared_member().certificate
    held = fakes.revoke(fakes.shared_root(), lost, number=2)
    root.adopt(held)
    with pytest.raises(CertificateRefusedError, match="another revocation list with the number 2") as caught:
        root.adopt(fakes.revoke(fakes.shared_root(), number=2))
    assert "odc consortium revoke" in caught.value.hint
    root.adopt(held)
    with pytest.raises(CertificateRevokedError):
        root.identify(lost, at=fakes.NOW)


def test_an_older_list_brings_no_certificate_back() -> None:
    root, lost = fakes.shared_root().trust_root, fakes.shared_member().certificate
    root.adopt(fakes.revoke(fakes.shared_root(), lost, number=2))
    with pytest.raises(CertificateRefusedError, match="number 1, older than 2"):
        root.adopt(fakes.revoke(fakes.shared_root(), number=1))
    with pytest.raises(CertificateRevokedError):
        root.identify(lost, at=fakes.NOW)


def test_a_list_of_another_root_is_refused_even_under_our_name() -> None:
    with pytest.raises(CertificateRefusedError, match="not signed"):
        fakes.shared_root().trust_root.adopt(fakes.revoke(fakes.make_root()))


def test_a_list_with_one_flipped_bit_is_refused_or_says_the_same() -> None:
    """DER has one bit to spare: how many bits at the end of the signature do not count."""
    lost = fakes.shared_member().certificate
    der = bytearray(fakes.revoke(fakes.shared_root(), lost))
    accepted = 0
    for position in range(len(der)):
        der[position] ^= 1
        root = fakes.shared_root().trust_root
        try:
            root.adopt(bytes(der))
        except CertificateRefusedError:
            pass
        else:
            accepted += 1
            assert root.revocations is not None
            assert set(root.revocations.revoked_at) == {lost.serial_number}
        der[position] ^= 1
    assert accepted <= 1


@pytest.mark.parametrize("data", [b"", b"no list", b"\x30\x80"])
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(CertificateRefusedError, match="cannot be read"):
        fakes.shared_root().trust_root.adopt(data)


def test_a_list_without_a_number_is_refused() -> None:
    with pytest.raises(CertificateRefusedError, match="cannot be read"):
        fakes.shared_root().trust_root.adopt(fakes.revoke(fakes.shared_root(), number=None))


def test_a_list_over_its_limit_is_refused_unread() -> None:
    with pytest.raises(LimitExceededError):
        fakes.shared_root().trust_root.adopt(bytes(MAX_REVOCATION_LIST_BYTES + 1))


def test_the_issuer_reads_a_name_from_a_certificate_that_has_ended() -> None:
    ended = fakes.issue(fakes.shared_root(), not_after=fakes.NOT_BEFORE + 1).certificate
    assert certified_name(ended).name == "hospital-a"


def test_a_certificate_without_names_names_nobody() -> None:
    with pytest.raises(CertificateRefusedError):
        certified_name(fakes.shared_root().certificate)
