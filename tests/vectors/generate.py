"""Write the test vectors of docs/protocol.md.

::

    python -m tests.vectors.generate            # the files that are the same on every run
    python -m tests.vectors.generate --random   # signed.json and sealing.json too

ECDSA and HPKE draw random numbers, so ``--random`` gives other bytes each time: use it only when the
wire or the plain words change. Messages are packed by the forty lines of `pack` below and anchors are
expanded by `uniform_numbers` and `gaussian_numbers`, not by the packages under test, so that a vector is an
independent check of them. A test compares the stored files with what this module makes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding
from numpy.typing import NDArray

HERE = Path(__file__).parent
Case = dict[str, Any]

CONSORTIUM = "0123456789abcdef0123456789abcdef"
COLLABORATION = "00112233445566778899aabbccddeeff"
INVITATION = "ffeeddccbbaa99887766554433221100"
CHUNK_BYTES = 65536
SEED = bytes(range(32))


# --- canonical msgpack, written from the specification ---------------------------------------------


def pack(value: Any) -> bytes:
    """Return the canonical msgpack of plain Python values."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return _pack_int(value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return _head(len(text), [(32, 0xA0), (2**8, 0xD9), (2**16, 0xDA), (2**32, 0xDB)]) + text
        case bytes():
            return _head(len(value), [(0, 0), (2**8, 0xC4), (2**16, 0xC5), (2**32, 0xC6)]) + value
        case list() | tuple():
            head = _head(len(value), [(16, 0x90), (0, 0), (2**16, 0xDC), (2**32, 0xDD)])
            return head + b"".join(map(pack, value))
        case dict():
            head = _head(len(value), [(16, 0x80), (0, 0), (2**16, 0xDE), (2**32, 0xDF)])
            return head + b"".join(pack(key) + pack(value[key]) for key in sorted(value))
    raise TypeError(type(value).__name__)


def _head(size: int, forms: Sequence[tuple[int, int]]) -> bytes:
    """Pick the first form that holds ``size``: inside the type byte, then 8, 16 and 32 bits."""
    for (limit, code), width in zip(forms, (0, 1, 2, 4), strict=True):
        if size < limit:
            return bytes([code | size]) if width == 0 else bytes([code]) + size.to_bytes(width, "big")
    raise ValueError(size)


def _pack_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    codes = (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3)
    for code, width in zip(codes, (1, 2, 4, 8), strict=True):
        try:
            return bytes([code]) + value.to_bytes(width, "big", signed=value < 0)
        except OverflowError:
            continue
    raise ValueError(value)


def pack_fields(fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a map of up to 15 packed pairs as they come, sorted or not."""
    return bytes([0x80 | len(fields)]) + b"".join(key + value for key, value in fields)


def packed_items(value: Mapping[str, Any]) -> dict[str, bytes]:
    return {key: pack(value[key]) for key in sorted(value)}


def to_json(value: Any) -> Any:
    """Return ``value`` with bytes as ``{"hex": ...}``."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


# --- the example messages --------------------------------------------------------------------------


def chunked(data: bytes, chunk_bytes: int) -> Iterator[bytes]:
    for start in range(0, len(data), chunk_bytes):
        yield data[start : start + chunk_bytes]


def array_digest(data: bytes, chunk_bytes: int = CHUNK_BYTES) -> bytes:
    digests = [hashlib.sha256(chunk).digest() for chunk in chunked(data, chunk_bytes)]
    return hashlib.sha256(b"odc/v1/array\0" + b"".join(digests)).digest()


def array_stream(data: bytes, chunk_bytes: int = CHUNK_BYTES) -> bytes:
    return b"".join(hashlib.sha256(chunk).digest() + chunk for chunk in chunked(data, chunk_bytes))


def array(name: str, dtype: str, shape: Sequence[int], data: bytes) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape), "digest": array_digest(data)}


REP = struct.pack("<6f", 0.5, -0.25, 1.0, 0.0, -1.0, 0.125)
ANCHOR_REP = struct.pack("<6f", 0.75, 0.5, -0.5, 0.25, 0.0, 1.0)
LABELS = bytes([0, 1, 1])
CHANGE_OF_BASIS = struct.pack("<4d", 0.0, 1.0, 1.0, 0.0)
MODEL = bytes(k % 251 for k in range(150_000))
"""Not a model, but three chunks of bytes that are easy to make again."""

NUMERIC: dict[str, Any] = {
    "kind": "numeric",
    "name": "age",
    "low": 0.0,
    "high": 120.0,
    "impute": 40.0,
    "out_of_range": "clip",
}
CATEGORICAL: dict[str, Any] = {
    "kind": "categorical",
    "name": "site",
    "levels": ["north", "south"],
    "impute": None,
}
TERMS: dict[str, Any] = {
    "terms_schema": 1,
    "consortium_id": CONSORTIUM,
    "collaboration_id": COLLABORATION,
    "title": "Readmission within 30 days",
    "purpose": "Étude pilote",
    "parties": ["hospital-a", "hospital-b"],
    "lead": "hospital-a",
    "table_schema": {
        "columns": [NUMERIC, CATEGORICAL],
        "label_column": {"name": "readmitted", "classes": ["no", "yes"]},
        "missing": ["", "NA"],
    },
    "latent_dim": 2,
    "rep_dtype": "f4",
    "anchor": {"kind": "haar", "rows": 3},
    "alignment": {"method": "isotropic", "target": "identity", "seed": 0},
    "model": {"kind": "mlp", "hidden_units": 256, "learning_rate": 0.002, "epochs": 200, "seed": 0},
    "downlink": "change-of-basis-and-model",
}
TERMS_DIGEST = hashlib.sha256(pack(TERMS)).digest()
SHOWN = """\
Terms in plain words, version 2
Readmission within 30 days
Étude pilote

Institutions: hospital-a, hospital-b. Lead institution: hospital-a.
The model predicts the column readmitted, which is one of: no, yes.

This institution sends to the analyst, once:
- the projection of each row: 2 numbers (8 bytes) in place of its 3 encoded features, computed with a secret basis that stays here;
- the projection of the anchor with the same basis (24 bytes); the anchor is a matrix that the institutions share and the analyst does not receive;
- the label of each row, unchanged, and with it the number of rows.
Projections are rounded to 32-bit floats (about seven digits).

The analyst sends back: one model for all institutions (mlp), and for this institution alone the change-of-basis matrix that it needs to use the model.
Who sees what: the analyst sees everything that this institution sends. Other institutions see the model, and how many rows each institution sent.

Warning: shared representation: the analyst brings the rows of all institutions into one common representation. The analyst and one member together could rebuild what the projection keeps of your rows; `odc prepare` measures how much that is. An analyst that has other rows of the same population could estimate it alone.
Warning: no differential privacy: these terms do not require noise to be added to anything that is sent.

Columns:
- age: from 0 to 120; a number outside is moved to the nearer end; an empty field counts as 40
- site: one of north, south; an empty field is refused
"""  # noqa: E501  # lines as they are shown
ROW_REVEALING_WARNING = (
    "Warning: row-revealing model: a model of the kind svm contains training rows. From it every other"
    " institution can rebuild what the projection keeps of these rows, including yours. Signing these terms"
    " needs a separate consent.\n"
)
REVEALED = SHOWN.replace("(mlp)", "(svm)").replace(
    "Warning: shared", f"{ROW_REVEALING_WARNING}Warning: shared"
)
FORGOTTEN = (
    SHOWN.replace("24 bytes", "48 bytes")
    .replace(
        "sends back: one model for all institutions (mlp), and for this institution alone the change-of-basis"
        " matrix that it needs to use the model.\n",
        "sends back, for this institution alone: what the model for all institutions (mlp) predicts for each"
        " of the 6 anchor rows (48 bytes). It sends neither the model nor a change-of-basis matrix. From"
        " these predictions this institution trains a model of its own.\n"
        "Precautions (NRI-DC): this institution sends its rows in random order, and computes the basis from"
        " perturbed rows. It erases the basis right after the analyst's receipt, and the anchor once its own"
        " model is trained.\n",
    )
    .replace("Other institutions see the model, and how many", "Other institutions see how many")
)
PREDICTED_TERMS = {**TERMS, "anchor": {"kind": "gaussian", "rows": 6}, "downlink": "anchor-predictions"}
FEW_ROWS_WARNING = (
    "Warning: few anchor rows: this institution's own model is trained on 6 anchor rows. With fewer than 60"
    " it may predict much worse than the model for all institutions.\n"
)
PUBLIC_WARNING = (
    "Warning: public anchor: its rows come from a table. Whoever has that table can guess the anchor better"
    " than a random one, and an analyst that has the anchor could rebuild what the projection keeps of your"
    " rows.\n"
)
UNIFORM_WARNING = (
    "Warning: uniform anchor: it tells the analyst more about each secret basis than a haar anchor would.\n"
)
SVM: dict[str, Any] = {"kind": "svm", "inverse_penalty": 1.0, "gamma": None, "seed": 0}


def shown_digest(text: str) -> bytes:
    return hashlib.sha256(b"odc/v1/plain-words\0" + text.encode()).digest()


COMMITMENT = hashlib.sha256(b"odc/v1/anchor-commitment\0" + SEED).digest()

TICKET: dict[str, Any] = {
    "consortium_id": CONSORTIUM,
    "invitation_id": INVITATION,
    "role": "institution",
    "party": "hospital-b",
    "expires_at": 1_800_000_000,
}
ENROLMENT: dict[str, Any] = {"ticket": b"signed ticket", "csr": b"PKCS #10", "chain": [], "mac": bytes(32)}
RENEWAL: dict[str, Any] = {
    "consortium_id": CONSORTIUM,
    "renewal_id": INVITATION,
    "csr": b"PKCS #10",
    "chain": [],
}
ACCEPTANCE: dict[str, Any] = {
    "collaboration_id": COLLABORATION,
    "terms_digest": TERMS_DIGEST,
    "shown_digest": shown_digest(SHOWN),
    "party": "hospital-b",
    "sealing_suite": "x25519",
    "sealing_key": bytes(range(100, 132)),
    "accept_row_revealing_model": False,
}
SEALED_ANCHOR: dict[str, Any] = {
    "collaboration_id": COLLABORATION,
    "terms_digest": TERMS_DIGEST,
    "recipient": "hospital-b",
    "form": "seed",
    "commitment": COMMITMENT,
    "sealing_suite": "x25519",
    "ciphertext": bytes(80),
}
PRIVACY: dict[str, Any] = {
    "epsilon": None,
    "delta": None,
    "clip": None,
    "drop_below": None,
    "permute_rows": False,
    "perturb_basis": None,
}
UPLINK: dict[str, Any] = {
    "collaboration_id": COLLABORATION,
    "terms_digest": TERMS_DIGEST,
    "party": "hospital-b",
    "anchor_commitment": COMMITMENT,
    "chunk_bytes": CHUNK_BYTES,
    "arrays": [
        array("rep", "f4", (3, 2), REP),
        array("anchor_rep", "f4", (3, 2), ANCHOR_REP),
        array("labels", "u1", (3,), LABELS),
    ],
    "privacy": PRIVACY,
}
PRIVATE_UPLINK = {
    **UPLINK,
    "privacy": {
        "epsilon": 4.0,
        "delta": 1e-6,
        "clip": 1.5,
        "drop_below": 0.25,
        "permute_rows": True,
        "perturb_basis": 0.05,
    },
}
CONSUMER_UPLINK = {
    **UPLINK,
    "arrays": [
        array("rep", "f4", (0, 2), b""),
        array("anchor_rep", "f4", (3, 2), ANCHOR_REP),
        array("labels", "u1", (0,), b""),
    ],
}
SCALED_TERMS = {**TERMS, "rep_dtype": "i1"}


def f32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def scaled(rows: Sequence[Sequence[float]]) -> tuple[list[list[int]], list[float]]:
    """Return a matrix as 8-bit integers and one scale, a single, for each column."""
    scale = [f32(max(map(abs, column)) / 127) for column in zip(*rows, strict=True)]
    values = [[round(x / s) if s else 0 for x, s in zip(row, scale, strict=True)] for row in rows]
    return values, scale


def packed_scaled(rows: Sequence[Sequence[float]]) -> tuple[bytes, bytes]:
    values, scale = scaled(rows)
    flat = [value for row in values for value in row]
    return struct.pack(f"<{len(flat)}b", *flat), struct.pack(f"<{len(scale)}f", *scale)


REP_I1, REP_SCALE = packed_scaled([[0.6, -0.25], [1.0, 0.0], [-1.0, 0.1]])
ANCHOR_REP_I1, ANCHOR_REP_SCALE = packed_scaled([[0.75, 0.6], [-0.4, 0.2], [0.0, 1.0]])
SCALED_UPLINK = {
    **UPLINK,
    "terms_digest": hashlib.sha256(pack(SCALED_TERMS)).digest(),
    "arrays": [
        array("rep", "i1", (3, 2), REP_I1),
        array("anchor_rep", "i1", (3, 2), ANCHOR_REP_I1),
        array("labels", "u1", (3,), LABELS),
        array("rep_scale", "f4", (2,), REP_SCALE),
        array("anchor_rep_scale", "f4", (2,), ANCHOR_REP_SCALE),
    ],
}
TOKEN = "odct_" + base64.urlsafe_b64encode(bytes(range(32))).decode().rstrip("=")
UPLINK_DIGEST = hashlib.sha256(pack(UPLINK)).digest()


def chained(steps: Sequence[tuple[str, str | None, str, bytes | None]]) -> tuple[list[Any], list[bytes]]:
    """Return the ledger of some steps, and its head after each of them, none at all included."""
    entries: list[Any] = []
    heads = [hashlib.sha256(b"odc/v1/ledger\0" + COLLABORATION.encode()).digest()]
    for index, (event, party, state, subject) in enumerate(steps):
        entries.append(
            {
                "index": index,
                "at": 1_799_999_000 + 100 * index,
                "event": event,
                "party": party,
                "state": state,
                "subject": subject,
                "previous": heads[-1],
            }
        )
        heads.append(hashlib.sha256(b"odc/v1/ledger-entry\0" + pack(entries[-1])).digest())
    return entries, heads


STEPS: list[tuple[str, str | None, str, bytes | None]] = [
    ("publish terms", None, "enrolling", TERMS_DIGEST),
    ("accept terms", "hospital-b", "enrolling", hashlib.sha256(pack(ACCEPTANCE)).digest()),
    ("accept terms", "hospital-a", "enrolling", bytes(32)),
    ("publish anchor", "hospital-a", "anchored", COMMITMENT),
    ("begin uplink", "hospital-b", "collecting", UPLINK_DIGEST),
    ("accept uplink", "hospital-b", "collecting", UPLINK_DIGEST),
    ("seal", None, "sealed", None),
]
LEDGER, HEADS = chained(STEPS)
LEDGER_HEAD: dict[str, Any] = {
    "collaboration_id": COLLABORATION,
    "length": len(LEDGER),
    "digest": HEADS[-1],
    "at": 1_800_000_000,
}
RECEIPT: dict[str, Any] = {
    "collaboration_id": COLLABORATION,
    "party": "hospital-b",
    "uplink_digest": UPLINK_DIGEST,
    "payload_bytes": 51,
    "received_at": 1_800_000_000,
    "ledger_index": 5,
    "ledger_digest": HEADS[6],
}
DOWNLINK: dict[str, Any] = {
    "collaboration_id": COLLABORATION,
    "terms_digest": TERMS_DIGEST,
    "party": "hospital-b",
    "uplink_digest": UPLINK_DIGEST,
    "chunk_bytes": CHUNK_BYTES,
    "arrays": [
        array("change_of_basis", "f8", (2, 2), CHANGE_OF_BASIS),
        array("model", "u1", (len(MODEL),), MODEL),
    ],
    "model_parameters": 1282,
}
ANCHOR_PREDICTIONS = struct.pack("<12f", *[0.25, 0.75, 1.0, 0.0, 0.5, 0.5] * 2)
PREDICTIONS_DOWNLINK = {
    **DOWNLINK,
    "arrays": [array("anchor_predictions", "f4", (6, 2), ANCHOR_PREDICTIONS)],
}
FORGETTING: dict[str, Any] = {
    "collaboration_id": COLLABORATION,
    "terms_digest": TERMS_DIGEST,
    "party": "hospital-b",
    "uplink_digest": UPLINK_DIGEST,
    "erased": [{"name": "basis.npy", "size_bytes": 176, "erased_at": 1_800_000_100}],
}
SIGNED: dict[str, Any] = {
    "kind": "odc/v1/receipt",
    "payload": pack(RECEIPT),
    "certificate": b"DER",
    "signature": b"DER too",
}


def changed(value: Any, *path: str | int, to: Any) -> Any:
    """Return ``value`` with the item at ``path`` replaced, and nothing else touched."""
    if not path:
        return to
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], *path[1:], to=to)
    return copy


def without(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != key}


# --- messages.json ---------------------------------------------------------------------------------


def valid_messages() -> Iterator[Case]:
    logistic = {"kind": "logistic", "inverse_penalty": 1.0, "epochs": 1000}
    longest_int = changed(TERMS, "alignment", "seed", to=2**63 - 1)
    for name, kind, value in [
        ("terms", "Terms", TERMS),
        ("terms with a logistic model and a uniform anchor", "Terms", {
            **TERMS, "model": logistic, "anchor": {"kind": "uniform", "rows": 100},
            "alignment": {"method": "odc", "target": "haar", "seed": 300}, "rep_dtype": "f8",
        }),
        ("terms with a row-revealing model", "Terms", {**TERMS, "model": SVM}),
        ("terms with random features in the kernel's place", "Terms", {**TERMS, "model": {
            "kind": "random-feature-svm", "random_features": 512, "inverse_penalty": 1.0, "gamma": 0.25,
            "epochs": 1000, "seed": 0,
        }}),
        ("terms with scaled 8-bit representations", "Terms", SCALED_TERMS),
        ("terms with the largest seed", "Terms", longest_int),
        ("terms with least squares onto a random invertible target", "Terms", {
            **TERMS, "alignment": {"method": "kawakami", "target": "invertible", "seed": 0},
        }),
        ("terms with an empty purpose and no missing texts", "Terms",
            changed({**TERMS, "purpose": ""}, "table_schema", "missing", to=[])),
        ("invitation ticket", "InvitationTicket", TICKET),
        ("enrolment", "Enrolment", ENROLMENT),
        ("enrolment with a certificate of our own PKI", "Enrolment",
            {**ENROLMENT, "chain": [b"our certificate", b"an intermediate one"]}),
        ("renewal", "Renewal", RENEWAL),
        ("renewal with a certificate of our own PKI", "Renewal", {**RENEWAL, "chain": [b"our certificate"]}),
        ("acceptance", "Acceptance", ACCEPTANCE),
        ("acceptance of a row-revealing model", "Acceptance",
            {**ACCEPTANCE, "accept_row_revealing_model": True}),
        ("sealed anchor", "SealedAnchor", SEALED_ANCHOR),
        ("sealed anchor of a matrix", "SealedAnchor", {**SEALED_ANCHOR, "form": "matrix"}),
        ("terms with a public anchor", "Terms", {**TERMS, "anchor": {"kind": "public", "rows": 5}}),
        ("uplink manifest", "UplinkManifest", UPLINK),
        ("uplink manifest of a consumer without rows", "UplinkManifest", CONSUMER_UPLINK),
        ("uplink manifest of rows with noise, dropped and permuted, and of a perturbed basis",
            "UplinkManifest", PRIVATE_UPLINK),
        ("uplink manifest of scaled 8-bit representations", "UplinkManifest", SCALED_UPLINK),
        ("receipt", "Receipt", RECEIPT),
        ("ledger entry, the first", "LedgerEntry", LEDGER[0]),
        ("ledger entry of a party", "LedgerEntry", LEDGER[1]),
        ("ledger head", "LedgerHead", LEDGER_HEAD),
        ("ledger page", "LedgerPage", {"entries": LEDGER, "head": b"signed head"}),
        ("downlink manifest", "DownlinkManifest", DOWNLINK),
        ("downlink manifest with anchor predictions", "DownlinkManifest", PREDICTIONS_DOWNLINK),
        ("terms with anchor predictions", "Terms", {
            **TERMS, "anchor": {"kind": "gaussian", "rows": 6}, "downlink": "anchor-predictions",
        }),
        ("forgetting statement", "ForgettingStatement", FORGETTING),
        ("forgetting statement before anything was sent", "ForgettingStatement",
            {**FORGETTING, "uplink_digest": None}),
        ("signed, as a message alone", "Signed", SIGNED),
    ]:  # fmt: skip
        packed = pack(value)
        yield {
            "name": name,
            "kind": kind,
            "verdict": "valid",
            "hex": packed.hex(),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "value": to_json(value),
        }


def broken_messages() -> Iterator[Case]:
    yield from _broken_bytes()
    yield from _broken_values()
    yield from _too_much()


def _refused(name: str, kind: str, data: bytes, verdict: str = "malformed-message") -> Case:
    return {"name": name, "kind": kind, "verdict": verdict, "hex": data.hex()}


def _broken_bytes() -> Iterator[Case]:
    receipt, fields = pack(RECEIPT), packed_items(RECEIPT)
    terms = pack(TERMS)

    def with_field(name: str, packed: bytes) -> bytes:
        return pack_fields([(pack(key), packed if key == name else item) for key, item in fields.items()])

    pairs = [(pack(key), item) for key, item in fields.items()]
    digest = RECEIPT["uplink_digest"]
    for name, data in [
        ("nothing at all", b""),
        ("a byte that msgpack does not use", b"\xc1"),
        ("text", b"not msgpack"),
        ("cut off inside", receipt[:-1]),
        ("cut off after the first byte", receipt[:1]),
        ("a byte too many", receipt + b"\xc0"),
        ("an array instead of a map", pack(list(RECEIPT.values()))),
        ("nil", pack(None)),
        ("keys not sorted", pack_fields(pairs[::-1])),
        ("a key twice", pack_fields([*pairs[:1], *pairs])),
        ("a key that is a number", pack_fields([(pack(1), pack(1)), *pairs])),
        ("a key that is bytes", pack_fields([(pack(b"party"), pack("hospital-b")), *pairs])),
        ("a map head of 16 bits", b"\xde\x00\x05" + receipt[1:]),
        ("an integer in 64 bits that fits 32",
            with_field("received_at", b"\xcf" + (1_800_000_000).to_bytes(8, "big"))),
        ("an integer in 8 bits that fits 7", with_field("payload_bytes", b"\xcc\x33")),
        ("a positive integer in a signed form", with_field("payload_bytes", b"\xd0\x33")),
        ("a text with a longer head than it needs", with_field("party", b"\xd9\x0ahospital-b")),
        ("bytes with a longer head than they need", with_field("uplink_digest", b"\xc5\x00\x20" + digest)),
        ("bytes where text belongs", with_field("party", pack(b"hospital-b"))),
        ("text where bytes belong", with_field("uplink_digest", pack("a" * 32))),
        ("text that is not UTF-8", with_field("party", b"\xa2\xff\xfe")),
        ("a half of a surrogate pair", with_field("party", b"\xa3\xed\xa0\x80")),
        ("a float where an integer belongs", with_field("payload_bytes", pack(51.0))),
        ("a boolean where an integer belongs", with_field("payload_bytes", pack(True))),
        ("an extension type", with_field("payload_bytes", b"\xd4\x05\x00")),
        ("a msgpack timestamp", with_field("received_at", b"\xd6\xff" + (1_800_000_000).to_bytes(4, "big"))),
    ]:  # fmt: skip
        yield _refused(name, "Receipt", data)
    numeric = pack(NUMERIC["high"])
    for name, packed in [
        ("a float of 32 bits", b"\xca" + struct.pack(">f", 120.0)),
        ("an integer where a float belongs", pack(120)),
        ("a NaN", pack(math.nan)),
        ("an infinity", pack(math.inf)),
    ]:
        position = terms.index(pack("high") + numeric) + len(pack("high"))
        yield _refused(name, "Terms", terms[:position] + packed + terms[position + len(numeric) :])


def _broken_values() -> Iterator[Case]:
    site = ("table_schema", "columns", 1)
    age = ("table_schema", "columns", 0)
    first = ("arrays", 0)
    cases: list[tuple[str, str, Any]] = [
        ("an extra field", "Receipt", {**RECEIPT, "note": "x"}),
        ("a missing field", "Receipt", without(RECEIPT, "party")),
        ("a missing field that has a default", "Acceptance",
            without(ACCEPTANCE, "accept_row_revealing_model")),
        ("nil where a value belongs", "Receipt", {**RECEIPT, "party": None}),
        ("a digest of 31 bytes", "Receipt", {**RECEIPT, "uplink_digest": bytes(31)}),
        ("a digest of 33 bytes", "Receipt", {**RECEIPT, "uplink_digest": bytes(33)}),
        ("an identifier in capitals", "Receipt", {**RECEIPT, "collaboration_id": COLLABORATION.upper()}),
        ("an identifier of 31 digits", "Receipt", {**RECEIPT, "collaboration_id": COLLABORATION[1:]}),
        ("a party with a line break", "Receipt", {**RECEIPT, "party": "hospital-b\n"}),
        ("a party with a slash", "Receipt", {**RECEIPT, "party": "../hospital-b"}),
        ("a party in capitals", "Receipt", {**RECEIPT, "party": "Hospital-B"}),
        ("a party that ends in a hyphen", "Receipt", {**RECEIPT, "party": "hospital-"}),
        ("a party of 64 characters", "Receipt", {**RECEIPT, "party": "a" * 64}),
        ("an empty party", "Receipt", {**RECEIPT, "party": ""}),
        ("a negative number of bytes", "Receipt", {**RECEIPT, "payload_bytes": -1}),
        ("a number of bytes beyond 2**53", "Receipt", {**RECEIPT, "payload_bytes": 2**53}),
        ("a time before 1970", "Receipt", {**RECEIPT, "received_at": -1}),
        ("a time after the year 9999", "Receipt", {**RECEIPT, "received_at": 253_402_300_800}),
        ("an unknown role", "InvitationTicket", {**TICKET, "role": "observer"}),
        ("an empty certificate request", "Enrolment", {**ENROLMENT, "csr": b""}),
        ("more certificates than a chain may have", "Enrolment", {**ENROLMENT, "chain": [b"one"] * 5}),
        ("an empty certificate in a chain", "Enrolment", {**ENROLMENT, "chain": [b""]}),
        ("an unknown sealing suite", "Acceptance", {**ACCEPTANCE, "sealing_suite": "rsa"}),
        ("an anchor in an unknown form", "SealedAnchor", {**SEALED_ANCHOR, "form": "table"}),
        ("terms of another schema version", "Terms", {**TERMS, "terms_schema": 2}),
        ("a party twice", "Terms", {**TERMS, "parties": ["hospital-a", "hospital-a"]}),
        ("no party", "Terms", {**TERMS, "parties": []}),
        ("a lead that is no party", "Terms", {**TERMS, "lead": "hospital-c"}),
        ("more latent dimensions than features", "Terms", {**TERMS, "latent_dim": 4}),
        ("no latent dimension", "Terms", {**TERMS, "latent_dim": 0}),
        ("a haar anchor with more rows than features", "Terms",
            {**TERMS, "anchor": {"kind": "haar", "rows": 4}}),
        ("a uniform anchor with fewer rows than features", "Terms",
            {**TERMS, "anchor": {"kind": "uniform", "rows": 2}}),
        ("an integer type for the representation", "Terms", {**TERMS, "rep_dtype": "i4"}),
        ("an unknown model", "Terms", changed(TERMS, "model", "kind", to="forest")),
        ("a learning rate of zero", "Terms", changed(TERMS, "model", "learning_rate", to=0.0)),
        ("a seed beyond 63 bits", "Terms", changed(TERMS, "alignment", "seed", to=2**63)),
        ("an unknown alignment", "Terms", changed(TERMS, "alignment", "method", to="best")),
        ("an invertible target for a method that keeps lengths", "Terms",
            changed(TERMS, "alignment", "target", to="invertible")),
        ("an empty title", "Terms", {**TERMS, "title": ""}),
        ("a title over its limit", "Terms", {**TERMS, "title": "a" * 201}),
        ("no column", "Terms", changed(TERMS, "table_schema", "columns", to=[])),
        ("a column of an unknown kind", "Terms", changed(TERMS, *age, "kind", to="text")),
        ("a numeric column with low above high", "Terms", changed(TERMS, *age, "low", to=121.0)),
        ("a numeric column with low equal to high", "Terms", changed(TERMS, *age, "low", to=120.0)),
        ("a numeric column too wide for a float", "Terms",
            changed(changed(TERMS, *age, "low", to=-1.7e308), *age, "high", to=1.7e308)),
        ("a numeric column that imputes outside its range", "Terms",
            changed(TERMS, *age, "impute", to=130.0)),
        ("a categorical column with one level", "Terms", changed(TERMS, *site, "levels", to=["north"])),
        ("a level twice", "Terms", changed(TERMS, *site, "levels", to=["north", "north"])),
        ("a categorical column that imputes another level", "Terms",
            changed(TERMS, *site, "impute", to="west")),
        ("a column twice", "Terms", changed(TERMS, *site, "name", to="age")),
        ("a label that is also a column", "Terms",
            changed(TERMS, "table_schema", "label_column", "name", to="age")),
        ("a class twice", "Terms",
            changed(TERMS, "table_schema", "label_column", "classes", to=["no", "no"])),
        ("arrays in another order", "UplinkManifest", {**UPLINK, "arrays": UPLINK["arrays"][::-1]}),
        ("two arrays instead of three", "UplinkManifest", {**UPLINK, "arrays": UPLINK["arrays"][:2]}),
        ("8-bit representations without their scales", "UplinkManifest",
            {**SCALED_UPLINK, "arrays": SCALED_UPLINK["arrays"][:3]}),
        ("8-bit representations with one scale alone", "UplinkManifest",
            {**SCALED_UPLINK, "arrays": SCALED_UPLINK["arrays"][:4]}),
        ("scales in another order", "UplinkManifest",
            {**SCALED_UPLINK, "arrays": [*SCALED_UPLINK["arrays"][:3], *SCALED_UPLINK["arrays"][:2:-1]]}),
        ("scales beside floats", "UplinkManifest",
            {**UPLINK, "arrays": [*UPLINK["arrays"], *SCALED_UPLINK["arrays"][3:]]}),
        ("a scale too few", "UplinkManifest", changed(SCALED_UPLINK, "arrays", 3, "shape", to=[1])),
        ("scales for rows", "UplinkManifest", changed(SCALED_UPLINK, "arrays", 4, "shape", to=[3])),
        ("scales in double precision", "UplinkManifest",
            changed(SCALED_UPLINK, "arrays", 3, "dtype", to="f8")),
        ("labels for other rows", "UplinkManifest", changed(UPLINK, "arrays", 2, "shape", to=[4])),
        ("labels as a matrix", "UplinkManifest", changed(UPLINK, "arrays", 2, "shape", to=[3, 1])),
        ("an array of three axes", "UplinkManifest", changed(UPLINK, *first, "shape", to=[3, 2, 1])),
        ("an array without axes", "UplinkManifest", changed(UPLINK, *first, "shape", to=[])),
        ("a negative axis", "UplinkManifest", changed(UPLINK, *first, "shape", to=[-1, 2])),
        ("more rows than 31 bits", "UplinkManifest", changed(UPLINK, *first, "shape", to=[2**31, 2])),
        ("an array over 1 TiB", "UplinkManifest",
            changed(UPLINK, *first, "shape", to=[2**31 - 1, 2**31 - 1])),
        ("an unknown number type", "UplinkManifest", changed(UPLINK, *first, "dtype", to="c8")),
        ("chunks that are no multiple of 64 KiB", "UplinkManifest", {**UPLINK, "chunk_bytes": 65537}),
        ("chunks below the limit", "UplinkManifest", {**UPLINK, "chunk_bytes": 0}),
        ("chunks above the limit", "UplinkManifest", {**UPLINK, "chunk_bytes": 4 * 2**20 + 65536}),
        ("an uplink that says nothing of privacy", "UplinkManifest", without(UPLINK, "privacy")),
        ("noise by halves", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "delta", to=None)),
        ("an epsilon of zero", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "epsilon", to=0.0)),
        ("a delta of one", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "delta", to=1.0)),
        ("rows clipped to nothing", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "clip", to=0.0)),
        ("a share above one", "UplinkManifest", changed(PRIVATE_UPLINK, "privacy", "drop_below", to=1.5)),
        ("a basis perturbed by one", "UplinkManifest",
            changed(PRIVATE_UPLINK, "privacy", "perturb_basis", to=1.0)),
        ("how many rows were dropped", "UplinkManifest",
            changed(UPLINK, "privacy", to={**PRIVACY, "dropped_rows": 3})),
        ("a change of basis as a vector", "DownlinkManifest", changed(DOWNLINK, *first, "shape", to=[4])),
        ("a change of basis of integers", "DownlinkManifest", changed(DOWNLINK, *first, "dtype", to="i8")),
        ("a model of floats", "DownlinkManifest", changed(DOWNLINK, "arrays", 1, "dtype", to="f4")),
        ("the arrays of an uplink", "DownlinkManifest",
            {**DOWNLINK, "arrays": UPLINK["arrays"][:2]}),
        ("anchor predictions beside a model", "DownlinkManifest",
            {**DOWNLINK, "arrays": [*PREDICTIONS_DOWNLINK["arrays"], DOWNLINK["arrays"][1]]}),
        ("anchor predictions in double precision", "DownlinkManifest",
            changed(PREDICTIONS_DOWNLINK, *first, "dtype", to="f8")),
        ("anchor predictions as a vector", "DownlinkManifest",
            changed(PREDICTIONS_DOWNLINK, *first, "shape", to=[6])),
        ("a model alone", "DownlinkManifest", {**DOWNLINK, "arrays": DOWNLINK["arrays"][1:]}),
        ("anchor predictions for a haar anchor", "Terms", {**TERMS, "downlink": "anchor-predictions"}),
        ("anchor predictions for a uniform anchor", "Terms",
            {**TERMS, "downlink": "anchor-predictions", "anchor": {"kind": "uniform", "rows": 100}}),
        ("anchor predictions for fewer than two rows a feature", "Terms",
            {**TERMS, "downlink": "anchor-predictions", "anchor": {"kind": "gaussian", "rows": 5}}),
        ("a public anchor of more than 256 MiB", "Terms",
            {**TERMS, "anchor": {"kind": "public", "rows": 2**28 // 12 + 1}}),
        ("an unknown downlink", "Terms", {**TERMS, "downlink": "model"}),
        ("a forgetting statement of nothing", "ForgettingStatement", {**FORGETTING, "erased": []}),
        ("a label over its limit", "Signed", {**SIGNED, "kind": "a" * 101}),
        ("an empty signature", "Signed", {**SIGNED, "signature": b""}),
    ]  # fmt: skip
    for name, kind, value in cases:
        yield _refused(name, kind, pack(value))


def _too_much() -> Iterator[Case]:
    """Cases whose bytes are given as parts, each a hexadecimal string and how often it comes."""

    def case(name: str, kind: str, verdict: str, *parts: tuple[bytes, int]) -> Case:
        return {
            "name": name,
            "kind": kind,
            "verdict": verdict,
            "parts": [[data.hex(), times] for data, times in parts],
        }

    malformed, over = "malformed-message", "limit-exceeded"
    head = b"\x81" + pack("collaboration_id")
    yield case("nested 17 deep", "Receipt", malformed, (head, 1), (b"\x91", 16), (b"\xc0", 1))
    before, after = pack({**ENROLMENT, "csr": b"CSR"}).split(b"\xc4\x03CSR")
    yield case("a certificate request over its limit", "Enrolment", malformed,
               (before + b"\xc6" + (65537).to_bytes(4, "big"), 1), (b"\0", 65537), (after, 1))  # fmt: skip
    yield case("nested 2000 deep", "Receipt", malformed, (b"\x91", 2000), (b"\xc0", 1))
    yield case("more bytes than a message may have", "Receipt", over, (b"\x00", 4 * 2**20 + 1))
    rows = b"\xdc" + (65535).to_bytes(2, "big")
    yield case("more maps than a message may have", "Receipt", over, (b"\x93", 1),
               *[(rows, 1), (b"\x80", 65535)] * 3)  # fmt: skip
    yield case("an array longer than any may be", "Receipt", malformed,
               (b"\xdd" + (65537).to_bytes(4, "big"), 1), (b"\xc0", 65537))  # fmt: skip
    keys = b"".join(pack(f"key{number:02}") + b"\xc0" for number in range(65))
    yield case("a map with more keys than any may have", "Receipt", malformed, (b"\xde\x00\x41" + keys, 1))


# --- uplinks.json: manifests against terms ------------------------------------------------------------


def warned(text: str, warning: str) -> str:
    """Return a text with one more warning, which follows those that every text has."""
    return text.replace("\n\nColumns:", f"\n{warning}\nColumns:")


def shown_texts() -> Iterator[Case]:
    """Terms, and what their reader is shown and signs the digest of."""
    awkward = {**NUMERIC, "low": -1e-7, "high": 1.5e22, "impute": None, "out_of_range": "refuse"}
    numbers = (
        "from -0.0000001 to 15000000000000000000000; a number outside is refused; an empty field is refused"
    )
    mapped = "from 0 to 120; a number outside is moved to the nearer end; an empty field counts as 40"
    for name, terms, text in [
        ("a default model", TERMS, SHOWN),
        ("a row-revealing model", {**TERMS, "model": SVM}, REVEALED),
        (
            "anchor predictions for few rows; a kernel that does not come back reveals none",
            {**PREDICTED_TERMS, "model": SVM},
            warned(FORGOTTEN.replace("(mlp)", "(svm)"), FEW_ROWS_WARNING),
        ),
        (
            "anchor predictions for a public anchor",
            {**PREDICTED_TERMS, "anchor": {"kind": "public", "rows": 6}},
            warned(FORGOTTEN, PUBLIC_WARNING),
        ),
        (
            "a uniform anchor and 8-bit integers",
            {**TERMS, "anchor": {"kind": "uniform", "rows": 100}, "rep_dtype": "i1"},
            warned(SHOWN, UNIFORM_WARNING)
            .replace("(8 bytes)", "(2 bytes)")
            .replace("(24 bytes)", "(200 bytes)")
            .replace(
                "32-bit floats (about seven digits)",
                "8-bit integers (to within 1/254 of the largest value of the same dimension)",
            ),
        ),
        (
            "numbers without an exponent",
            changed(TERMS, "table_schema", "columns", 0, to=awkward),
            SHOWN.replace(mapped, numbers),
        ),
    ]:  # fmt: skip
        yield {"name": name, "terms": pack(terms).hex(), "text": text, "digest": shown_digest(text).hex()}


def uplinks() -> Iterator[Case]:
    halves = changed(SCALED_UPLINK, "arrays", 1, "dtype", to="f2")
    for name, verdict, manifest in [
        ("as the terms promise", "valid", UPLINK),
        ("a consumer without rows", "valid", CONSUMER_UPLINK),
        ("one latent dimension too many", "shape-mismatch", changed(UPLINK, "arrays", 0, "shape", to=[3, 3])),
        ("one anchor row too few", "shape-mismatch", changed(UPLINK, "arrays", 1, "shape", to=[2, 2])),
        ("doubles instead of singles", "dtype-mismatch", changed(UPLINK, "arrays", 0, "dtype", to="f8")),
        ("an anchor of halves", "dtype-mismatch", changed(UPLINK, "arrays", 1, "dtype", to="f2")),
        ("labels in 16 bits for two classes", "dtype-mismatch",
            changed(UPLINK, "arrays", 2, "dtype", to="u2")),
        ("scaled 8-bit integers as the terms promise", "valid", SCALED_UPLINK),
        ("scaled 8-bit integers, but an anchor of halves", "dtype-mismatch", halves),
        ("singles where the terms say 8-bit integers", "dtype-mismatch",
            {**UPLINK, "terms_digest": SCALED_UPLINK["terms_digest"]}),
    ]:  # fmt: skip
        is_scaled = manifest["terms_digest"] == SCALED_UPLINK["terms_digest"]
        yield {
            "name": name,
            "verdict": verdict,
            "terms": pack(SCALED_TERMS if is_scaled else TERMS).hex(),
            "manifest": pack(manifest).hex(),
            "whole_digest": hashlib.sha256(b"".join(a["digest"] for a in manifest["arrays"])).hexdigest(),
        }


# --- streams.json ----------------------------------------------------------------------------------


def streams() -> Iterator[Case]:
    def case(
        name: str,
        verdict: str,
        arrays: Sequence[Mapping[str, Any]],
        *parts: tuple[bytes, int],
        chunks: int,
        classes: int | None = None,
    ) -> Case:
        whole = b"".join(data * times for data, times in parts)
        return {
            "name": name,
            "verdict": verdict,
            "chunk_bytes": CHUNK_BYTES,
            "classes": classes,
            "arrays": [to_json(item) for item in arrays],
            "parts": [[data.hex(), times] for data, times in parts],
            "stream_bytes": len(whole),
            "stream_sha256": hashlib.sha256(whole).hexdigest(),
            "good_chunks": chunks,
        }

    small = UPLINK["arrays"]
    pieces = [array_stream(data) for data in (REP, ANCHOR_REP, LABELS)]
    whole = b"".join(pieces)
    yield case("the arrays of the example uplink", "valid", small, (whole, 1), chunks=3, classes=2)
    yield case("an uplink without rows", "valid", CONSUMER_UPLINK["arrays"], (pieces[1], 1), chunks=1,
               classes=2)  # fmt: skip
    yield case("nothing yet", "incomplete", small, chunks=0)
    yield case("cut off inside the second chunk", "incomplete", small, (whole[:70], 1), chunks=1)
    yield case("a byte too many", "limit-exceeded", small, (whole + b"\0", 1), chunks=3)
    for name, offset, good in [("digest", 0, 0), ("data", 32, 0), ("data of the last chunk", -1, 2)]:
        flipped = bytearray(whole)
        flipped[offset] ^= 1
        yield case(f"a bit flipped in the {name}", "digest-mismatch", small, (bytes(flipped), 1), chunks=good)
    swapped = pieces[1] + pieces[0] + pieces[2]
    yield case("two arrays exchanged, which only the array digest shows", "array-digest-mismatch", small,
               (swapped, 1), chunks=3)  # fmt: skip

    spoilt = struct.pack("<6f", 0.5, -0.25, 1.0, math.nan, -1.0, 0.125)
    yield case("a NaN in row 1", "not-finite", [array("rep", "f4", (3, 2), spoilt)],
               (array_stream(spoilt), 1), chunks=1)  # fmt: skip
    spoilt = struct.pack("<2e", 1.0, math.inf)
    yield case("an infinity in half precision", "not-finite", [array("rep", "f2", (2, 1), spoilt)],
               (array_stream(spoilt), 1), chunks=1)  # fmt: skip
    spoilt = bytes([0, 2, 1])
    yield case("a label beyond the classes", "label-out-of-range", [array("labels", "u1", (3,), spoilt)],
               (array_stream(spoilt), 1), chunks=1, classes=2)  # fmt: skip

    arrays = [REP_I1, ANCHOR_REP_I1, LABELS, REP_SCALE, ANCHOR_REP_SCALE]
    whole = b"".join(map(array_stream, arrays))
    yield case("scaled 8-bit integers", "valid", SCALED_UPLINK["arrays"], (whole, 1), chunks=5)
    for name, value in [
        ("a negative scale", -0.25),
        ("a scale that is no number", math.nan),
        ("a scale too large", f32(2.0**120 * 1.5)),
    ]:
        spoilt = struct.pack("<2f", 0.5, value)
        yield case(name, "not-finite", [array("rep_scale", "f4", (2,), spoilt)],
                   (array_stream(spoilt), 1), chunks=1)  # fmt: skip
    largest = struct.pack("<2f", 0.0, 2.0**120)
    yield case("the smallest and the largest scale", "valid", [array("rep_scale", "f4", (2,), largest)],
               (array_stream(largest), 1), chunks=1)  # fmt: skip

    # three chunks of a pattern of 251 bytes, the last one shorter
    run = bytes(range(251))
    parts: list[tuple[bytes, int]] = []
    for start in range(0, len(MODEL), CHUNK_BYTES):
        chunk = MODEL[start : start + CHUNK_BYTES]
        lead = run[start % 251 :]
        times, rest = divmod(len(chunk) - len(lead), 251)
        parts += [(hashlib.sha256(chunk).digest() + lead, 1), (run, times), (run[:rest], 1)]
    model = [array("model", "u1", (len(MODEL),), MODEL)]
    yield case("an array of three chunks, byte k is k mod 251", "valid", model, *parts, chunks=3)
    yield case("an array of three chunks without the last", "incomplete", model, *parts[:6], chunks=2)


# --- scaled.json -----------------------------------------------------------------------------------


def scaled_matrices() -> Iterator[Case]:
    """Yield matrices as 8-bit integers, and what a receiver computes with."""
    for name, rows in [
        ("the representation of the example", [[0.6, -0.25], [1.0, 0.0], [-1.0, 0.1]]),
        ("its anchor representation", [[0.75, 0.6], [-0.4, 0.2], [0.0, 1.0]]),
        ("one number", [[-3.0]]),
        ("a column of zeros", [[0.0, 1e-3], [0.0, -7e-4]]),
        ("columns of very different size", [[1e-20, 1e20], [3e-21, -9e19]]),
    ]:
        values, scale = scaled(rows)
        decoded = [f32(value * s) for row in values for value, s in zip(row, scale, strict=True)]
        yield {
            "name": name,
            "matrix": rows,
            "values": values,
            "scale": struct.pack(f"<{len(scale)}f", *scale).hex(),
            "decoded": struct.pack(f"<{len(decoded)}f", *decoded).hex(),
        }


# --- ledgers.json ----------------------------------------------------------------------------------


def ledgers() -> Iterator[Case]:
    again = chained([*STEPS[:6], STEPS[5]])[0]
    for name, entries, verdict in [
        ("a round until its seal", LEDGER, "valid"),
        ("the beginning of the same", LEDGER[:3], "valid"),
        ("a time was changed", changed(LEDGER, 2, "at", to=1), "ledger-broken"),
        ("a subject was taken out", changed(LEDGER, 1, "subject", to=None), "ledger-broken"),
        ("an entry was left out", [*LEDGER[:2], *LEDGER[3:]], "ledger-broken"),
        ("two entries changed places", [LEDGER[0], LEDGER[2], LEDGER[1], *LEDGER[3:]], "ledger-broken"),
        ("the first entry of another collaboration", [changed(LEDGER[0], "previous", to=bytes(32))],
            "ledger-broken"),
        ("a step that does not follow", chained([STEPS[0], STEPS[5]])[0], "ledger-broken"),
        ("a state that the step does not lead to", chained([(*STEPS[0][:2], "anchored", None)])[0],
            "ledger-broken"),
        ("a second uplink of a party", again, "ledger-broken"),
    ]:  # fmt: skip
        case = {
            "name": name,
            "collaboration_id": COLLABORATION,
            "entries": [pack(entry).hex() for entry in entries],
            "verdict": verdict,
        }
        if verdict == "valid":
            case["heads"] = [head.hex() for head in HEADS[: len(entries) + 1]]
        yield case


# --- keys.json -------------------------------------------------------------------------------------


def hkdf(secret: bytes, label: str, length: int = 32) -> bytes:
    """RFC 5869 with SHA-256 and no salt."""
    key = hmac.digest(bytes(32), secret, "sha256")
    out, block = b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac.digest(key, block + label.encode() + bytes([counter]), "sha256")
        out += block
    return out[:length]


def keys() -> dict[str, list[Case]]:
    secret, ticket, csr = bytes(range(32, 64)), b"signed ticket", b"PKCS #10"
    mac_key = hkdf(secret, "odc/v1/join-mac")
    chain = [b"our certificate", b"an intermediate one"]

    def join_mac(*parts: bytes) -> str:
        return hmac.digest(mac_key, b"".join(hashlib.sha256(part).digest() for part in parts), "sha256").hex()

    token_digest = hashlib.sha256(b"odc/v1/api-token\0" + TOKEN.encode()).hexdigest()
    info = b"odc/v1/sealed-anchor\0" + COLLABORATION.encode() + TERMS_DIGEST + b"hospital-b"
    return {
        "derive": [
            {
                "secret": secret.hex(),
                "label": label,
                "length": length,
                "key": hkdf(secret, label, length).hex(),
            }
            for label, length in [
                ("odc/v1/join-mac", 32),
                ("odc/v1/anchor/haar", 32),
                ("odc/v1/anchor/uniform", 32),
                ("odc/v1/anchor/gaussian", 32),
                ("odc/v1/anchor/public", 32),
                ("odc/v1/test", 80),
            ]
        ],
        "join_mac": [
            {
                "secret": secret.hex(),
                "ticket": ticket.hex(),
                "csr": csr.hex(),
                "chain": [one.hex() for one in sent],
                "mac": join_mac(ticket, csr, *sent),
            }
            for sent in ([], chain)
        ],
        "api_token": [{"token": TOKEN, "digest": token_digest, "token_id": token_digest[:32]}],
        "seed_commitment": [{"seed": SEED.hex(), "commitment": COMMITMENT.hex()}],
        "sealed_matrix": [*sealed_matrices()],
        "anchor_info": [
            {
                "collaboration_id": COLLABORATION,
                "terms_digest": TERMS_DIGEST.hex(),
                "recipient": "hospital-b",
                "info": info.hex(),
            }
        ],
    }


def sealed_matrices() -> Iterator[Case]:
    """Matrices of public anchors; the second is four bytes longer than a chunk."""
    key = ChaCha20Poly1305(hkdf(SEED, "odc/v1/anchor/public"))
    small, large = struct.pack("<6f", -1, 0, 1, 0.5, 0.25, -0.125), struct.pack("<f", 0.5)
    for value, times in ((small, 1), (large, 2**18 + 1)):
        chunks = [*chunked(value * times, 2**20)]
        sealed = b"".join(
            key.encrypt(struct.pack(">3xQ?", number, number == len(chunks) - 1), chunk, None)
            for number, chunk in enumerate(chunks)
        )
        label = b"odc/v1/anchor-matrix-commitment\0"
        yield {
            "seed": SEED.hex(),
            "matrix_parts": [[value.hex(), times]],
            "sealed_start": sealed[:64].hex(),
            "sealed_bytes": len(sealed),
            "sealed_sha256": hashlib.sha256(sealed).hexdigest(),
            "commitment": hashlib.sha256(label + SEED + hashlib.sha256(sealed).digest()).hexdigest(),
        }


# --- anchors.json ----------------------------------------------------------------------------------


def key_stream(seed: bytes, kind: str, length: int) -> bytes:
    """RFC 8439: a nonce of twelve zero bytes, blocks counted from 0."""
    key = hkdf(seed, f"odc/v1/anchor/{kind}")
    counter_and_nonce = bytes(4) + bytes(12)
    return Cipher(algorithms.ChaCha20(key, counter_and_nonce), None).encryptor().update(bytes(length))


def uniform_numbers(seed: bytes, kind: str, count: int) -> list[float]:
    stream = key_stream(seed, kind, 8 * count)
    return [(number >> 11) * 2.0**-53 for (number,) in struct.iter_unpack("<Q", stream)]


def gaussian_numbers(seed: bytes, kind: str, count: int) -> list[float]:
    """Box-Muller on consecutive pairs; the last number of an odd count is dropped."""
    uniform = uniform_numbers(seed, kind, count + count % 2)
    out = []
    for u1, u2 in zip(uniform[::2], uniform[1::2], strict=True):
        radius = math.sqrt(-2 * math.log(1 - u1))
        out += [radius * math.cos(2 * math.pi * u2), radius * math.sin(2 * math.pi * u2)]
    return out[:count]


def uniform_anchor(seed: bytes, rows: int, features: int) -> NDArray[np.float64]:
    return np.array(uniform_numbers(seed, "uniform", rows * features)).reshape(rows, features)


def gaussian_anchor(seed: bytes, rows: int, features: int) -> NDArray[np.float64]:
    return np.array(gaussian_numbers(seed, "gaussian", rows * features)).reshape(rows, features)


def haar_anchor(seed: bytes, features: int) -> NDArray[np.float64]:
    gaussian = np.array(gaussian_numbers(seed, "haar", features**2)).reshape(features, features)
    q, r = np.linalg.qr(gaussian)
    return np.asarray(q * np.sign(np.diag(r)))


def anchors() -> Iterator[Case]:
    other = hashlib.sha256(b"another seed").digest()
    for seed, kind, rows, features in [
        (SEED, "uniform", 5, 3),
        (other, "uniform", 2, 2),
        (SEED, "haar", 1, 1),
        (SEED, "haar", 3, 3),
        (SEED, "haar", 4, 4),
        (other, "haar", 7, 7),
        (SEED, "gaussian", 4, 2),
        (other, "gaussian", 5, 3),
    ]:
        if kind == "haar":
            matrix = haar_anchor(seed, features)
        else:
            make = uniform_anchor if kind == "uniform" else gaussian_anchor
            matrix = make(seed, rows, features)
        yield {
            "seed": seed.hex(),
            "kind": kind,
            "rows": rows,
            "features": features,
            "key_stream_start": key_stream(seed, kind, 64).hex(),
            "entries": matrix.tolist(),
        }


# --- signed.json and sealing.json: random ------------------------------------------------------------


def signed_messages() -> dict[str, Any]:
    """Messages signed under a root made here, and certificates that do not hold."""
    from protocol.identity import Identity
    from tests.harness import certificates as fakes

    root = fakes.make_root(CONSORTIUM)
    member = fakes.issue(root, "institution", "hospital-b", consortium_id=CONSORTIUM)
    analyst = fakes.issue(root, "analyst", "analyst", consortium_id=CONSORTIUM, dns=["analyst.example"])
    expired = fakes.issue(
        root, "institution", "hospital-b", consortium_id=CONSORTIUM, not_after=fakes.NOW - 1
    )
    stranger = fakes.issue(fakes.make_root(CONSORTIUM), "institution", "hospital-b")
    urn = Identity(CONSORTIUM, "institution", "hospital-b").urn

    def certified(public_key: Any, *names: x509.GeneralName, **options: Any) -> bytes:
        return fakes.issue_for(root, public_key, names, **options).public_bytes(Encoding.DER)

    def signed(
        label: str,
        payload: bytes,
        certificate: bytes,
        sign: Callable[[bytes], bytes],
        kind: str | None = None,
    ) -> bytes:
        return pack(
            {
                "kind": kind or label,
                "payload": payload,
                "certificate": certificate,
                "signature": sign(label.encode() + b"\0" + payload),
            }
        )

    def by(key: ec.EllipticCurvePrivateKey) -> Callable[[bytes], bytes]:
        return lambda data: key.sign(data, ec.ECDSA(hashes.SHA256()))

    uri = x509.UniformResourceIdentifier
    receipt, acceptance, label = pack(RECEIPT), pack(ACCEPTANCE), "odc/v1/acceptance"
    good = signed(label, acceptance, member.der, by(member.key))
    p384, rsa_key = ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)
    certificate_at = good.index(member.der)
    certificate_flipped = bytearray(good)
    certificate_flipped[certificate_at + len(member.der) - 1] ^= 1
    payload_flipped = bytearray(good)
    payload_flipped[good.index(b"x25519")] ^= 1
    rows: list[tuple[str, str, bytes, str]] = [
        ("an acceptance", "Acceptance", good, "valid"),
        ("a receipt by the analyst", "Receipt",
            signed("odc/v1/receipt", receipt, analyst.der, by(analyst.key)), "valid"),
        ("asked for as another kind", "Receipt", good, "malformed-message"),
        ("signed under one label, presented under another", "Acceptance",
            signed("odc/v1/receipt", acceptance, member.der, by(member.key), kind=label), "bad-signature"),
        ("signed without a label", "Acceptance",
            pack({"kind": label, "payload": acceptance, "certificate": member.der,
                  "signature": by(member.key)(acceptance)}), "bad-signature"),
        ("a bit of the payload flipped", "Acceptance", bytes(payload_flipped), "bad-signature"),
        ("a bit of the certificate's signature flipped", "Acceptance", bytes(certificate_flipped),
            "certificate-refused"),
        ("signed by another key", "Acceptance", signed(label, acceptance, member.der, by(analyst.key)),
            "bad-signature"),
        ("a signature that is no DER", "Acceptance",
            pack({"kind": label, "payload": acceptance, "certificate": member.der, "signature": bytes(64)}),
            "bad-signature"),
        ("under another root", "Acceptance",
            signed(label, acceptance, stranger.der, by(stranger.key)), "certificate-refused"),
        ("with an expired certificate", "Acceptance",
            signed(label, acceptance, expired.der, by(expired.key)), "certificate-refused"),
        ("with the root's own certificate", "Acceptance",
            signed(label, acceptance, root.certificate.public_bytes(Encoding.DER), by(root.key)),
            "certificate-refused"),
        ("with a certificate in PEM", "Acceptance",
            signed(label, acceptance, member.pem, by(member.key)), "certificate-refused"),
        ("with a key on P-384", "Acceptance",
            signed(label, acceptance, certified(p384.public_key(), uri(urn)), by(p384)),
            "certificate-refused"),
        ("with an RSA key", "Acceptance",
            signed(label, acceptance, certified(rsa_key.public_key(), uri(urn)), by(member.key)),
            "certificate-refused"),
        ("a payload that is not canonical", "Acceptance",
            signed(label, acceptance + b"\xc0", member.der, by(member.key)), "malformed-message"),
        ("a byte too many", "Acceptance", good + b"\xc0", "malformed-message"),
        ("the payload alone", "Acceptance", acceptance, "malformed-message"),
    ]  # fmt: skip
    key = member.key.public_key()
    names: list[tuple[str, bytes, str | None]] = [
        ("an institution", member.der, urn),
        ("an analyst that is also a TLS server", analyst.der,
            Identity(CONSORTIUM, "analyst", "analyst").urn),
        ("the lead", fakes.issue(root, "lead", "hospital-a").der,
            Identity(CONSORTIUM, "lead", "hospital-a").urn),
        ("without a name", certified(key), None),
        ("with two names", certified(key, uri(urn), uri(urn.replace("-b", "-c"))), None),
        ("with a DNS name alone", certified(key, x509.DNSName("a.example")), None),
        ("an unknown role", certified(key, uri(urn.replace("institution", "observer"))), None),
        ("a name with a slash", certified(key, uri(urn.replace("-b", "/b"))), None),
        ("a name with a colon too many", certified(key, uri(urn + ":x")), None),
        ("another namespace", certified(key, uri(urn.replace("odc", "abc"))), None),
        ("of another consortium", certified(key, uri(urn.replace(CONSORTIUM, "f" * 32))), None),
        ("that may issue certificates", certified(key, uri(urn), ca=True), None),
        ("for TLS servers alone", certified(key, uri(urn), client_auth=False), None),
        ("expired", expired.der, None),
        ("under another root", stranger.der, None),
        ("not a certificate", b"0\x03\x02\x01\x00", None),
    ]  # fmt: skip
    return {
        "root": root.pem.decode(),
        "consortium_id": CONSORTIUM,
        "at": fakes.NOW,
        "messages": [
            {"name": name, "kind": kind, "verdict": verdict, "hex": data.hex()}
            for name, kind, data, verdict in rows
        ],
        "certificates": [
            {
                "name": name,
                "verdict": "valid" if expected else "certificate-refused",
                "urn": expected,
                "hex": der.hex(),
            }
            for name, der, expected in names
        ],
        "times": [
            {"at": fakes.NOT_BEFORE - 1, "verdict": "certificate-refused"},
            {"at": fakes.NOT_BEFORE, "verdict": "valid"},
            {"at": fakes.NOT_AFTER, "verdict": "valid"},
            {"at": fakes.NOT_AFTER + 1, "verdict": "certificate-refused"},
        ],
    }


def sealed_secrets() -> list[Case]:
    """Ciphertexts with the private keys that open them, or do not."""
    from protocol.envelope import HYBRID, SealingKey, seal

    info = bytes.fromhex(keys()["anchor_info"][0]["info"])
    out: list[Case] = []

    def add(name: str, suite: str, private: bytes, public: bytes, ciphertext: bytes, opens: bool) -> None:
        out.append(
            {
                "name": name,
                "suite": suite,
                "verdict": "valid" if opens else "seal-broken",
                "private_key": private.hex(),
                "public_key": public.hex(),
                "info": info.hex(),
                "ciphertext": ciphertext.hex(),
                "plaintext": SEED.hex() if opens else None,
            }
        )

    def flip(data: bytes, offset: int) -> bytes:
        return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]

    hybrid, other = SealingKey.generate(), SealingKey.generate()
    public, ciphertext = hybrid.public_bytes(), seal(SEED, HYBRID, hybrid.public_bytes(), info)
    private = hybrid.private_bytes()
    add("hybrid", HYBRID, private, public, ciphertext, opens=True)
    add("hybrid, another key", HYBRID, other.private_bytes(), other.public_bytes(), ciphertext, opens=False)
    elsewhere = seal(SEED, HYBRID, public, info.replace(b"hospital-b", b"hospital-a"))
    add("hybrid, sealed for another recipient", HYBRID, private, public, elsewhere, opens=False)
    for name, offset in [
        ("the ML-KEM part", 0),
        ("the X25519 part", 1088),
        ("the text", 1120),
        ("the tag", -1),
    ]:
        offset %= len(ciphertext)
        add(
            f"hybrid, a bit flipped in {name}", HYBRID, private, public, flip(ciphertext, offset), opens=False
        )
    add("hybrid, cut off", HYBRID, private, public, ciphertext[:-1], opens=False)
    classic = x25519.X25519PrivateKey.generate()
    raw = classic.public_key().public_bytes_raw()
    add("x25519", "x25519", classic.private_bytes_raw(), raw, seal(SEED, "x25519", raw, info), opens=True)
    return out


# --- files -----------------------------------------------------------------------------------------


def deterministic() -> dict[str, Any]:
    """Return the content of every file that is the same on every run."""
    return {
        "messages.json": [*valid_messages(), *broken_messages()],
        "uplinks.json": [*uplinks()],
        "streams.json": [*streams()],
        "scaled.json": [*scaled_matrices()],
        "ledgers.json": [*ledgers()],
        "keys.json": keys(),
        "plain_words.json": [*shown_texts()],
        "anchors.json": [*anchors()],
    }


def random() -> dict[str, Any]:
    """Return the content of the files that differ on every run."""
    return {"signed.json": signed_messages(), "sealing.json": sealed_secrets()}


def main() -> None:
    parser = argparse.ArgumentParser(description="write the test vectors")
    parser.add_argument("--random", action="store_true", help="also those with random keys")
    files = deterministic() | (random() if parser.parse_args().random else {})
    for name, content in files.items():
        (HERE / name).write_text(json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
