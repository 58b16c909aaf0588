"""What a round would cost, before anybody sends a byte: by the paper's formulas and in our messages.

Formulas (3) to (8) are those of `metering.formulas`. "Ours" is what this protocol puts into the bodies of
its messages for the same work: arrays in the number type of the terms, labels, a seed for the anchor, digests
and signed manifests. HTTP, TLS and control traffic cannot be planned: the report of a collaboration has
their measured bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypedDict, get_args

from metering import formulas
from protocol.anchor_terms import ANCHORS
from protocol.arrays import DIGEST_BYTES
from protocol.codec import Message, encode
from protocol.envelope import Signed
from protocol.limits import (
    DEFAULT_CHUNK_BYTES,
    MAX_CLASSES,
    MAX_COLUMNS,
    MAX_LATENT_DIM,
    MAX_PARTIES,
    MAX_RANDOM_FEATURES,
    MAX_ROWS,
    MAX_SUMS_NUMBERS,
    MAX_SUMS_PARTIES,
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
from protocol.sums import FEWEST_PARTIES, entries_of
from protocol.terms import RowType

_ID, _DIGEST, _PARTY, _EXTENT = "0" * 32, bytes(32), "hospital-000", 1000
_CERTIFICATE_BYTES: Final = 600
"""A member's certificate has 550 to 600 bytes, its signature 70 to 72."""
_SIGNATURE_BYTES: Final = 72
_CIPHERTEXT_BYTES: Final = 1120 + SEED_BYTES + 16
"""The seed sealed with ML-KEM-768 and X25519 (docs/protocol.md, "Sealing")."""
_FEWEST_ROUNDS: Final = 10
PARTICIPATION: Final = (1.0, 0.1)
"""The shares of parties that federated averaging is compared at by default."""


@dataclass(frozen=True)
class Scenario:
    """The symbols of the formulas, and the choices of the terms. Valid once constructed.

    Attributes
    ----------
    parties, rows, anchor_rows, features, latent_dim : int
        c, rows of each party (n), a, m and l.
    model_parameters : int
        N.
    bits : int
        q of the formulas. Our arrays follow ``rep_dtype``; the model and G_i are float32 at least.
    participation : tuple of float
        Each p of federated averaging to compare with.
    rounds : int or None
        R of federated averaging; by default twice the largest R*, but at least 10.
    rep_dtype, anchor_kind, classes : str, str, int
        As in the terms. A square anchor has m rows, whatever ``anchor_rows`` is.
    label_bytes : int
        Of the label of a row; 0 for as many as the number of classes asks for.
    """

    parties: int
    rows: int
    anchor_rows: int
    features: int
    latent_dim: int
    model_parameters: int
    bits: int = formulas.FORMULA_BITS
    participation: tuple[float, ...] = PARTICIPATION
    rounds: int | None = None
    rep_dtype: RowType = "f4"
    anchor_kind: str = "haar"
    classes: int = 2
    label_bytes: int = 0

    def __post_init__(self) -> None:
        _between("parties", self.parties, 1, MAX_PARTIES)
        _between("rows", self.rows, 0, MAX_ROWS)
        _between("features", self.features, 1, MAX_COLUMNS)
        _between("latent dimension", self.latent_dim, 1, min(self.features, MAX_LATENT_DIM))
        _between("anchor rows", self.anchor_rows, self.features, MAX_ROWS)
        _between("model parameters", self.model_parameters, 1, 10**15)
        _between("classes", self.classes, 2, MAX_CLASSES)
        _check_comparison(self)
        if self.rep_dtype not in get_args(RowType):
            raise ValueError(f"number type must be one of {', '.join(get_args(RowType))}")
        if self.anchor_kind not in ANCHORS:
            raise ValueError(f"anchor must be one of {', '.join(ANCHORS)}")

    @property
    def bytes_of_labels(self) -> int:
        """Return the bytes of the labels of one party."""
        return self.rows * (self.label_bytes or (1 if self.classes <= 2**8 else 2))

    @property
    def our_anchor_rows(self) -> int:
        """Return the rows that the anchor has in our messages."""
        return self.features if ANCHORS[self.anchor_kind].is_square else self.anchor_rows


@dataclass(frozen=True)
class SumsScenario:
    """The symbols of the formulas for a round of sums, which depend on no rows. Valid once constructed.

    Attributes
    ----------
    parties, features, random_features : int
        c, m and D.
    outputs : int
        k: the number of classes, or 1 for a number.
    cohort : bool
        Whether each institution gets the total.
    by_class : bool
        Whether the rows of each class are summed by themselves, for a quadratic discriminant.
    federated_parameters : int or None
        N of the model that federated averaging would train; by default that of ours.
    bits, participation, rounds
        As in `Scenario`; our sums take 64 bits, whatever q is.
    """

    parties: int
    features: int
    random_features: int = 0
    outputs: int = 2
    cohort: bool = False
    by_class: bool = False
    federated_parameters: int | None = None
    bits: int = formulas.FORMULA_BITS
    participation: tuple[float, ...] = PARTICIPATION
    rounds: int | None = None

    def __post_init__(self) -> None:
        _between("parties", self.parties, FEWEST_PARTIES, MAX_SUMS_PARTIES)
        _between("features", self.features, 1, MAX_COLUMNS)
        _between("random features", self.random_features, 0, MAX_RANDOM_FEATURES)
        _between("latent dimension", self.latent_dim, 1, MAX_LATENT_DIM)
        _between("classes", self.outputs, 1, MAX_CLASSES)
        if self.by_class and (self.outputs < 2 or self.cohort):
            raise ValueError("sums by class are for classes, and go without cohort")
        if self.by_class:
            _between("numbers of sums by class", self.sent_numbers, 1, MAX_SUMS_NUMBERS)
        _between("model parameters", self.compared_parameters, 1, 10**15)
        _check_comparison(self)

    @property
    def latent_dim(self) -> int:
        """Return the features that are summed, d."""
        return self.features + self.random_features

    @property
    def order(self) -> int:
        """Return p: by class the label is not among the numbers of a row."""
        return 1 + self.latent_dim + (0 if self.by_class else self.outputs)

    @property
    def sent_numbers(self) -> int:
        """Return how many numbers an institution sends."""
        return (self.outputs if self.by_class else 1) * entries_of(self.order)

    @property
    def model_parameters(self) -> int:
        """Return N of our model: two classes have one logit, each class by itself a square matrix."""
        if self.by_class:
            return self.outputs * (self.latent_dim**2 + self.latent_dim + 1)
        return (self.latent_dim + 1) * (1 if self.outputs <= 2 else self.outputs)

    @property
    def compared_parameters(self) -> int:
        """Return N of the model that federated averaging would train."""
        return self.model_parameters if self.federated_parameters is None else self.federated_parameters


def _check_comparison(scenario: Scenario | SumsScenario) -> None:
    """Raise `ValueError` if it cannot be compared with federated averaging."""
    _between("bits", scenario.bits, 1, 128)
    if scenario.rounds is not None:
        _between("rounds", scenario.rounds, 1, 10**9)
    if not scenario.participation or not all(0 < share <= 1 for share in scenario.participation):
        raise ValueError("participation must lie above 0 and be at most 1")


def _between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} must lie between {low} and {high}, got {value}")


@dataclass(frozen=True)
class Comparison:
    """The bytes of something by the formulas, and ours."""

    formula: str
    """The number of the formula, or what stands for it."""
    what: str
    formula_bytes: float
    ours_bytes: int
    ratio: float | None
    """Ours over the formula; None where the formula has nothing."""


@dataclass(frozen=True)
class FederatedAveraging:
    """Formulas (7) and (8) for one participation."""

    participation: float
    one_round_bytes: float
    break_even_terms: formulas.BreakEven
    break_even_rounds: float
    """R*: rounds that cost as much as formula (6)."""
    our_break_even_rounds: float
    """Rounds that cost as much as our round."""
    rounds: int
    bytes: float
    """Of all ``rounds``."""


@dataclass(frozen=True)
class Plan:
    """What a round would cost, and federated averaging instead."""

    scenario: Scenario | SumsScenario
    rounds: int
    """Of federated averaging, as the scenario chose or by default."""
    terms: tuple[Comparison, ...]
    """Each term of formula (6), and what the formulas leave out."""
    total: Comparison
    federated_averaging: tuple[FederatedAveraging, ...]
    """One for each participation of the scenario."""
    disk_bytes: int
    """Of the arrays that the analyst keeps until the collaboration is closed, without its records."""

    def as_json(self) -> dict[str, object]:
        """Return the plan as ``--json`` shows it: the rounds stand in the scenario."""
        found = asdict(self)
        rounds = found.pop("rounds")
        return {**found, "scenario": {**found["scenario"], "rounds": rounds}}


def plan(scenario: Scenario) -> Plan:
    """Return formulas (3) to (8) term by term, our bytes beside them, and federated averaging."""
    found = [_break_even(scenario, share) for share in scenario.participation]
    *of_party, model = _payload_bytes(scenario)
    disk_bytes = scenario.parties * sum(of_party) + model
    return put_together(scenario, _terms(scenario), found, scenario.model_parameters, disk_bytes)


def put_together(
    scenario: Scenario | SumsScenario,
    terms: Sequence[Comparison],
    found: Sequence[formulas.BreakEven],
    model_parameters: int,
    disk_bytes: int,
) -> Plan:
    """Return the plan with these terms, and with R* for each participation of the scenario.

    ``model_parameters`` are N of federated averaging, ``disk_bytes`` what the analyst keeps.
    """
    total = compare(
        "(6)",
        "the whole round",
        sum(row.formula_bytes for row in terms),
        sum(row.ours_bytes for row in terms),
    )
    furthest = max(one.total_rounds for one in found)
    rounds = scenario.rounds or max(_FEWEST_ROUNDS, math.ceil(2 * furthest))
    return Plan(
        scenario=scenario,
        rounds=rounds,
        terms=tuple(terms),
        total=total,
        federated_averaging=tuple(
            _federated(scenario, share, rounds, one, total.ours_bytes, model_parameters)
            for share, one in zip(scenario.participation, found, strict=True)
        ),
        disk_bytes=disk_bytes,
    )


def compare(formula: str, what: str, formula_bytes: float, ours_bytes: int) -> Comparison:
    """Return a comparison with its ratio."""
    ratio = ours_bytes / formula_bytes if formula_bytes else None
    return Comparison(formula, what, formula_bytes, ours_bytes, ratio)


def _terms(scenario: Scenario) -> tuple[Comparison, ...]:
    """Return one line for each term of formula (6), and for each part that the formulas leave out."""
    c, n, latent_dim = scenario.parties, scenario.rows, scenario.latent_dim
    uplink = formulas.uplink(
        rows=n, anchor_rows=scenario.anchor_rows, latent_dim=latent_dim, bits=scenario.bits
    )
    downlink = formulas.downlink(
        latent_dim=latent_dim, model_parameters=scenario.model_parameters, bits=scenario.bits
    )
    anchor = formulas.anchor(anchor_rows=scenario.anchor_rows, features=scenario.features, bits=scenario.bits)
    rep, anchor_rep, labels, *scales, change, model = payload = _payload_bytes(scenario)
    digests = digest_bytes(payload)
    return (
        compare("(3)", "rows X_i F_i", c * uplink.rep_bytes, c * rep),
        compare("(3)", "anchor A F_i", c * uplink.anchor_rep_bytes, c * anchor_rep),
        compare("", "labels", 0, c * labels),
        compare("", "scales of 8-bit integers", 0, c * sum(scales)),
        compare("(4)", "change of basis G_i", c * downlink.change_of_basis_bytes, c * change),
        compare("(4)", "model h", c * downlink.model_bytes, c * model),
        compare("(5)", "anchor A; ours: its seed", anchor, _anchor_bytes(scenario)),
        compare("", "signatures, seals and digests", 0, c * (digests + _signed_bytes(scenario.rep_dtype))),
    )


def digest_bytes(payload: Sequence[int]) -> int:
    """Return the bytes of the digests of all chunks of arrays of these sizes."""
    return sum(DIGEST_BYTES * -(-size // DEFAULT_CHUNK_BYTES) for size in payload)


def _anchor_bytes(scenario: Scenario) -> int:
    """Return the bytes of an anchor.

    Every seed goes up and down; the matrix of a public anchor goes up once and down to the others.
    """
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
        scenario.bytes_of_labels,
        *scales,
        latent_dim**2 * change_size,
        scenario.model_parameters * DTYPE_BYTES["f4"],
    ]


class _Bound(TypedDict):
    """What binds a message to its collaboration."""

    collaboration_id: str
    terms_digest: bytes


def _signed_bytes(rep_dtype: RowType) -> int:
    """Return the bytes that are signed or sealed for one party."""
    rep = [manifest_line(name, rep_dtype, 2) for name in ("rep", "anchor_rep")]
    scales = [manifest_line(name, "f4", 1) for name in SCALE_ARRAYS] if rep_dtype == "i1" else []
    return signed_bytes(
        (*rep, manifest_line("labels", "u1", 1), *scales),
        (manifest_line("change_of_basis", "f4", 2), manifest_line("model", "u1", 1)),
    )


def signed_bytes(
    sent: tuple[ArraySpec, ...], returned: tuple[ArraySpec, ...], mask_keys: tuple[bytes, ...] = ()
) -> int:
    """Return the bytes that are signed or sealed for one party, by the arrays of its uplink and downlink.

    Exact to within some ten bytes, as encoded numbers differ in length.
    """
    bound: _Bound = {"collaboration_id": _ID, "terms_digest": _DIGEST}
    uplink = UplinkManifest(**bound, party=_PARTY, anchor_commitment=_DIGEST, arrays=sent)
    downlink = DownlinkManifest(
        **bound, party=_PARTY, uplink_digest=_DIGEST, arrays=returned, model_parameters=_EXTENT
    )
    seal = SealedAnchor(
        **bound,
        recipient=_PARTY,
        commitment=_DIGEST,
        sealing_suite="mlkem768-x25519",
        ciphertext=bytes(_CIPHERTEXT_BYTES),
        mask_keys=mask_keys,
    )
    # a seal travels to the analyst and from it; its seed is counted as the anchor
    return _envelope_bytes(uplink) + _envelope_bytes(downlink) + 2 * (_envelope_bytes(seal) - SEED_BYTES)


def manifest_line(name: str, dtype: Dtype, axes: int) -> ArraySpec:
    """Return an array's line of a manifest, about as long as any."""
    return ArraySpec(name=name, dtype=dtype, shape=(_EXTENT,) * axes, digest=_DIGEST)


def _envelope_bytes(message: Message) -> int:
    signed = Signed(
        kind=message.signing_label,
        payload=encode(message),
        certificate=bytes(_CERTIFICATE_BYTES),
        signature=bytes(_SIGNATURE_BYTES),
    )
    return len(encode(signed))


def _break_even(scenario: Scenario, participation: float) -> formulas.BreakEven:
    return formulas.break_even_rounds(
        mean_rows=scenario.rows,
        anchor_rows=scenario.anchor_rows,
        features=scenario.features,
        latent_dim=scenario.latent_dim,
        model_parameters=scenario.model_parameters,
        participation=participation,
        parties=scenario.parties,
    )


def _federated(
    scenario: Scenario | SumsScenario,
    participation: float,
    rounds: int,
    found: formulas.BreakEven,
    ours_bytes: int,
    model_parameters: int,
) -> FederatedAveraging:
    one_round_bytes = formulas.federated_averaging(
        rounds=1,
        participation=participation,
        parties=scenario.parties,
        model_parameters=model_parameters,
        bits=scenario.bits,
    )
    return FederatedAveraging(
        participation=participation,
        one_round_bytes=one_round_bytes,
        break_even_terms=found,
        break_even_rounds=found.total_rounds,
        our_break_even_rounds=ours_bytes / one_round_bytes,
        rounds=rounds,
        bytes=rounds * one_round_bytes,
    )
