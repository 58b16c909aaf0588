"""What a round would cost before anybody sends a byte: the paper's formulas, and ours beside them.

Formulas (3) to (8) are those of `metering.formulas`. "Ours" is what this protocol puts into the bodies of
its messages for the same work: arrays in the number type of the terms, labels, a seed for the anchor, digests
and signed manifests. HTTP, TLS and control traffic are measured, not planned: the report of a collaboration
has them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, get_args

from metering import formulas
from protocol.arrays import DIGEST_BYTES
from protocol.codec import Message, encode
from protocol.envelope import Signed
from protocol.limits import (
    DEFAULT_CHUNK_BYTES,
    MAX_CLASSES,
    MAX_COLUMNS,
    MAX_LATENT_DIM,
    MAX_PARTIES,
    MAX_ROWS,
    SEED_BYTES,
)
from protocol.messages import (
    DTYPE_BYTES,
    SCALE_ARRAYS,
    ArraySpec,
    DownlinkManifest,
    Dtype,
    SealedAnchor,
    UplinkManifest,
)
from protocol.terms import ANCHORS, RowType

_ID, _DIGEST, _PARTY, _EXTENT = "0" * 32, bytes(32), "hospital-000", 1000
_CERTIFICATE_BYTES: Final = 600
"""A member's certificate has 550 to 600 bytes, its signature 70 to 72."""
_SIGNATURE_BYTES: Final = 72
_CIPHERTEXT_BYTES: Final = 1120 + SEED_BYTES + 16
"""The seed sealed with ML-KEM-768 and X25519 (docs/protocol.md, "Sealing")."""
_FEWEST_ROUNDS: Final = 10


@dataclass(frozen=True)
class Scenario:
    """The symbols of the formulas, and what the terms would choose. Valid once constructed.

    Attributes
    ----------
    parties, rows, anchor_rows, features, latent_dim : int
        c, rows of each party (n), a, m and l.
    model_parameters : int
        N.
    bits : int
        q of the formulas. Ours follows ``rep_dtype``; the model and G_i are float32 at least.
    participation : tuple of float
        Each p of federated averaging to compare with.
    rounds : int or None
        R of federated averaging; by default twice the largest R*, and at least 10.
    rep_dtype, anchor_kind, classes : str, str, int
        As in the terms. A square anchor has m rows, whatever ``anchor_rows`` says.
    """

    parties: int
    rows: int
    anchor_rows: int
    features: int
    latent_dim: int
    model_parameters: int
    bits: int = formulas.FORMULA_BITS
    participation: tuple[float, ...] = (1.0, 0.1)
    rounds: int | None = None
    rep_dtype: RowType = "f4"
    anchor_kind: str = "haar"
    classes: int = 2

    def __post_init__(self) -> None:
        _between("parties", self.parties, 1, MAX_PARTIES)
        _between("rows", self.rows, 0, MAX_ROWS)
        _between("features", self.features, 1, MAX_COLUMNS)
        _between("latent dimension", self.latent_dim, 1, min(self.features, MAX_LATENT_DIM))
        _between("anchor rows", self.anchor_rows, self.features, MAX_ROWS)
        _between("model parameters", self.model_parameters, 1, 10**15)
        _between("bits", self.bits, 1, 128)
        _between("classes", self.classes, 2, MAX_CLASSES)
        if self.rounds is not None:
            _between("rounds", self.rounds, 1, 10**9)
        if not self.participation or not all(0 < share <= 1 for share in self.participation):
            raise ValueError("participation must lie above 0 and be at most 1")
        if self.rep_dtype not in get_args(RowType):
            raise ValueError(f"number type must be one of {', '.join(get_args(RowType))}")
        if self.anchor_kind not in ANCHORS:
            raise ValueError(f"anchor must be one of {', '.join(ANCHORS)}")

    @property
    def our_anchor_rows(self) -> int:
        return self.features if ANCHORS[self.anchor_kind].is_square else self.anchor_rows


def _between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} must lie between {low} and {high}, got {value}")


def plan(scenario: Scenario) -> dict[str, Any]:
    """Return formulas (3) to (8) term by term, ours beside them, and federated averaging."""
    rows = _rows(scenario)
    formula_bytes = sum(row["formula_bytes"] for row in rows)
    ours_bytes = sum(row["ours_bytes"] for row in rows)
    compared = [_federated(scenario, share, ours_bytes) for share in scenario.participation]
    furthest = max(one["break_even_rounds"] for one in compared)
    rounds = scenario.rounds or max(_FEWEST_ROUNDS, math.ceil(2 * furthest))
    return {
        "scenario": {**asdict(scenario), "rounds": rounds},
        "terms": rows,
        "total": _row("(6)", "the whole round", formula_bytes, ours_bytes),
        "federated_averaging": [
            {**one, "rounds": rounds, "bytes": rounds * one["one_round_bytes"]} for one in compared
        ],
    }


def _rows(scenario: Scenario) -> list[dict[str, Any]]:
    """Return one line for each term of formula (6), and for what the formulas leave out."""
    c, n, latent_dim = scenario.parties, scenario.rows, scenario.latent_dim
    uplink = formulas.uplink(
        rows=n, anchor_rows=scenario.anchor_rows, latent_dim=latent_dim, bits=scenario.bits
    )
    downlink = formulas.downlink(
        latent_dim=latent_dim, model_parameters=scenario.model_parameters, bits=scenario.bits
    )
    anchor = formulas.anchor(anchor_rows=scenario.anchor_rows, features=scenario.features, bits=scenario.bits)
    rep, anchor_rep, labels, *scales, change, model = payload = _payload_bytes(scenario)
    digests = sum(DIGEST_BYTES * -(-size // DEFAULT_CHUNK_BYTES) for size in payload)
    return [
        _row("(3)", "rows X_i F_i", c * uplink.rep_bytes, c * rep),
        _row("(3)", "anchor A F_i", c * uplink.anchor_rep_bytes, c * anchor_rep),
        _row("", "labels", 0, c * labels),
        _row("", "scales of 8-bit integers", 0, c * sum(scales)),
        _row("(4)", "change of basis G_i", c * downlink.change_of_basis_bytes, c * change),
        _row("(4)", "model h", c * downlink.model_bytes, c * model),
        _row("(5)", "anchor A; ours: its seed", anchor, _anchor_bytes(scenario)),
        _row("", "signatures, seals and digests", 0, c * (digests + _signed_bytes(scenario.rep_dtype))),
    ]


def _anchor_bytes(scenario: Scenario) -> int:
    """Return the bytes of the seeds, up and down for each; of a matrix, up once and down to all others."""
    c = scenario.parties
    is_matrix = ANCHORS[scenario.anchor_kind].travels_as_matrix
    return 2 * c * SEED_BYTES + (c * 4 * scenario.anchor_rows * scenario.features if is_matrix else 0)


def _payload_bytes(scenario: Scenario) -> list[int]:
    """Return the bytes of each array of one party: of its uplink, then of its downlink."""
    latent_dim, size = scenario.latent_dim, DTYPE_BYTES[scenario.rep_dtype]
    scales = [DTYPE_BYTES["f4"] * latent_dim] * 2 if scenario.rep_dtype == "i1" else []
    change_size = max(size, DTYPE_BYTES["f4"])
    return [
        scenario.rows * latent_dim * size,
        scenario.our_anchor_rows * latent_dim * size,
        scenario.rows * (1 if scenario.classes <= 2**8 else 2),
        *scales,
        latent_dim**2 * change_size,
        scenario.model_parameters * DTYPE_BYTES["f4"],
    ]


def _signed_bytes(rep_dtype: RowType) -> int:
    """Return what is signed or sealed for one party, to within some ten bytes: numbers differ in length."""
    rep = [_array(name, rep_dtype, 2) for name in ("rep", "anchor_rep")]
    scales = [_array(name, "f4", 1) for name in SCALE_ARRAYS] if rep_dtype == "i1" else []
    bound: dict[str, Any] = {"collaboration_id": _ID, "terms_digest": _DIGEST}
    uplink = UplinkManifest(
        **bound, party=_PARTY, anchor_commitment=_DIGEST, arrays=(*rep, _array("labels", "u1", 1), *scales)
    )
    downlink = DownlinkManifest(
        **bound,
        party=_PARTY,
        uplink_digest=_DIGEST,
        arrays=(_array("change_of_basis", "f4", 2), _array("model", "u1", 1)),
        model_parameters=_EXTENT,
    )
    seal = SealedAnchor(
        **bound,
        recipient=_PARTY,
        commitment=_DIGEST,
        sealing_suite="mlkem768-x25519",
        ciphertext=bytes(_CIPHERTEXT_BYTES),
    )
    # a seal travels to the analyst and from it; its seed is counted as the anchor
    return _envelope_bytes(uplink) + _envelope_bytes(downlink) + 2 * (_envelope_bytes(seal) - SEED_BYTES)


def _array(name: str, dtype: Dtype, axes: int) -> ArraySpec:
    return ArraySpec(name=name, dtype=dtype, shape=(_EXTENT,) * axes, digest=_DIGEST)


def _envelope_bytes(message: Message) -> int:
    signed = Signed(
        kind=message.signing_label,
        payload=encode(message),
        certificate=bytes(_CERTIFICATE_BYTES),
        signature=bytes(_SIGNATURE_BYTES),
    )
    return len(encode(signed))


def _federated(scenario: Scenario, participation: float, ours_bytes: int) -> dict[str, Any]:
    """Formulas (7) and (8) for one share of parties in each round."""
    one_round = formulas.federated_averaging(
        rounds=1,
        participation=participation,
        parties=scenario.parties,
        model_parameters=scenario.model_parameters,
        bits=scenario.bits,
    )
    found = formulas.break_even_rounds(
        mean_rows=scenario.rows,
        anchor_rows=scenario.anchor_rows,
        features=scenario.features,
        latent_dim=scenario.latent_dim,
        model_parameters=scenario.model_parameters,
        participation=participation,
        parties=scenario.parties,
    )
    return {
        "participation": participation,
        "one_round_bytes": one_round,
        "break_even_terms": asdict(found),
        "break_even_rounds": found.total_rounds,
        "our_break_even_rounds": ours_bytes / one_round,
    }


def _row(formula: str, what: str, formula_bytes: float, ours_bytes: int) -> dict[str, Any]:
    return {
        "formula": formula,
        "what": what,
        "formula_bytes": formula_bytes,
        "ours_bytes": ours_bytes,
        "ratio": ours_bytes / formula_bytes if formula_bytes else None,
    }
