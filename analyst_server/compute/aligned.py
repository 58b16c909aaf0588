"""What comes of an alignment: every G_i, how well the parties agree, and whom it suspects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from analyst_server.blobs import StoredArray
from protocol.messages import Dtype
from protocol.terms import Terms


@dataclass(frozen=True)
class Agreement:
    """How well the parties agree on the anchor, each figure by party: see `alignment.Diagnostics`.

    A copy of that, because loading the room of alignment takes the server as long as its own libraries.
    """

    concordance_gap: float
    party_gaps: Mapping[str, float]
    spectrum_spread: Mapping[str, float]
    singular_values: Mapping[str, tuple[float, float]]
    spectra: Mapping[str, tuple[float, ...]]
    span_angles: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class SuspectedParty:
    """A party, the assumption it seems to break, what was measured, and how many rows it sent."""

    party: str
    assumption: str
    evidence: str
    rows: int


@dataclass(frozen=True)
class AlignedRound:
    """What came of the alignment; ``changes_of_basis`` is (c, L, l) in the order of the parties.

    L is the largest l_i. Behind the l_i rows of a party are zeros.
    """

    method: str
    """The one in the terms, or the chosen one."""
    changes_of_basis: StoredArray
    agreement: Agreement
    suspicions: tuple[SuspectedParty, ...]
    left_out: tuple[str, ...]
    """Parties whose rows do not train the model."""
    trusted: int
    """How many parties shaped the target."""
    target: StoredArray | None
    """The target Z, (a, l), if it is kept: every ``A_i @ G_i`` approximates it."""
    compared: Mapping[str, StoredArray] = field(default_factory=dict)
    """The changes of basis of every method that was compared, in the order of the terms."""
    choice: Mapping[str, Any] | None = None
    """How the method was chosen, as `TrainedModel.choice`; None if the terms name one."""


def change_dtype(terms: Terms) -> Dtype:
    """Return the precision of the uplink, but at least single: all rows pass through G_i, which is small."""
    return "f8" if terms.rep_dtype == "f8" else "f4"
