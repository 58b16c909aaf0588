"""The paper's communication formulas (3) to (8).

Symbols (arXiv 2403.02780, section II-C): c parties, n_i rows at party i, anchor of a rows and m
features, latent dimension l, N parameters of the model h, q bits per number, R rounds and
participation p of federated averaging. The formulas count as the paper does: no labels, no framing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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


def sums_uplink(*, features: int, outputs: int, by_class: bool = False) -> float:
    """What stands for formula (3) under sums: ``8 p (p + 1) / 2``, ``p = 1 + features + outputs``.

    Sums by class are one such triangle for each class, with ``p = 1 + features``. It does not depend on the
    number of rows, and a number modulo 2^64 has 8 bytes whatever q is.
    """
    if by_class:
        return outputs * sums_uplink(features=features, outputs=0)
    order = 1 + features + outputs
    return 8 * order * (order + 1) / 2


def downlink(*, latent_dim: int, model_parameters: float, bits: int, own_dim: int | None = None) -> Downlink:
    """Formula (4); where a party sends another number than l of each row, its G_i has l_i l entries."""
    change = latent_dim * (latent_dim if own_dim is None else own_dim)
    return Downlink(change * bits / 8, model_parameters * bits / 8)


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
    own_dims: Sequence[int] | None = None,
) -> Round:
    """Formula (6), for parties with ``rows[i]`` rows of l numbers each, or of ``own_dims[i]``."""
    dims = [latent_dim] * len(rows) if own_dims is None else own_dims
    return Round(
        tuple(
            uplink(rows=n, anchor_rows=anchor_rows, latent_dim=own, bits=bits)
            for n, own in zip(rows, dims, strict=True)
        ),
        tuple(
            downlink(latent_dim=latent_dim, model_parameters=model_parameters, bits=bits, own_dim=own)
            for own in dims
        ),
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
