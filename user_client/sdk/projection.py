"""Project a party's rows, and measure each block while it is in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from protocol.arrays import largest_of
from user_client.custody.scratch import Scratch
from user_client.privacy.reduction import ReductionRisk, Shares, hidden_shares
from user_client.rows import Rows
from user_client.secret.expansion import Matrix64


@dataclass(frozen=True, repr=False)
class Projection:
    """X~_i before it is rounded, and what was measured while it was made.

    Attributes
    ----------
    rep : (n, l) Rows
        With its dither.
    largest : (l,) ndarray of float64
        The largest magnitude in each column.
    hidden, hidden_with_dither : ReductionRisk, optional
        What it drops of each row, without the dither and with it; None where there is none to tell.
    """

    rep: Rows
    largest: Matrix64
    hidden: ReductionRisk | None = None
    hidden_with_dither: ReductionRisk | None = None

    @classmethod
    def of_no_row(cls, latent_dim: int) -> Projection:
        return cls(Rows([], latent_dim), np.zeros(latent_dim))


def project(
    rows: Rows,
    basis: Matrix64,
    scratch: Scratch,
    dither: Callable[[Matrix64], Matrix64] | None,
    *,
    is_orthonormal: bool,
) -> Projection:
    """Project rows, in the same blocks; each block is read once.

    Parameters
    ----------
    rows : (n, m) Rows
    basis : (m, l) ndarray of float64
    dither : callable, optional
        Returns projected rows, (k, l), with noise, for one block after the other.
    is_orthonormal : bool
        Whether the basis is, so that what it drops of a row can be told.
    """

    def of_block(block: Matrix64) -> tuple[Matrix64, Matrix64, Matrix64]:
        projected = block @ basis
        return block, projected, projected if dither is None else dither(projected)

    largest, kept = np.zeros(basis.shape[1]), []
    hidden, with_dither = Shares(len(rows)), Shares(len(rows))
    for block, projected, rep in rows.mapped(of_block):
        largest = np.maximum(largest, largest_of(rep))
        if is_orthonormal:
            told = [projected] if dither is None else [projected, rep]
            for found, shares in zip(
                (hidden, with_dither), hidden_shares(block, projected, told, basis), strict=False
            ):
                found.add(shares)
        kept.append(scratch.keep_one(rep))
    return Projection(Rows(kept, basis.shape[1]), largest, hidden.risk(), with_dither.risk())
