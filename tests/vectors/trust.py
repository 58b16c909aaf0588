"""The cases of trust.json: certificates, revocation lists and invitations under one root."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.vectors import people
from tests.vectors.examples import CONSORTIUM, INVITATION, Case
from tests.vectors.people import MEMBER_EXTENSIONS, certificate, urn, usage

HOLDER = people.key(7100).public_key()
NAME = urn("institution", "hospital-b")
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.32473.1"), b"\x05\x00")
ANY_PURPOSE = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE


def without(kind: type[x509.ExtensionType]) -> Sequence[tuple[x509.ExtensionType, bool]]:
    return [each for each in MEMBER_EXTENSIONS if not isinstance(each[0], kind)]


def with_(*extensions: tuple[x509.ExtensionType, bool]) -> Sequence[tuple[x509.ExtensionType, bool]]:
    """The usual extensions, with these in the place of those of the same kind."""
    kinds = tuple(type(each[0]) for each in extensions)
    return [*(each for each in MEMBER_EXTENSIONS if not isinstance(each[0], kinds)), *extensions]


def made(serial: int, **options: Any) -> bytes:
    return certificate(HOLDER, options.pop("names", [NAME]), serial, **options)


def _may(**uses: bool) -> x509.KeyUsage:
    """Return a keyUsage with these bits alone."""
    names = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment"]
    names += ["key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
    return x509.KeyUsage(**{**dict.fromkeys(names, False), **uses})


def _flip(data: bytes, offset: int) -> bytes:
    at = offset % len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _unused_bits(der: bytes) -> bytes:
    """Declare one unused bit in the issuer's signature, which nobody signs."""
    signature = x509.load_der_x509_certificate(der).signature
    at = len(der) - len(signature) - 1
    return der[:at] + b"\x01" + der[at + 1 :]


def _longer_length(der: bytes) -> bytes:
    """Write the length of the whole with a zero before it, which nobody signs."""
    return b"\x30\x83\x00" + der[2:]


def _one_more(der: bytes) -> bytes:
    """Say that the whole is a byte longer, which nobody signs."""
    return der[:2] + (int.from_bytes(der[2:4], "big") + 1).to_bytes(2, "big") + der[4:]


def _long_signature(der: bytes) -> bytes:
    """Write the length of the issuer's signature, which nobody signs, in the long form."""
    size = len(x509.load_der_x509_certificate(der).signature) + 1
    body, bits = der[4 : -size - 2], der[-size:]
    content = body + b"\x03\x81" + bytes([size]) + bits
    return b"\x30\x82" + len(content).to_bytes(2, "big") + content


def certificates() -> Iterator[Case]:
    other_root = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ODC consortium root")])
    rsa_free = people.key(7101)
    for name, der, verdict in [
        ("an institution", made(101), "valid"),
        ("its subject says another name", made(102), "valid"),
        ("with an extension that is not critical and not known",
            made(103, extensions=with_((UNKNOWN, False))), "valid"),
        ("with an extension that is critical and not known",
            made(104, extensions=with_((UNKNOWN, True))), "certificate-refused"),
        ("without an authorityKeyIdentifier",
            made(105, extensions=without(x509.AuthorityKeyIdentifier)), "certificate-refused"),
        ("without a subjectAltName", made(106, names=[]), "certificate-refused"),
        ("without an extendedKeyUsage", made(107, extensions=without(x509.ExtendedKeyUsage)), "valid"),
        ("for servers alone",
            made(108, extensions=with_((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False))),
            "certificate-refused"),
        ("for clients and servers, with a DNS name beside the URN",
            made(109, names=[NAME, x509.DNSName("a.example")], extensions=with_((x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False))), "valid"),
        ("that may issue certificates",
            made(110, extensions=with_((x509.BasicConstraints(True, 0), True),
                                       (usage(signs=True, issues=True), True))), "certificate-refused"),
        ("two URIs", made(111, names=[NAME, urn("institution", "hospital-c")]), "certificate-refused"),
        ("a URI of another scheme beside the URN",
            made(112, names=[NAME, x509.UniformResourceIdentifier("https://a.example")]),
            "certificate-refused"),
        ("a name in capitals", made(113, names=[urn("institution", "Hospital-b")]), "certificate-refused"),
        ("a scheme in capitals",
            made(114, names=[x509.UniformResourceIdentifier(f"URN:odc:{CONSORTIUM}:institution:hospital-b")]),
            "certificate-refused"),
        ("an empty name", made(115, names=[urn("institution", "")]), "certificate-refused"),
        ("a name of 64 characters", made(116, names=[urn("institution", "a" * 64)]), "certificate-refused"),
        ("a name of 63 characters", made(117, names=[urn("institution", "a" * 63)]), "valid"),
        ("a name with a percent sign", made(118, names=[urn("institution", "hospital%2db")]),
            "certificate-refused"),
        ("a role that there is not", made(119, names=[urn("auditor", "hospital-b")]), "certificate-refused"),
        ("of another consortium", made(120, names=[urn("institution", "hospital-b", "f" * 32)]),
            "certificate-refused"),
        ("signed by another key under the root's name", made(121, issuer_key=rsa_free),
            "certificate-refused"),
        ("signed by the root under another name", made(122, issuer=other_root), "certificate-refused"),
        ("ended a second ago", made(123, ends=datetime.fromtimestamp(people.AT - 1, UTC)),
            "certificate-refused"),
        ("ends now", made(124, ends=datetime.fromtimestamp(people.AT, UTC)), "valid"),
        ("a bit of its name flipped", _flip(made(125), made(125).index(b"hospital-b") + 9),
            "certificate-refused"),
        ("a bit of its signature flipped", _flip(made(126), -1), "certificate-refused"),
        ("a signature with an unused bit", _unused_bits(made(127)), "certificate-refused"),
        ("a byte too many", made(128) + b"\x00", "certificate-refused"),
        ("a key that may agree on keys alone",
            made(129, extensions=with_((_may(key_agreement=True), True))), "certificate-refused"),
        ("a key that may agree on keys alone, not critical",
            made(130, extensions=with_((_may(key_agreement=True), False))), "certificate-refused"),
        ("a key that may do more than sign", made(131, extensions=with_(
            (_may(digital_signature=True, key_agreement=True), True))), "valid"),
        ("a key that may sign certificates, of somebody who may not issue", made(132, extensions=with_(
            (_may(digital_signature=True, key_cert_sign=True), True))), "certificate-refused"),
        ("without a keyUsage", made(133, extensions=without(x509.KeyUsage)), "valid"),
        ("without basicConstraints", made(134, extensions=without(x509.BasicConstraints)), "valid"),
        ("for any purpose", made(135, extensions=with_((x509.ExtendedKeyUsage([ANY_PURPOSE]), False))),
            "certificate-refused"),
        ("a critical extendedKeyUsage", made(136, extensions=with_(
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), True))), "certificate-refused"),
        ("begins in 1950", made(137, begins=datetime(1950, 1, 1, tzinfo=UTC)), "valid"),
        ("ends in 2049", made(138, ends=datetime(2049, 12, 31, tzinfo=UTC)), "valid"),
        ("a length with a zero at its front", _longer_length(made(139)), "certificate-refused"),
        ("a length of two bytes where one is enough", _long_signature(made(140)), "certificate-refused"),
        ("cut off", made(141)[:-1], "certificate-refused"),
        ("a length with a byte more than there is", _one_more(made(142)), "certificate-refused"),
        ("a set in the place of the sequence", b"\x31" + made(143)[1:], "certificate-refused"),
        ("the root itself", people.ROOT.public_bytes(Encoding.DER), "certificate-refused"),
    ]:  # fmt: skip
        yield {"name": name, "hex": der.hex(), "verdict": verdict}


def revocation_lists() -> Iterator[Case]:
    """Lists in the order in which they come; `holds` says which certificates hold afterwards."""
    stranger = people.key(7102)
    mine, other = made(201), made(202)
    flipped = bytearray(people.revocations(6, 201))
    flipped[-1] ^= 1

    def case(name: str, lists: Sequence[tuple[bytes, str]], *, mine_is: str, other_is: str) -> Case:
        return {
            "name": name,
            "lists": [{"hex": der.hex(), "verdict": verdict} for der, verdict in lists],
            "certificates": [
                {"hex": mine.hex(), "verdict": mine_is},
                {"hex": other.hex(), "verdict": other_is},
            ],
        }

    one, both, none = people.revocations(5, 201), people.revocations(6, 201, 202), people.revocations(4)
    refused, revoked = "certificate-refused", "certificate-revoked"
    yield case("no list", [], mine_is="valid", other_is="valid")
    yield case("an empty list", [(none, "valid")], mine_is="valid", other_is="valid")
    yield case("one is revoked", [(one, "valid")], mine_is=revoked, other_is="valid")
    yield case("a newer list", [(one, "valid"), (both, "valid")], mine_is=revoked, other_is=revoked)
    yield case("the same list again", [(one, "valid"), (one, "valid")], mine_is=revoked, other_is="valid")
    yield case(
        "another list with the same number",
        [(one, "valid"), (people.revocations(5, 202), refused)],
        mine_is=revoked,
        other_is="valid",
    )
    yield case(
        "an older list brings nobody back",
        [(one, "valid"), (none, refused)],
        mine_is=revoked,
        other_is="valid",
    )
    yield case(
        "a number of two bytes is higher than one of one byte",
        [
            (one, "valid"),
            (people.revocations(256, 201, 202), "valid"),
            (people.revocations(255, 202), refused),
        ],
        mine_is=revoked,
        other_is=revoked,
    )
    for name, der in [
        ("a list without a number", people.revocations(None, 201)),
        ("a list by somebody else", people.revocations(6, 201, signer=stranger)),
        ("a list of another issuer", people.revocations(6, 201, issuer=people.subject("f" * 32))),
        ("a list with a bit of its signature flipped", bytes(flipped)),
        ("a certificate in the place of a list", mine),
        ("nothing in the place of a list", b""),
    ]:
        yield case(name, [(der, refused)], mine_is="valid", other_is="valid")


def _groups(certificate: x509.Certificate) -> str:
    digits = certificate.fingerprint(hashes.SHA256()).hex()
    return " ".join(digits[i : i + 4] for i in range(0, 64, 4))


def invitations() -> Iterator[Case]:
    """Invitation files; the ticket is the lead's and its signature holds."""
    ticket = people.LEAD.sign(
        "odc/v1/invitation-ticket",
        {
            "consortium_id": CONSORTIUM,
            "invitation_id": INVITATION,
            "role": "institution",
            "party": "hospital-b",
            "expires_at": people.AT + 600,
        },
    )
    good: dict[str, Any] = {
        "odc_invitation": 1,
        "consortium": "Heart study",
        "consortium_id": CONSORTIUM,
        "role": "institution",
        "party": "hospital-b",
        "analyst_url": "https://analyst.example:8443",
        "invitation_id": INVITATION,
        "join_secret": bytes(range(32, 64)).hex(),
        "expires_at": people.AT + 600,
        "root_fingerprint": _groups(people.ROOT),
        "root_certificate": people.ROOT_PEM,
        "ticket": base64.b64encode(ticket).decode(),
    }
    another = people.root("f" * 32)
    elsewhere = {
        "root_certificate": another.public_bytes(Encoding.PEM).decode(),
        "root_fingerprint": _groups(another),
    }
    rows: list[tuple[str, dict[str, Any], str]] = [
        ("an invitation", {}, "valid"),
        ("with the name of an own PKI", {"certificate_name": "dns:odc.hospital.example"}, "valid"),
        ("a host without a port", {"analyst_url": "https://analyst.example"}, "valid"),
        ("another version", {"odc_invitation": 2}, "invitation-invalid"),
        ("a member that there is not", {"note": "hello"}, "invitation-invalid"),
        ("a member is missing", {"ticket": None}, "invitation-invalid"),
        ("an address without TLS", {"analyst_url": "http://analyst.example:8443"}, "invitation-invalid"),
        ("an address with a path", {"analyst_url": "https://analyst.example/odc"}, "invitation-invalid"),
        ("a party in capitals", {"party": "Hospital-B"}, "invitation-invalid"),
        ("an unknown role", {"role": "auditor"}, "invitation-invalid"),
        ("an id of 31 digits", {"invitation_id": INVITATION[1:]}, "invitation-invalid"),
        ("a join secret of 31 bytes", {"join_secret": "20" * 31}, "invitation-invalid"),
        ("the fingerprint of another root", {"root_fingerprint": " ".join(["0000"] * 16)},
            "invitation-invalid"),
        ("the root of another consortium", elsewhere, "invitation-invalid"),
        ("a consortium with a line break", {"consortium": "Heart\nstudy"}, "invitation-invalid"),
        ("a ticket that is no base64", {"ticket": "no base64"}, "invitation-invalid"),
    ]  # fmt: skip
    for name, changes, verdict in rows:
        content = {key: value for key, value in {**good, **changes}.items() if value is not None}
        yield {"name": name, "text": json.dumps(content, indent=1), "verdict": verdict}
    long_name = {"party": "a" * 63}  # a request of more than 255 bytes
    text = json.dumps({**good, **long_name}, indent=1)
    yield {"name": "a party of 63 characters", "text": text, "verdict": "valid"}
    second = people.root("e" * 32).public_bytes(Encoding.PEM).decode()
    for label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
        both = people.ROOT_PEM + second.replace("CERTIFICATE", label)
        yield {
            "name": f"a second root, in PEM as {label}, behind the one with the fingerprint",
            "text": json.dumps({**good, "root_certificate": both}, indent=1),
            "verdict": "certificate-refused",
        }
    yield {"name": "no JSON", "text": "{", "verdict": "invitation-invalid"}
    yield {"name": "a list", "text": "[]", "verdict": "invitation-invalid"}


def trust() -> dict[str, Any]:
    """The content of trust.json."""
    return {
        "root": people.ROOT_PEM,
        "consortium_id": CONSORTIUM,
        "at": people.AT,
        "certificates": [*certificates()],
        "revocations": [*revocation_lists()],
        "invitations": [*invitations()],
    }
