"""Every sealing suite, beside an implementation of docs/protocol.md (tests/vectors/hpke.py)."""

from __future__ import annotations

from typing import get_args

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.codec import decode
from protocol.envelope import SealingKey, seal
from protocol.errors import MalformedMessageError, SealBrokenError
from protocol.messages import SealingSuite
from protocol.sealing import SEALINGS
from protocol.terms import USUAL_SUITES, ChosenSuite, Terms
from tests.harness.document import section
from tests.vectors import hpke
from tests.vectors.examples import TERMS_2
from tests.vectors.packing import pack

ALL = get_args(SealingSuite)
every_suite = pytest.mark.parametrize("suite", ALL)


def test_every_suite_is_usual_or_chosen_by_the_terms_and_has_its_keys() -> None:
    assert {*ALL} == {*SEALINGS} == {*hpke.SUITES} == {*USUAL_SUITES, *get_args(ChosenSuite)}


@every_suite
def test_a_secret_is_opened_by_an_implementation_of_the_document(suite: SealingSuite) -> None:
    key = SealingKey.generate(suite)
    sealed = seal(b"seed", suite, key.public_bytes(), b"info")
    assert hpke.opened(suite, key.private_bytes(), sealed, b"info") == b"seed"
    with pytest.raises(InvalidTag):
        hpke.opened(suite, key.private_bytes(), sealed, b"other")


@every_suite
def test_the_table_of_the_document_has_the_numbers_of_the_suite(suite: SealingSuite) -> None:
    row = next(line for line in section("Sealing").splitlines() if line.startswith(f"| `{suite}` |"))
    cells = [cell.strip() for cell in row.replace("\\|", "").split("|")[2:-1]]
    kem, kdf, aead = (int(cell[:6], 16) for cell in cells[:3])
    public, enc = (int(cell.split()[0]) for cell in cells[3:])
    numbers = hpke.SUITES[suite]
    assert (kem, kdf, aead) == (numbers.kem, numbers.kdf, numbers.aead)
    assert (public, enc) == (numbers.public_bytes, numbers.enc_bytes)


@every_suite
def test_a_key_comes_back_from_its_bytes(suite: SealingSuite) -> None:
    key = SealingKey.generate(suite)
    again = SealingKey.from_bytes(key.private_bytes(), suite)
    assert again.public_bytes() == key.public_bytes()
    assert again.open(seal(b"seed", suite, key.public_bytes(), b""), b"") == b"seed"
    assert repr(again) == f"<SealingKey {suite}>"


@every_suite
def test_keys_and_ciphertexts_of_another_length_are_refused(suite: SealingSuite) -> None:
    key = SealingKey.generate(suite)
    public, private, sealed = (
        key.public_bytes(),
        key.private_bytes(),
        seal(b"", suite, key.public_bytes(), b""),
    )
    for data in (b"", public[:-1], public + b"\0"):
        with pytest.raises(MalformedMessageError, match=f"its sealing key is no {suite} key"):
            seal(b"seed", suite, data, b"")
    for data in (b"", private[:-1], private + b"\0"):
        with pytest.raises(SealBrokenError, match=f"our own sealing key is no {suite} key"):
            SealingKey.from_bytes(data, suite)
    for data in (b"", sealed[:-1], sealed + b"\0"):
        with pytest.raises(SealBrokenError):
            key.open(data, b"")


@every_suite
def test_a_key_of_one_suite_is_none_of_another(suite: SealingSuite) -> None:
    public = SealingKey.generate(suite).public_bytes()
    for other in ALL:
        if other != suite:
            with pytest.raises(MalformedMessageError):
                seal(b"seed", other, public, b"")


@pytest.mark.parametrize(("suite", "before"), [("p256", 0), ("mlkem1024-p384", 1568)])
def test_a_point_has_one_form(suite: SealingSuite, before: int) -> None:
    public = SealingKey.generate(suite).public_bytes()
    curve = ec.SECP256R1() if suite == "p256" else ec.SECP384R1()
    point = ec.EllipticCurvePublicKey.from_encoded_point(curve, public[before:])
    assert point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint) == public[before:]
    compressed = point.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    off_the_curve = public[:-1] + bytes([public[-1] ^ 1])
    for data in (public[:before] + compressed, off_the_curve, public[:before] + b"\0"):
        with pytest.raises(MalformedMessageError):
            seal(b"seed", suite, data, b"")


@pytest.mark.parametrize("scalar", [bytes(32), b"\xff" * 32], ids=["zero", "above the order"])
def test_a_scalar_outside_the_order_is_no_key(scalar: bytes) -> None:
    with pytest.raises(SealBrokenError, match="our own sealing key is no p256 key"):
        SealingKey.from_bytes(scalar, "p256")


def test_what_the_terms_choose_has_approved_parts_alone() -> None:
    """FIPS 186-5 and SP 800-186 curves, FIPS 203, FIPS 180-4 hashes, FIPS 197 in SP 800-38D."""
    for suite in get_args(ChosenSuite):
        numbers = hpke.SUITES[suite]
        assert numbers.kem in (0x0010, 0x0051)
        assert numbers.kdf in (0x0001, 0x0002)
        assert numbers.aead == 0x0002
        assert SEALINGS[suite].matrix_cipher is AESGCM
    assert {SEALINGS[suite].matrix_cipher for suite in USUAL_SUITES} == {ChaCha20Poly1305}


def test_terms_allow_the_usual_suites_or_the_one_they_choose() -> None:
    assert decode(Terms, pack(TERMS_2)).sealing_suites == USUAL_SUITES
    for suite in get_args(ChosenSuite):
        assert decode(Terms, pack({**TERMS_2, "sealing_suite": suite})).sealing_suites == (suite,)
