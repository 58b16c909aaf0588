"""Messages with fields that their receiver does not know, and signatures by other algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack

from tests.vectors import pinned
from tests.vectors.examples import (
    ACCEPTANCE,
    DOWNLINK,
    ENROLMENT,
    EVIDENCE,
    FORGETTING,
    LEDGER,
    LEDGER_HEAD,
    MEMBER_SCORE,
    RECEIPT,
    RENEWAL,
    SEALED_ANCHOR,
    SIGNED,
    TERMS_2,
    TICKET,
    UPLINK,
    Case,
    changed,
)
from tests.vectors.packing import pack, pack_fields, packed_items

OPEN: dict[str, dict[str, Any]] = {
    "InvitationTicket": TICKET,
    "Renewal": RENEWAL,
    "Acceptance": ACCEPTANCE,
    "SealedAnchor": SEALED_ANCHOR,
    "UplinkManifest": UPLINK,
    "DownlinkManifest": DOWNLINK,
    "MemberScore": MEMBER_SCORE,
    "LedgerHead": LEDGER_HEAD,
    "LedgerPage": {"entries": LEDGER, "head": b"signed head"},
    "Receipt": RECEIPT,
}
CLOSED: dict[str, dict[str, Any]] = {
    "Terms": TERMS_2,
    "Enrolment": ENROLMENT,
    "ForgettingStatement": FORGETTING,
    "EvidenceIndex": EVIDENCE,
    "LedgerEntry": LEDGER[0],
    "Signed": SIGNED,
}
DEEP: Any = 7
for _ in range(15):
    DEEP = [DEEP]
OF_EVERY_TYPE = {
    "opt_nothing": None,
    "opt_truth": True,
    "opt_least": -(2**63),
    "opt_most": 2**64 - 1,
    "opt_float": 0.5,
    "opt_text": "\u202e\x00",
    "opt_bytes": b"\0\1",
    "opt_map": {"b": [1, "two", {}], "": {}, "opt": None},
    "opt_deep": DEEP,
}
SIGNED_OTHERWISE = {**SIGNED, "algorithm": "ml-dsa-65@example.org"}


def valid() -> list[tuple[str, str, dict[str, Any]]]:
    """Return open messages with optional fields, each to be kept as it came."""
    longest = "opt_" + "x" * 96
    return [
        *(
            (f"{kind} with an unknown optional field", kind, {**value, "opt_trace@example.org": [1, None]})
            for kind, value in OPEN.items()
        ),
        ("unknown optional fields of every type", "Receipt", {**RECEIPT, **OF_EVERY_TYPE}),
        ("an unknown optional field of the longest name", "Receipt", {**RECEIPT, longest: 1}),
        ("sixteen unknown optional fields", "Receipt", {**RECEIPT, **many(16)}),
        ("unknown optional fields of 65536 bytes", "Receipt", {**RECEIPT, "opt_a": bytes(65536 - 10)}),
        ("signed by an algorithm that nobody knows, as a message alone", "Signed", SIGNED_OTHERWISE),
    ]


def many(count: int) -> dict[str, int]:
    return {f"opt_{number:02}": number for number in range(count)}


def broken() -> Iterator[Case]:
    """Yield messages whose unknown fields make them malformed."""
    for kind, value in {**OPEN, **CLOSED}.items():
        yield _refused(f"{kind} with an unknown critical field", kind, pack({**value, "extra": 1}))
    for kind, value in CLOSED.items():
        yield _refused(f"{kind} with an unknown optional field", kind, pack({**value, "opt_a": 1}))
    seen = {**ACCEPTANCE, "seen": {**pinned.SEEN, "opt_a": 1}}
    for name, kind, value in [
        ("an optional field in a schema", "Terms", grown(TERMS_2, "table_schema")),
        ("an optional field in a column", "Terms", grown(TERMS_2, "table_schema", "columns", 0)),
        ("an optional field in an array", "UplinkManifest", grown(UPLINK, "arrays", 0)),
        ("an optional field in a privacy record", "UplinkManifest", grown(UPLINK, "privacy")),
        ("an optional field in a seen head", "Acceptance", seen),
        ("an optional field without a name", "Receipt", {**RECEIPT, "opt_": 1}),
        ("an optional field in upper case", "Receipt", {**RECEIPT, "opt_Trace": 1}),
        ("an optional field with a line feed", "Receipt", {**RECEIPT, "opt_a\n": 1}),
        ("an optional field of too long a name", "Receipt", {**RECEIPT, "opt_" + "x" * 97: 1}),
        ("seventeen unknown optional fields", "Receipt", {**RECEIPT, **many(17)}),
        ("unknown optional fields of 65537 bytes", "Receipt", {**RECEIPT, "opt_a": bytes(65537 - 10)}),
        ("an optional field nested too deep", "Receipt", {**RECEIPT, "opt_a": [DEEP]}),
        ("a NaN in an optional field", "Receipt", {**RECEIPT, "opt_a": [float("nan")]}),
        ("an infinity in an optional field", "Receipt", {**RECEIPT, "opt_a": {"b": float("inf")}}),
        ("an algorithm of nil", "Signed", {**SIGNED, "algorithm": None}),
        ("the usual algorithm written out", "Signed", {**SIGNED, "algorithm": "ecdsa-p256-sha256"}),
        ("an algorithm in upper case", "Signed", {**SIGNED, "algorithm": "ML-DSA-65"}),
        ("an algorithm without a name", "Signed", {**SIGNED, "algorithm": ""}),
    ]:
        yield _refused(name, kind, pack(value))
    for name, packed in [
        ("a timestamp in an optional field", b"\xd6\xff" + bytes(4)),
        ("an extension type in an optional field", b"\x91\xd4\x05\x00"),
        ("a float of 32 bits in an optional field", b"\xca" + bytes(4)),
        ("an integer with a longer head in an optional field", b"\xcc\x01"),
        ("a key of bytes in an optional field", b"\x81\xc4\x01a\x01"),
        ("keys not sorted in an optional field", b"\x82\xa1b\x01\xa1a\x01"),
        ("a key twice in an optional field", b"\x82\xa1a\x01\xa1a\x01"),
    ]:
        fields = sorted({**packed_items(RECEIPT), "opt_a": packed}.items())
        data = pack_fields([(pack(key), item) for key, item in fields])
        yield _refused(name, "Receipt", data)


def grown(value: dict[str, Any], *path: str | int) -> Any:
    """Return a message with an optional field in the part at ``path``."""
    part: Any = value
    for step in path:
        part = part[step]
    return changed(value, *path, to={**part, "opt_a": 1})


def _refused(name: str, kind: str, data: bytes) -> Case:
    return {"name": name, "kind": kind, "verdict": "malformed-message", "hex": data.hex()}


def signed_otherwise(signed: bytes) -> Iterator[Case]:
    """Yield a message that holds, presented as signed by another algorithm."""
    fields = msgpack.unpackb(signed)
    for name, algorithm, verdict in [
        ("by an algorithm that nobody knows", "ml-dsa-65@example.org", "unknown-algorithm"),
        ("with the usual algorithm written out", "ecdsa-p256-sha256", "malformed-message"),
    ]:
        data = pack({**fields, "algorithm": algorithm})
        yield {"name": name, "kind": "Acceptance", "verdict": verdict, "hex": data.hex()}
