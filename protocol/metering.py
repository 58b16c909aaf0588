"""The paper's communication formulas, and where the bytes that were measured went beside them.

Symbols (arXiv 2403.02780, section II-C): c parties, n_i rows at party i, anchor of a rows and m
features, latent dimension l, N parameters of the model h, q bits per number, R rounds and
participation p of federated averaging. The formulas count as the paper does: no labels, no framing.
An `Explanation` goes from a formula to the figure the kernel counted, term by term.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any, Final, Literal, Self

Kind = Literal["control", "anchor", "uplink", "downlink"]
"""What a request is for. Directions are seen from the institution: it sends up, it receives down."""
Counter = Literal["kernel", "transport"]
"""Who counted: the kernel (TCP_INFO), or the transport below TLS where the kernel does not tell."""

_KINDS: Final[dict[str, Kind]] = {
    "acceptances": "anchor",  # the lead fetches the keys in them to seal the anchor to
    "anchor": "anchor",
    "anchors": "anchor",
    "matrix": "anchor",
    "uplinks": "uplink",
    "downlink": "downlink",
}

FORMULA_BITS: Final = 32
"""The paper's q. A report shows the formulas at 32 bits whatever number type the terms chose, so that what a
shorter one saves, or a longer one costs, is seen beside them."""


@dataclass(frozen=True)
class Uplink:
    """Formula (3), per party: ``(n_i + a) l q / 8``."""

    rep_bytes: float
    anchor_rep_bytes: float

    @property
    def total_bytes(self) -> float:
        return self.rep_bytes + self.anchor_rep_bytes


@dataclass(frozen=True)
class Downlink:
    """Formula (4), per party: ``(l**2 + N) q / 8``."""

    change_of_basis_bytes: float
    model_bytes: float

    @property
    def total_bytes(self) -> float:
        return self.change_of_basis_bytes + self.model_bytes


@dataclass(frozen=True)
class Round:
    """Formula (6): all uplinks (3), all downlinks (4) and the anchor (5), which is counted once."""

    uplinks: tuple[Uplink, ...]
    downlinks: tuple[Downlink, ...]
    anchor_bytes: float

    @property
    def total_bytes(self) -> float:
        return (
            sum(part.total_bytes for part in self.uplinks)
            + sum(part.total_bytes for part in self.downlinks)
            + self.anchor_bytes
        )


@dataclass(frozen=True)
class BreakEven:
    """Formula (8): federated rounds that cost as much as one round of ours; the terms add up."""

    uplink_rounds: float
    downlink_rounds: float
    anchor_rounds: float

    @property
    def total_rounds(self) -> float:
        return self.uplink_rounds + self.downlink_rounds + self.anchor_rounds


def uplink(*, rows: int, anchor_rows: int, latent_dim: int, bits: int) -> Uplink:
    """Formula (3)."""
    return Uplink(rows * latent_dim * bits / 8, anchor_rows * latent_dim * bits / 8)


def downlink(*, latent_dim: int, model_parameters: float, bits: int) -> Downlink:
    """Formula (4)."""
    return Downlink(latent_dim**2 * bits / 8, model_parameters * bits / 8)


def anchor_predictions(*, anchor_rows: int, classes: int, bits: int) -> float:
    """What stands for formula (4) under NRI-DC: a probability of each class for each anchor row."""
    return anchor_rows * classes * bits / 8


def anchor(*, anchor_rows: int, features: int, bits: int) -> float:
    """Formula (5): ``a m q / 8``."""
    return anchor_rows * features * bits / 8


def whole_round(
    *,
    rows: Sequence[int],
    anchor_rows: int,
    features: int,
    latent_dim: int,
    model_parameters: float,
    bits: int,
) -> Round:
    """Formula (6), for parties with ``rows[i]`` rows each."""
    return Round(
        tuple(uplink(rows=n, anchor_rows=anchor_rows, latent_dim=latent_dim, bits=bits) for n in rows),
        tuple(downlink(latent_dim=latent_dim, model_parameters=model_parameters, bits=bits) for _ in rows),
        anchor(anchor_rows=anchor_rows, features=features, bits=bits),
    )


def federated_averaging(
    *, rounds: float, participation: float, parties: int, model_parameters: float, bits: int
) -> float:
    """Formula (7): ``2 R p c N q / 8``."""
    return 2 * rounds * participation * parties * model_parameters * bits / 8


def break_even_rounds(
    *,
    mean_rows: float,
    anchor_rows: int,
    features: int,
    latent_dim: int,
    model_parameters: float,
    participation: float,
    parties: int,
) -> BreakEven:
    """Formula (8), R*: the number of bits per number cancels."""
    once = 2 * participation * model_parameters
    return BreakEven(
        uplink_rounds=(mean_rows + anchor_rows) * latent_dim / once,
        downlink_rounds=(latent_dim**2 + model_parameters) / once,
        anchor_rounds=anchor_rows * features / (once * parties),
    )


def kind_of(path: str) -> tuple[Kind, str]:
    """Return what a request to ``path`` is for, and its collaboration ("" where the path names none).

    Both sides ask here, so that they attribute the same request to the same kind.
    """
    if path.startswith("/v1/uploads/"):
        return "uplink", ""
    found = re.fullmatch("/v1/collaborations/([0-9a-f]{32})(?:/([a-z]+))?", path.partition("?")[0])
    if found is None:
        return "control", ""
    return _KINDS.get(found[2] or "", "control"), found[1]


@dataclass(frozen=True)
class Flow:
    """What one side counted in one direction."""

    wire_bytes: int = 0
    """Bytes of the TCP stream, each once, TLS included."""
    retransmitted_bytes: int = 0
    """Bytes the kernel sent again. Only their sender can count them: 0 for what was received."""
    plain_bytes: int = 0
    """What went into TLS, or came out of it: HTTP."""
    body_bytes: int = 0
    """Of these, bodies of requests or answers."""
    segments: int = 0
    """TCP segments, also those without data. Each has an IP and a TCP header, which no figure here has."""

    def __add__(self, other: Flow) -> Flow:
        return Flow(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Flow) -> Flow:
        return Flow(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def measured_bytes(self) -> int:
        return self.wire_bytes + self.retransmitted_bytes


@dataclass(frozen=True)
class Counts:
    """What one side counted of one kind of request, both ways."""

    up: Flow = Flow()
    down: Flow = Flow()

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.up + other.up, self.down + other.down)

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.up - other.up, self.down - other.down)


@dataclass(frozen=True)
class Explanation:
    """Where the bytes went. Valid once constructed: the terms add up to what was measured."""

    measured_bytes: int
    formula_bytes: int = 0
    """What the paper's formula gives."""
    labels_bytes: int = 0
    """The labels, which the formulas leave out."""
    encoding_bytes: int = 0
    """Payload besides: the container of the model, padding. Negative where ours is smaller than the
    formula: a seed in the place of the anchor's matrix, shorter numbers."""
    framing_bytes: int = 0
    """Signed manifests, digests of chunks, seals: what makes the payload checkable."""
    repeated_bytes: int = 0
    """Bodies beyond one whole transfer: sent again after a broken line, or of one not complete yet."""
    http_bytes: int = 0
    """Request lines, status lines, headers."""
    tls_bytes: int = 0
    """Records of TLS."""
    retransmitted_bytes: int = 0
    """What the kernel sent again."""
    control_bytes: int = 0
    """All that is neither uplink, downlink nor anchor; `Control` takes it apart."""

    def __post_init__(self) -> None:
        if self.measured_bytes != sum(getattr(self, name) for name in TERMS):
            raise ValueError("the terms do not add up to what was measured")

    def __add__(self, other: Explanation) -> Explanation:
        return Explanation(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


TERMS: Final = tuple(field.name for field in fields(Explanation) if field.name != "measured_bytes")
"""The terms of an `Explanation`, from the formula outwards."""


@dataclass(frozen=True)
class Control:
    """Traffic that carries no array: joining, terms, status, answers, handshakes."""

    measured_bytes: int
    messages_bytes: int = 0
    """Bodies: terms, acceptances, status, receipts, problems."""
    http_bytes: int = 0
    tls_bytes: int = 0
    """Records, handshakes with their certificates, closing."""
    retransmitted_bytes: int = 0

    def __post_init__(self) -> None:
        parts = self.messages_bytes + self.http_bytes + self.tls_bytes + self.retransmitted_bytes
        if self.measured_bytes != parts:
            raise ValueError("the terms do not add up to what was measured")

    def __add__(self, other: Control) -> Control:
        return Control(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @classmethod
    def of(cls, flows: Iterable[Flow]) -> Self:
        found = sum(flows, Flow())
        return cls(
            measured_bytes=found.measured_bytes,
            messages_bytes=found.body_bytes,
            http_bytes=found.plain_bytes - found.body_bytes,
            tls_bytes=found.wire_bytes - found.plain_bytes,
            retransmitted_bytes=found.retransmitted_bytes,
        )


@dataclass(frozen=True)
class Transfer:
    """What has to be sent for one purpose when nothing goes wrong; nothing, until it is complete."""

    formula_bytes: int = 0
    """What the paper's formula gives for it."""
    payload_bytes: int = 0
    """The arrays as they are on the wire, labels included."""
    labels_bytes: int = 0
    framing_bytes: int = 0
    """What the bodies hold besides the payload."""


def explain(flow: Flow, transfer: Transfer) -> Explanation:
    """Return where the bytes of one direction went.

    A transfer that has not come through once explains nothing yet: its bytes are ``repeated_bytes``.
    """
    if flow.body_bytes < transfer.payload_bytes + transfer.framing_bytes:
        transfer = Transfer()
    return Explanation(
        measured_bytes=flow.measured_bytes,
        formula_bytes=transfer.formula_bytes,
        labels_bytes=transfer.labels_bytes,
        encoding_bytes=transfer.payload_bytes - transfer.labels_bytes - transfer.formula_bytes,
        framing_bytes=transfer.framing_bytes,
        repeated_bytes=flow.body_bytes - transfer.payload_bytes - transfer.framing_bytes,
        http_bytes=flow.plain_bytes - flow.body_bytes,
        tls_bytes=flow.wire_bytes - flow.plain_bytes,
        retransmitted_bytes=flow.retransmitted_bytes,
    )


@dataclass(frozen=True)
class PartyExplanation:
    """One party's round. What goes against the main direction of a transfer is control."""

    party: str
    uplink: Explanation
    """Sent, beside formula (3)."""
    downlink: Explanation
    """Received, beside formula (4)."""
    anchor: Explanation
    """Both ways, beside formula (5), which the paper counts once: here at the lead. The wire carries it
    up once for each member, and down to each."""
    control: Control
    membership: Control
    """Joining and listing collaborations: before any is named, so it stands in the report of each."""

    @property
    def total(self) -> Explanation:
        control = self.control.measured_bytes + self.membership.measured_bytes
        return (
            self.uplink
            + self.downlink
            + self.anchor
            + Explanation(measured_bytes=control, control_bytes=control)
        )


def explain_party(
    party: str,
    counted: Mapping[Kind, Counts],
    membership: Counts,
    *,
    uplink: Transfer,
    downlink: Transfer,
    anchor: Transfer,
) -> PartyExplanation:
    """Return where the bytes of one party's round went.

    Parameters
    ----------
    counted : mapping
        By kind, for this collaboration.
    membership : Counts
        Of requests that name no collaboration.
    """
    kinds: tuple[Kind, ...] = ("uplink", "downlink", "anchor", "control")
    up, down, sealed, rest = (counted.get(kind, Counts()) for kind in kinds)
    return PartyExplanation(
        party=party,
        uplink=explain(up.up, uplink),
        downlink=explain(down.down, downlink),
        anchor=explain(sealed.up + sealed.down, anchor),
        control=Control.of((up.down, down.up, rest.up, rest.down)),
        membership=Control.of((membership.up, membership.down)),
    )


@dataclass(frozen=True)
class RoundExplanation:
    """A round beside formula (6), by party and in all."""

    parties: tuple[PartyExplanation, ...]
    counter: Counter

    @property
    def total(self) -> Explanation:
        return sum((party.total for party in self.parties), Explanation(measured_bytes=0))


def as_json(explained: RoundExplanation) -> dict[str, Any]:
    """Return the explanation as the report shows it: every part, and the totals."""
    return {
        "counter": explained.counter,
        "parties": [{**asdict(party), "total": asdict(party.total)} for party in explained.parties],
        "total": asdict(explained.total),
    }


WORDS: Final = {
    "formula_bytes": "the paper's formula",
    "labels_bytes": "labels",
    "encoding_bytes": "encoding (seed, container, shorter numbers)",
    "framing_bytes": "signatures and digests",
    "repeated_bytes": "sent again after a broken line",
    "http_bytes": "HTTP heads",
    "tls_bytes": "TLS",
    "retransmitted_bytes": "sent again by TCP",
    "control_bytes": "control (joining, terms, status)",
}
"""The terms of an `Explanation` for people."""


def in_words(explained: Explanation) -> list[str]:
    """Return one line for each term that is not zero, and the sum."""
    rows = [(words, getattr(explained, name)) for name, words in WORDS.items()]
    shown = [(words, value) for words, value in rows if value]
    width = max(map(len, WORDS.values()))
    return [
        f"{words:<{width}} {value:>15,}" for words, value in (*shown, ("measured", explained.measured_bytes))
    ]
