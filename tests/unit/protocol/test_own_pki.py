from __future__ import annotations

from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from protocol.errors import CertificateRefusedError, InputError
from protocol.identity import load_der_certificate
from protocol.own_pki import NameMapping, carries_name
from tests.harness.certificates import NOT_AFTER, NOT_BEFORE, NOW
from tests.harness.own_pki import HOST, NAME, Ca, issue, make_ca

KEY = ec.generate_private_key(ec.SECP256R1()).public_key()
SUBJECT = "subject:CN=hospital gateway,O=Hospital"


@cache
def root() -> Ca:
    return make_ca("Root CA")


@cache
def issuing() -> Ca:
    return make_ca("Issuing CA", root())


def check(*chain: bytes, name: str = NAME, at: int = NOW, authority: Ca | None = None) -> None:
    NameMapping((authority or root()).certificate, name).check(chain, KEY, at=at)


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ([x509.DNSName(HOST)], NAME),
        ([x509.DNSName(HOST.upper())], NAME),
        ([x509.DNSName("other.example"), x509.DNSName(HOST)], NAME),
        ([x509.RFC822Name("odc@hospital.example")], "email:odc@hospital.example"),
        ([x509.UniformResourceIdentifier("urn:hospital:odc")], "uri:urn:hospital:odc"),
        ([], SUBJECT),
        ([x509.DNSName(HOST)], SUBJECT),
        (
            [
                x509.OtherName(x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3"), b"\x0c\x01a"),
                x509.DNSName(HOST),
            ],
            NAME,
        ),
    ],
    ids=str,
)
def test_a_chain_to_the_ca_for_our_key_and_name_holds(names: list[x509.GeneralName], name: str) -> None:
    check(issue(issuing(), KEY, names), issuing().der, name=name)


def test_a_ca_between_may_be_the_end_of_the_path() -> None:
    check(issue(issuing(), KEY), authority=issuing())


@pytest.mark.parametrize("at", [NOT_BEFORE, NOT_AFTER])
def test_a_certificate_holds_at_both_ends_of_its_time(at: int) -> None:
    check(issue(issuing(), KEY), issuing().der, at=at)


def test_another_ca_of_the_same_name_is_refused() -> None:
    twin = make_ca("Root CA")
    with pytest.raises(CertificateRefusedError, match="does not lead to the CA"):
        check(issue(issuing(), KEY), issuing().der, authority=twin)


def test_a_chain_with_a_gap_is_refused() -> None:
    with pytest.raises(CertificateRefusedError, match="does not lead to the CA"):
        check(issue(issuing(), KEY))


@pytest.mark.parametrize("times", [{"not_after": NOW - 1}, {"not_before": NOW + 1}], ids=str)
def test_a_certificate_out_of_its_time_is_refused(times: dict[str, int]) -> None:
    with pytest.raises(CertificateRefusedError, match="not valid at validation time"):
        check(issue(issuing(), KEY, **times), issuing().der)  # type: ignore[arg-type]  # times are no names


@pytest.mark.parametrize(
    "name", ["dns:gateway.hospital", "dns:*.hospital.example", f"uri:{HOST}", "subject:CN=hospital gateway"]
)
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(CertificateRefusedError, match="does not carry the name"):
        check(issue(issuing(), KEY), issuing().der, name=name)


def test_a_wildcard_in_the_certificate_stands_for_itself_alone() -> None:
    with pytest.raises(CertificateRefusedError, match="does not carry the name"):
        check(issue(issuing(), KEY, [x509.DNSName("*.hospital.example")]), issuing().der)


def test_the_common_name_is_no_host() -> None:
    with pytest.raises(CertificateRefusedError, match="does not carry the name"):
        check(issue(issuing(), KEY, [], subject=HOST), issuing().der)


def test_a_certificate_for_another_key_is_refused() -> None:
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    with pytest.raises(CertificateRefusedError, match="another key"):
        check(issue(issuing(), other), issuing().der)


def test_a_certificate_for_an_rsa_key_is_refused() -> None:
    key = rsa.generate_private_key(65537, 2048).public_key()
    with pytest.raises(CertificateRefusedError, match="P-256"):
        check(issue(issuing(), key), issuing().der)


def test_a_certificate_issued_by_a_party_that_is_no_ca_is_refused() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = Ca(key, load_der_certificate(issue(issuing(), key.public_key())))
    with pytest.raises(CertificateRefusedError, match="does not lead to the CA"):
        check(issue(leaf, KEY), leaf.der, issuing().der)


def test_bytes_that_are_no_certificate_are_refused() -> None:
    with pytest.raises(CertificateRefusedError, match="cannot be read"):
        check(issue(issuing(), KEY), b"no certificate")


def test_a_certificate_that_issues_none_is_no_ca() -> None:
    leaf = load_der_certificate(issue(issuing(), KEY))
    with pytest.raises(InputError, match="not one that may issue others"):
        NameMapping(leaf, NAME)


@pytest.mark.parametrize(
    "name",
    ["", HOST, "dns:", "ip:10.0.0.1", "subject:", "subject:gateway", "dns:a\nb", "uri:" + "a" * 200],
)
def test_what_is_no_name_maps_nothing(name: str) -> None:
    with pytest.raises(InputError, match="no name in a certificate"):
        NameMapping(root().certificate, name)


def test_a_certificate_without_other_names_carries_none() -> None:
    assert not carries_name(load_der_certificate(issue(issuing(), KEY, [])), NAME)


def test_a_chain_with_a_flipped_bit_is_refused_by_an_error_of_ours() -> None:
    chain = [issue(issuing(), KEY), issuing().der]
    for place, certificate in enumerate(chain):
        for position in range(len(certificate)):
            flipped = bytearray(certificate)
            flipped[position] ^= 1
            with pytest.raises(CertificateRefusedError):
                check(*chain[:place], bytes(flipped), *chain[place + 1 :])
