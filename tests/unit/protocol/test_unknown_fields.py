"""What an open message keeps and a closed one refuses (docs/protocol.md, "Unknown fields")."""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack
import pytest
from pydantic import ValidationError

from protocol.codec import decode, digest, encode
from protocol.envelope import (
    SIGNATURE_ALGORITHMS,
    Signed,
    decode_stored,
    sign,
    verify,
)
from protocol.errors import MalformedMessageError
from protocol.messages import Receipt
from protocol.version import UnknownAlgorithmError
from tests.harness import certificates as fakes
from tests.vectors.examples import RECEIPT
from tests.vectors.packing import pack

UNKNOWN = {"opt_trace@example.org": ["SECRET", {"b": b"SECRET", "a": 2**64 - 1}], "opt_a": None}
DATA = pack({**RECEIPT, **UNKNOWN})


def test_unknown_optional_fields_come_back_byte_for_byte() -> None:
    receipt = decode(Receipt, DATA)
    assert encode(receipt) == DATA
    assert digest(receipt) == hashlib.sha256(DATA).digest()


def test_a_message_with_an_unknown_field_is_not_the_one_without() -> None:
    assert decode(Receipt, DATA) != decode(Receipt, pack(RECEIPT))


def test_a_signature_covers_unknown_fields_and_the_author_is_known() -> None:
    member, root = fakes.shared_member(), fakes.shared_root().trust_root
    signed = sign(decode(Receipt, DATA), member.key, member.certificate)
    assert verify(Receipt, signed, root, at=fakes.NOW).digest == hashlib.sha256(DATA).digest()
    assert encode(decode_stored(Receipt, signed)) == DATA


@pytest.mark.parametrize("shown", [repr, str, "{}".format])
def test_nobody_is_shown_an_unknown_field(shown: Any) -> None:
    receipt = decode(Receipt, DATA)
    assert "party='hospital-b'" in shown(receipt)
    assert "SECRET" not in shown(receipt)
    assert "opt_" not in shown(receipt)


@pytest.mark.parametrize(
    ("unknown", "why"),
    [
        ({"opt_a": float("nan"), "opt_b": "SECRET"}, "hold what no message can"),
        ({"opt_a": msgpack.Timestamp(0)}, "hold what no message can"),
        ({"opt_a": msgpack.ExtType(5, b"SECRET")}, "hold what no message can"),
        ({"opt_a": 2**64}, "hold what no message can"),
        ({"opt_a": ["a list has one form: a tuple"]}, "hold what no message can"),
        ({"opt_a": {1: "SECRET"}}, "hold what no message can"),
        ({"opt_a": "\ud800"}, "hold what no message can"),
        ({"opt_a": bytes(2**16)}, "take more than 65536 bytes"),
        ({f"opt_{number}": 1 for number in range(17)}, "at most 16"),
    ],
)
def test_what_cannot_be_sent_is_refused_when_it_is_made(unknown: dict[str, Any], why: str) -> None:
    fields = decode(Receipt, pack(RECEIPT)).model_dump()
    with pytest.raises(ValidationError, match=why) as caught:
        Receipt.model_validate({**fields, **unknown})
    assert not any("SECRET" in error["msg"] for error in caught.value.errors())


def test_an_unknown_critical_field_is_named_like_any_other_wrong_field() -> None:
    with pytest.raises(MalformedMessageError, match=r"^Receipt: extra: extra inputs are not permitted$"):
        decode(Receipt, pack({**RECEIPT, "extra": "SECRET", "opt_a": 1}))


def test_a_signature_by_another_algorithm_is_refused_with_the_names_of_both() -> None:
    member, root = fakes.shared_member(), fakes.shared_root().trust_root
    good = decode(Signed, sign(decode(Receipt, pack(RECEIPT)), member.key, member.certificate))
    with pytest.raises(UnknownAlgorithmError) as caught:
        verify(Receipt, encode(good.model_copy(update={"algorithm": "ed25519"})), root, at=fakes.NOW)
    assert caught.value.detail == "Receipt: is signed with ed25519, and this program knows ecdsa-p256-sha256"
    assert caught.value.context == {"algorithm": "ed25519", "known": list(SIGNATURE_ALGORITHMS)}


def test_the_algorithm_is_looked_at_before_the_certificate() -> None:
    signed = Signed(
        kind="odc/v1/receipt", payload=b"none", certificate=b"none", signature=b"none", algorithm="new"
    )
    with pytest.raises(UnknownAlgorithmError):
        verify(Receipt, encode(signed), fakes.shared_root().trust_root, at=fakes.NOW)
