"""Signed bytes and certificates, spoilt: a known author or one of our errors, nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.codec import decode, encode
from protocol.envelope import SealingKey, Signed, seal, sign, verify
from protocol.errors import (
    CertificateRefusedError,
    MalformedMessageError,
    OdcError,
    ProtocolError,
    SealBrokenError,
    TrustError,
)
from protocol.identity import Identity, load_certificate, load_der_certificate
from protocol.messages import Receipt, SealingSuite
from tests.harness import certificates as fakes

# a spoilt serial number can come out negative, which the parser still reads, with a warning
pytestmark = pytest.mark.filterwarnings("ignore:Parsed a serial number")

RECEIPT = Receipt(
    collaboration_id="0" * 32,
    party="hospital-a",
    uplink_digest=bytes(32),
    payload_bytes=1,
    received_at=1,
    ledger_index=2,
    ledger_digest=bytes(32),
)
edits = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3)


def spoil(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    spoilt = bytearray(data)
    for place, byte in changes:
        spoilt[place % len(spoilt)] = byte
    return bytes(spoilt)


def test_reissuing_the_same_inside_gives_a_certificate_that_holds() -> None:
    tbs = fakes.shared_member().certificate.tbs_certificate_bytes
    certificate = load_certificate(fakes.reissue(fakes.shared_root(), tbs))
    assert fakes.shared_root().trust_root.identify(certificate, at=fakes.NOW).name == "hospital-a"


def test_a_certificate_has_one_form() -> None:
    """Its signature may have bits to spare: they are signed by nobody, so there must be none."""
    der = bytearray(
        next(one for _ in range(64) if (one := fakes.issue(fakes.shared_root()).der)[-1] % 2 == 0)
    )
    signature = load_der_certificate(bytes(der)).signature
    assert der[-len(signature) - 1] == 0
    der[-len(signature) - 1] = 1
    with pytest.raises(CertificateRefusedError, match="not in its one form"):
        load_der_certificate(bytes(der))


@given(edits)
def test_a_spoilt_signed_message_is_never_taken_for_another(changes: list[tuple[int, int]]) -> None:
    member, root = fakes.shared_member(), fakes.shared_root().trust_root
    spoilt = spoil(sign(RECEIPT, member.key, member.certificate), changes)
    try:
        verified = verify(Receipt, spoilt, root, at=fakes.NOW)
    except (ProtocolError, TrustError):
        return
    assert verified.message == RECEIPT


@given(edits)
def test_a_spoilt_certificate_names_the_same_member_or_nobody(changes: list[tuple[int, int]]) -> None:
    member, root = fakes.shared_member(), fakes.shared_root().trust_root
    try:
        identity = root.identify(load_certificate(spoil(member.der, changes)), at=fakes.NOW)
    except TrustError:
        return
    assert identity == Identity(fakes.CONSORTIUM_ID, "institution", "hospital-a")


@given(edits)
@example([(365, 0)])  # inside an extension that the verifier does not read
def test_whatever_the_root_signs_gives_a_message_or_an_error_of_ours(changes: list[tuple[int, int]]) -> None:
    member, root = fakes.shared_member(), fakes.shared_root().trust_root
    good = decode(Signed, sign(RECEIPT, member.key, member.certificate))
    strange = fakes.reissue(fakes.shared_root(), spoil(member.certificate.tbs_certificate_bytes, changes))
    signed = Signed(kind=good.kind, payload=good.payload, certificate=strange, signature=good.signature)
    outcome: Receipt | OdcError
    try:
        outcome = verify(Receipt, encode(signed), root, at=fakes.NOW).message
    except OdcError as error:
        outcome = error
    assert outcome == RECEIPT if isinstance(outcome, Receipt) else outcome.detail.isprintable()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_certificate_or_are_refused(data: bytes) -> None:
    with pytest.raises(TrustError):
        load_certificate(data)
    with pytest.raises(TrustError):
        load_certificate(b"-----BEGIN CERTIFICATE-----\n" + data)


@given(st.text(max_size=60) | st.text("urnodc:0123456789abcdef-/ \n", max_size=80))
def test_any_text_is_a_name_that_comes_back_or_is_refused(text: str) -> None:
    with suppress(TrustError):
        assert Identity.from_urn(text).urn == text


@pytest.mark.parametrize("suite", get_args(SealingSuite))
@given(changes=edits)
def test_a_spoilt_ciphertext_never_opens(suite: SealingSuite, changes: list[tuple[int, int]]) -> None:
    key = SealingKey.generate(suite)
    ciphertext = seal(b"seed", suite, key.public_bytes(), b"info")
    spoilt = spoil(ciphertext, changes)
    if spoilt != ciphertext:
        with pytest.raises(SealBrokenError):
            key.open(spoilt, b"info")


@given(
    st.sampled_from([*get_args(SealingSuite), "none"]),
    st.binary(max_size=66)
    | st.binary(min_size=1216, max_size=1216)
    | st.binary(min_size=1665, max_size=1665),
)
def test_any_bytes_are_a_sealing_key_or_malformed(suite: str, public_key: bytes) -> None:
    with suppress(MalformedMessageError):
        assert seal(b"seed", suite, public_key, b"info")
