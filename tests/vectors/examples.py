"""The messages of the examples: plain values, from which the vectors are made and broken."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.vectors.packing import pack

Case = dict[str, Any]
CONSORTIUM = "0123456789abcdef0123456789abcdef"
COLLABORATION = "00112233445566778899aabbccddeeff"
INVITATION = "ffeeddccbbaa99887766554433221100"
CHUNK_BYTES = 65536
SEED = bytes(range(32))


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
RANKS: dict[str, Any] = {
    "kind": "ranks",
    "name": "rank",
    "quantiles": [0.0, 1.5, 4.0],
    "empty": "refuse",
    "missing_share": None,
}
RANGE: dict[str, Any] = {
    "kind": "range",
    "name": "range",
    "low": 0.0,
    "high": 4.0,
    "centre": 1.5,
    "empty": "centre",
    "missing_share": None,
}
LEVELS: dict[str, Any] = {
    "kind": "levels",
    "name": "levels",
    "levels": ["north", "south"],
    "shares": [0.25, 0.75],
    "weight": 0.5,
    "empty": "centre",
    "missing_share": 0.1,
}
TERMS_2: dict[str, Any] = {
    **TERMS,
    "terms_schema": 2,
    "table_schema": {**TERMS["table_schema"], "columns": [RANKS, RANGE, LEVELS]},
    "latent_dim": 5,
    "anchor": {"kind": "haar", "rows": 5},
    "model": {
        "kind": "averaged",
        "inverse_penalty": 0.1,
        "hidden_units": 256,
        "learning_rate": 0.002,
        "epochs": 20,
        "weight_penalty": 1.0,
        "seed": 0,
    },
    "dither": 0.5,
    "least_signal": 0.95,
    "hold_out": 0.2,
    "returns_scores": True,
    "model_privacy": None,
    "exposure": None,
}
NUMBER_TERMS = {
    **TERMS_2,
    "table_schema": {
        **TERMS_2["table_schema"],
        "label_column": {"kind": "number", "name": "days", "low": 0.0, "high": 80.0},
    },
    "model": {"kind": "ridge", "inverse_penalty": 1.0},
}
SURVIVAL_TERMS = {
    **NUMBER_TERMS,
    "table_schema": {
        **TERMS_2["table_schema"],
        "label_column": {
            "kind": "survival",
            "name": "days",
            "event": "died",
            "seen": "yes",
            "censored": "no",
            "horizon": 730.0,
            "times": [182.5, 365.0],
        },
    },
    "model": {"kind": "cox", "inverse_penalty": 0.1},
}
FOREST_TERMS = {**TERMS_2, "model": {"kind": "random-forest", "trees": 300, "rows_per_leaf": 5, "seed": 0}}
BOOSTED_TERMS = {
    **TERMS_2,
    "model": {
        "kind": "gradient-boosting",
        "trees": 100,
        "learning_rate": 0.05,
        "rows_per_leaf": 20,
        "leaves": 15,
        "seed": 0,
    },
}
KNN_TERMS = {**TERMS_2, "model": {"kind": "knn", "neighbours": 25}}
PRIVATE_TERMS: dict[str, Any] = {
    **TERMS_2,
    "model": {"kind": "logistic", "inverse_penalty": 1.0, "epochs": 1000},
    "model_privacy": {
        "epsilon": 3.0,
        "delta": 0.00001,
        "steps": 100,
        "batch_rows": 1024,
        "learning_rate": 8.0,
    },
    "exposure": {"max_exact_rows": 0.01, "max_found_columns": 3, "min_hidden_bits": 8.0},
}
WEIGHTED_TERMS: dict[str, Any] = {
    **TERMS_2,
    "model": {"kind": "logistic", "inverse_penalty": 1.0, "epochs": 1000, "class_weight": "balanced"},
}
LATE_TERMS = {
    **TERMS_2,
    "parties": [*TERMS["parties"], "hospital-c"],
    "late_consumers": ["hospital-c"],
}
RETAINED_TERMS = {**TERMS_2, "retention_days": 90}
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
SVM: dict[str, Any] = {"kind": "svm", "inverse_penalty": 1.0, "gamma": None, "seed": 0}
AUTO_TERMS = {
    **TERMS_2,
    "model": {
        "kind": "auto",
        "candidates": [
            SVM,
            {"kind": "logistic", "inverse_penalty": 1.0, "epochs": 1000},
        ],
        "budget_s": 600,
        "seed": 0,
    },
}


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
MEMBER_SCORE: dict[str, Any] = {
    "collaboration_id": COLLABORATION,
    "terms_digest": TERMS_DIGEST,
    "party": "hospital-b",
    "rows": 57,
    "metric": "roc_auc",
    "together": 0.875,
    "alone": 0.75,
    "gain_low": 0.0625,
    "gain_high": 0.1875,
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
DITHERED_UPLINK = {**UPLINK, "privacy": {**PRIVACY, "dither": 0.5}}
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


def chained(steps: Sequence[tuple[Any, ...]], first: int = 0) -> tuple[list[Any], list[bytes]]:
    """Return the ledger of some steps, and its head after each of them, none at all included."""
    entries: list[Any] = []
    heads = [hashlib.sha256(b"odc/v1/ledger\0" + COLLABORATION.encode()).digest()]
    for index, (event, party, state, subject) in enumerate(steps, first):
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
EVIDENCE: dict[str, Any] = {
    "consortium_id": CONSORTIUM,
    "collaboration_id": COLLABORATION,
    "terms_digest": TERMS_DIGEST,
    "party": "hospital-b",
    "made_at": 1_800_000_200,
    "files": [
        {"name": name, "size_bytes": len(content), "digest": hashlib.sha256(content).digest()}
        for name, content in (("acceptance.odc", b"signed acceptance"), ("terms.odc", b"signed terms"))
    ],
    "absent": ["downlink.odc", "receipt.odc"],
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
