"""Where the measured bytes went: from the paper's formula to the kernel's count, term by term."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from typing import Final, Self, cast

from metering import formulas
from metering.counts import Counter, Counts, Flow
from metering.formulas import FORMULA_BITS
from protocol.anchor_matrix import sealed_matrix_bytes
from protocol.answers import Answer
from protocol.arrays import Layout
from protocol.limits import SEED_BYTES
from protocol.messages import DownlinkManifest, UplinkManifest
from protocol.operations import Kind
from protocol.sums import is_by_class
from protocol.terms import Terms


@dataclass(frozen=True)
class Explanation:
    """Where the bytes went. Valid once constructed: the terms add up to what was measured."""

    measured_bytes: int
    formula_bytes: int = 0
    """What the paper's formula gives."""
    labels_bytes: int = 0
    """The labels, and the hashes of joined rows, which the formulas leave out."""
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


_SEAL_AT_MOST_BYTES: Final = 4096
"""A sealed anchor or an acceptance, signed: 2 to 3 kB."""


def uplink_transfer(terms: Terms, manifest: UplinkManifest, signed: bytes) -> Transfer:
    """Formula (3) or that of sums, and what goes with it: the signed manifest, the digests of the chunks."""
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    return Transfer(
        formula_bytes=int(uplink_formula_bytes(terms, manifest)),
        payload_bytes=layout.payload_bytes,
        labels_bytes=0 if manifest.has_sums else _beside_formula_bytes(manifest),
        framing_bytes=len(signed) + layout.stream_bytes - layout.payload_bytes,
    )


def _beside_formula_bytes(manifest: UplinkManifest) -> int:
    keys = manifest.row_keys
    return manifest.labels.payload_bytes + (keys.payload_bytes if keys else 0)


def uplink_formula_bytes(terms: Terms, manifest: UplinkManifest) -> float:
    """Formula (3), or what stands for it under these terms."""
    if terms.sums is not None:
        return _formula_of_sums(terms)
    rows, latent_dim = manifest.rep.shape
    return formulas.uplink(
        rows=rows, anchor_rows=terms.anchor.rows, latent_dim=latent_dim, bits=FORMULA_BITS
    ).total_bytes


def _formula_of_sums(terms: Terms) -> float:
    return formulas.sums_uplink(
        features=terms.latent_dim,
        outputs=terms.table_schema.label_column.outputs,
        by_class=is_by_class(terms),
    )


def downlink_transfer(terms: Terms, manifest: DownlinkManifest, signed: bytes) -> Transfer:
    """Formula (4), and what goes with it: the signed manifest behind its length, the digests.

    Under NRI-DC the predictions for the anchor stand for formula (4).
    """
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    own_dim = manifest.change_of_basis.shape[0] if manifest.has_change_of_basis else None
    return Transfer(
        formula_bytes=int(downlink_formula_bytes(terms, manifest.model_parameters, own_dim)),
        payload_bytes=layout.payload_bytes,
        framing_bytes=4 + len(signed) + layout.stream_bytes - layout.payload_bytes,
    )


def downlink_formula_bytes(terms: Terms, model_parameters: int, own_dim: int | None = None) -> float:
    """Formula (4), or what stands for it under these terms; ``own_dim`` is l_i where it differs from l."""
    if terms.returns_anchor_predictions:
        return formulas.anchor_predictions(
            anchor_rows=terms.anchor.rows,
            classes=terms.table_schema.label_column.outputs,
            bits=FORMULA_BITS,
        )
    total = _formula_of_sums(terms) if terms.sums and terms.sums.cohort else 0
    return (
        total
        + formulas.downlink(
            latent_dim=0 if terms.sums else terms.latent_dim,
            own_dim=own_dim,
            model_parameters=model_parameters,
            bits=FORMULA_BITS,
        ).total_bytes
    )


def anchor_transfer(terms: Terms, party: str, counted: Counts) -> Transfer:
    """Formula (5) at the lead, who sends a sealed seed for each member; every member fetches its own.

    The lead keeps no copy of what it sealed for others, so framing is what the bodies hold besides the
    seeds: the seals, and the acceptances with the keys to seal to. A public anchor's matrix goes up once and
    down to each other member.
    """
    is_lead = party == terms.lead
    copies = len(terms.parties) if is_lead and counted.up.body_bytes else 0
    copies += 1 if counted.down.body_bytes else 0
    formula = formulas.anchor(
        anchor_rows=0 if terms.sums else terms.anchor.rows,
        features=terms.table_schema.width,
        bits=FORMULA_BITS,
    )
    payload_bytes, repeated_bytes = SEED_BYTES * copies, 0
    sealed_bytes = sealed_matrix_bytes(terms)
    seals_bytes = _SEAL_AT_MOST_BYTES * (len(terms.parties) if is_lead else 1)
    for flow in (counted.up, counted.down) if sealed_bytes else ():
        times = flow.body_bytes // sealed_bytes
        payload_bytes += terms.anchor_matrix_bytes * min(times, 1)
        if sealed_bytes > seals_bytes:  # of a smaller one the count cannot tell how often it was sent
            repeated_bytes += sealed_bytes * max(times - 1, 0)
    return Transfer(
        formula_bytes=int(formula) if is_lead and copies else 0,
        payload_bytes=payload_bytes,
        framing_bytes=counted.up.body_bytes + counted.down.body_bytes - payload_bytes - repeated_bytes,
    )


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


Parts = dict[str, int]
"""The terms of an `Explanation` or a `Control` by their names, and ``measured_bytes``."""


class PartyBytes(Answer):
    """A `PartyExplanation` in a report."""

    party: str
    uplink: Parts
    downlink: Parts
    anchor: Parts
    control: Parts
    membership: Parts
    total: Parts


class RoundBytes(Answer):
    """A `RoundExplanation` in a report."""

    counter: Counter
    parties: list[PartyBytes]
    total: Parts


def as_json(explained: RoundExplanation) -> RoundBytes:
    """Return the explanation as the report shows it: every part, and the totals."""
    parties = [{**asdict(party), "total": asdict(party.total)} for party in explained.parties]
    return {
        "counter": explained.counter,
        "parties": cast("list[PartyBytes]", parties),
        "total": asdict(explained.total),
    }


WORDS: Final[Mapping[str, str]] = {
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
"""The terms of an `Explanation` in words, in the order of a report."""


def in_words(explained: Explanation) -> list[str]:
    """Return one line for each term that is not zero, and the sum."""
    rows = [(words, getattr(explained, name)) for name, words in WORDS.items()]
    shown = [(words, value) for words, value in rows if value]
    width = max(map(len, WORDS.values()))
    return [
        f"{words:<{width}} {value:>15,}" for words, value in (*shown, ("measured", explained.measured_bytes))
    ]
