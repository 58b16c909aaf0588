"""Rebuild rows from a non-linear map of them, as the analyst and a member could who have the anchor.

For a linear map they know F_i from A and A_i. For any other they have as many examples as the anchor has
rows, ``A_i = f_i(A)``, from which a regression learns to go back. They can find at least what it finds here.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from user_client.privacy.reduction import ReductionRisk
from user_client.rows import Matrix64

MOST_EXAMPLES: Final = 1000
"""Anchor rows that are learnt from."""
TRIED_SHARE: Final = 0.2
"""Of them, on which the penalty and the width of the kernel are chosen."""
_WIDTHS: Final = (0.5, 1.0, 2.0, 4.0)
"""Of a Gaussian kernel, as multiples of the median distance."""
_PENALTIES: Final = (1e-6, 1e-4, 1e-2, 1e-1)


def learned_inverse_error(
    anchor: Matrix64, anchor_rep: Matrix64, rows: Matrix64, rep: Matrix64
) -> ReductionRisk | None:
    """Return quantiles of ``||x - x^|| / ||x||``, x^ being learnt from the anchor; None without rows.

    The regression is kernel ridge with a Gaussian kernel, or linear where that is better on anchor rows that
    were left out.

    Parameters
    ----------
    anchor : (a, m) ndarray of float64
    anchor_rep : (a, l) ndarray of float64
        As they leave. Not modified, as all others are not.
    rows : (n, m) ndarray of float64
    rep : (n, l) ndarray of float64
        With noise, as they leave.
    """
    lengths = np.linalg.norm(rows, axis=1)
    if not len(rows):
        return None
    found = _learned(anchor[:MOST_EXAMPLES], anchor_rep[:MOST_EXAMPLES], rep)
    lost = np.linalg.norm(rows - found, axis=1)
    shares = np.divide(lost, lengths, out=np.zeros_like(lost), where=lengths > 0)
    return ReductionRisk(*(float(np.quantile(shares, place)) for place in (0, 0.01, 0.5)))


def _learned(anchor: Matrix64, anchor_rep: Matrix64, rep: Matrix64) -> Matrix64:
    """Return what the best of several regressions makes of ``rep``, (n, m)."""
    scale = anchor_rep.std(axis=0)
    scale[scale == 0] = 1
    known, asked = anchor_rep / scale, rep / scale
    left = max(1, int(TRIED_SHARE * len(known)))
    best, chosen = np.inf, (0.0, _PENALTIES[-1])
    for width in (0.0, *_WIDTHS):
        for penalty in _PENALTIES:
            found = _fitted(known[left:], anchor[left:], known[:left], width, penalty)
            error = float(np.square(found - anchor[:left]).sum())
            if error < best:
                best, chosen = error, (width, penalty)
    return _fitted(known, anchor, asked, *chosen)


def _fitted(known: Matrix64, told: Matrix64, asked: Matrix64, width: float, penalty: float) -> Matrix64:
    """Return ridge regression of what is told on what is known, at what is asked; linear for no width."""
    mean, middle = told.mean(axis=0), known.mean(axis=0)
    if width == 0:
        centred = known - middle
        gram = centred.T @ centred
        ridge = penalty * np.trace(gram) / len(gram) * np.eye(len(gram))
        weights = np.linalg.solve(gram + ridge, centred.T @ (told - mean))
        return np.asarray((asked - middle) @ weights + mean)
    squares = _squares(known, known)
    unit = width**2 * (float(np.median(squares[squares > 0])) if squares.any() else 1.0)
    kernel = np.exp(-squares / (2 * unit)) + penalty * np.eye(len(known))
    weights = np.linalg.solve(kernel, told - mean)
    return np.asarray(np.exp(-_squares(asked, known) / (2 * unit)) @ weights + mean)


def _squares(one: Matrix64, other: Matrix64) -> Matrix64:
    lengths = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1)
    return np.asarray(np.maximum(lengths - 2 * one @ other.T, 0))
