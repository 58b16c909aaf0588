from __future__ import annotations

import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import ValidationError

from protocol.codec import decode, encode
from protocol.envelope import (
    SealingKey,
    Signed,
    anchor_info,
    derive,
    join_mac,
    seal,
    seed_commitment,
    sign,
    verify,
)
from protocol.errors import (
    CertificateRefusedError,
    MalformedMessageError,
    SealBrokenError,
    SignatureError,
)
from protocol.identity import Identity
from protocol.messages import InvitationTicket, Receipt
from protocol.sealing import HYBRID
from tests.harness import certificates as fakes

RECEIPT = Receipt(
    collaboration_id="0" * 32,
    party="hospital-a",
    uplink_digest=bytes(32),
    payload_bytes=1,
    received_at=2,
    ledger_index=3,
    ledger_digest=bytes(32),
)


@pytest.fixture(scope="module")
def sealing_key() -> SealingKey:
    return SealingKey.generate()


def signed(**changes: object) -> bytes:
    member = fakes.shared_member()
    good = decode(Signed, sign(RECEIPT, member.key, member.certificate))
    return encode(good.model_copy(update=changes))


def check(data: bytes) -> Receipt:
    return verify(Receipt, data, fakes.shared_root().trust_root, at=fakes.NOW).message


def test_a_signed_message_gives_message_author_and_digest() -> None:
    verified = verify(Receipt, signed(), fakes.shared_root().trust_root, at=fakes.NOW)
    assert verified.message == RECEIPT
    assert verified.author == Identity(fakes.CONSORTIUM_ID, "institution", "hospital-a")
    assert verified.digest == hashlib.sha256(encode(RECEIPT)).digest()


def test_signing_twice_gives_other_bytes_for_the_same_digest() -> None:
    root = fakes.shared_root().trust_root
    one, other = signed(), signed()
    assert one != other
    assert (
        verify(Receipt, one, root, at=fakes.NOW).digest == verify(Receipt, other, root, at=fakes.NOW).digest
    )


def test_the_signature_is_over_label_zero_and_payload() -> None:
    member = fakes.shared_member()
    data = b"odc/v1/receipt\0" + encode(RECEIPT)
    assert check(signed(signature=member.key.sign(data, ec.ECDSA(hashes.SHA256())))) == RECEIPT


@pytest.mark.parametrize("label", [b"", b"odc/v1/receipt", b"odc/v1/uplink\0", b"odc/v2/receipt\0"])
def test_a_signature_under_another_label_does_not_hold(label: bytes) -> None:
    signature = fakes.shared_member().key.sign(label + encode(RECEIPT), ec.ECDSA(hashes.SHA256()))
    with pytest.raises(SignatureError, match=r"^Receipt: was not signed by hospital-a$"):
        check(signed(signature=signature))


def test_a_message_signed_as_another_kind_is_malformed() -> None:
    with pytest.raises(MalformedMessageError, match="signed as another kind"):
        verify(InvitationTicket, signed(), fakes.shared_root().trust_root, at=fakes.NOW)


def test_the_certificate_is_looked_at_before_the_signature() -> None:
    stranger = fakes.issue(fakes.make_root())
    with pytest.raises(CertificateRefusedError):
        check(signed(certificate=stranger.der, signature=b"none"))


def test_the_signature_is_looked_at_before_the_payload() -> None:
    with pytest.raises(SignatureError):
        check(signed(payload=b"none"))


def test_a_signed_payload_that_is_no_message_is_malformed() -> None:
    signature = fakes.shared_member().key.sign(b"odc/v1/receipt\0none", ec.ECDSA(hashes.SHA256()))
    with pytest.raises(MalformedMessageError, match=r"^Receipt: is not msgpack"):
        check(signed(payload=b"none", signature=signature))


@pytest.mark.parametrize(
    "public_key",
    [ed25519.Ed25519PrivateKey.generate().public_key(), ec.generate_private_key(ec.SECP384R1()).public_key()],
    ids=["ed25519", "p384"],
)
def test_a_key_that_is_not_on_p256_signs_nothing(public_key: ed25519.Ed25519PublicKey) -> None:
    name = x509.UniformResourceIdentifier(Identity(fakes.CONSORTIUM_ID, "institution", "hospital-a").urn)
    certificate = fakes.issue_for(fakes.shared_root(), public_key, [name])
    with pytest.raises(CertificateRefusedError, match="is not for ECDSA P-256"):
        check(signed(certificate=certificate.public_bytes(Encoding.DER)))


def test_a_certificate_in_a_message_is_der_and_nothing_else() -> None:
    with pytest.raises(CertificateRefusedError):
        check(signed(certificate=fakes.shared_member().pem))


def test_derived_keys_differ_by_label_and_by_secret() -> None:
    keys = {derive(secret, label) for secret in (b"a" * 32, b"b" * 32) for label in ("one", "two")}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}
    assert len(derive(b"a" * 32, "one", 80)) == 80


def test_a_join_mac_depends_on_each_of_its_parts_and_where_they_part() -> None:
    macs = {
        join_mac(b"s" * 32, b"ticket", b"csr"),
        join_mac(b"t" * 32, b"ticket", b"csr"),
        join_mac(b"s" * 32, b"ticketc", b"sr"),
        join_mac(b"s" * 32, b"csr", b"ticket"),
    }
    assert len(macs) == 4


def test_a_commitment_is_not_the_plain_hash_of_the_seed() -> None:
    seed = bytes(32)
    assert seed_commitment(seed) != hashlib.sha256(seed).digest()
    assert seed_commitment(seed) != seed_commitment(bytes(31) + b"\1")


def test_what_is_sealed_opens_with_its_key_and_info(sealing_key: SealingKey) -> None:
    info = anchor_info("0" * 32, bytes(32), "hospital-a")
    assert sealing_key.open(seal(b"seed", HYBRID, sealing_key.public_bytes(), info), info) == b"seed"


def test_a_sealing_key_comes_back_from_its_bytes(sealing_key: SealingKey) -> None:
    again = SealingKey.from_bytes(sealing_key.private_bytes())
    assert again.public_bytes() == sealing_key.public_bytes()
    assert (len(sealing_key.private_bytes()), len(sealing_key.public_bytes())) == (96, 1216)
    assert again.open(seal(b"seed", HYBRID, sealing_key.public_bytes(), b""), b"") == b"seed"


def test_sealing_twice_gives_other_bytes(sealing_key: SealingKey) -> None:
    public = sealing_key.public_bytes()
    assert seal(b"seed", HYBRID, public, b"") != seal(b"seed", HYBRID, public, b"")


@pytest.mark.parametrize(
    "other",
    [
        anchor_info("1" + "0" * 31, bytes(32), "hospital-a"),
        anchor_info("0" * 32, b"\1" * 32, "hospital-a"),
        anchor_info("0" * 32, bytes(32), "hospital-b"),
    ],
    ids=["collaboration", "terms", "recipient"],
)
def test_an_anchor_sealed_for_something_else_does_not_open(sealing_key: SealingKey, other: bytes) -> None:
    ciphertext = seal(b"seed", HYBRID, sealing_key.public_bytes(), other)
    with pytest.raises(SealBrokenError):
        sealing_key.open(ciphertext, anchor_info("0" * 32, bytes(32), "hospital-a"))


def test_another_key_does_not_open(sealing_key: SealingKey) -> None:
    ciphertext = seal(b"seed", HYBRID, SealingKey.generate().public_bytes(), b"")
    with pytest.raises(SealBrokenError):
        sealing_key.open(ciphertext, b"")


@pytest.mark.parametrize("length", [0, 31, 1119, 1120, 1135])
def test_too_few_bytes_do_not_open(sealing_key: SealingKey, length: int) -> None:
    with pytest.raises(SealBrokenError):
        sealing_key.open(bytes(length), b"")


@pytest.mark.parametrize(
    ("suite", "public_key"),
    [("x25519", bytes(31)), ("x25519", bytes(32)), (HYBRID, bytes(1215)), ("other", bytes(range(32)))],
    ids=["short", "a point of low order", "hybrid and short", "unknown suite"],
)
def test_a_bad_sealing_key_is_a_malformed_acceptance(suite: str, public_key: bytes) -> None:
    with pytest.raises(MalformedMessageError, match=f"its sealing key is no {suite} key"):
        seal(b"seed", suite, public_key, b"")


def test_the_repr_of_a_sealing_key_shows_no_key(sealing_key: SealingKey) -> None:
    assert repr(sealing_key) == "<SealingKey mlkem768-x25519>"


def test_a_label_is_bounded() -> None:
    with pytest.raises(ValidationError):
        Signed(kind="a" * 101, payload=b"", certificate=b"c", signature=b"s")
