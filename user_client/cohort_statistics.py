"""What the total of sums tells of all rows: moments, least squares, correlations, components. Arrays only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.scores import NORMAL_95

Matrix64 = NDArray[np.float64]
_SAFE: Final = 1e2
"""Where the rows vary by so many times the most that rounding can take away, a coefficient is right to 1 % at
worst. Roundings add up to far less: to 2e-6 of a standard error where terms have room for 256 institutions of
a million rows."""
_ESTIMABLE: Final = 1e-6
"""By so much of its length a contrast may leave the directions in which the rows vary."""
_SMALL_FREEDOM: Final = 1000
"""Up to here Student's distribution is integrated; beyond, two terms of its expansion have six digits."""
_ANGLES: Final = 200_001


@dataclass(frozen=True)
class Moments:
    """Means and centred products of the numbers of all rows.

    Attributes
    ----------
    rows : int
    means : (q,) ndarray
    gram : (q, q) ndarray
        Sums over the rows of the products of the numbers, less their means.
    resolution : float
        Of the gram: below this a variance cannot be told from 0, because sums are rounded.
    """

    rows: int
    means: Matrix64
    gram: Matrix64
    resolution: float

    @classmethod
    def of(cls, total: Matrix64, turn: Matrix64, width: int, rounding: float) -> Moments:
        """Turn a total back, and take it apart.

        Parameters
        ----------
        total : (p, p) ndarray
            The sum of ``z z^T`` over all rows, ``z = (1, phi, y)`` and ``phi = turn.T @ f``.
        turn : (d, d) ndarray
        width : int
            So many features f are kept, the first; then come all numbers of y.
        rounding : float
            By how much an entry of the total may be off.
        """
        features = slice(1, 1 + len(turn))
        turned = np.array(total)
        turned[features] = turn @ turned[features]
        turned[:, features] = turned[:, features] @ turn.T
        kept = np.r_[: 1 + width, 1 + len(turn) : len(total)]
        whole = turned[np.ix_(kept, kept)]
        rows = whole[0, 0]
        means = whole[0, 1:] / rows
        lost = len(total) * (rounding + np.finfo(np.float64).eps * rows)
        return cls(round(rows), means, whole[1:, 1:] - rows * np.outer(means, means), _SAFE * lost)

    def deviations(self) -> Matrix64:
        """Return the standard deviations, (q,)."""
        squares = np.diagonal(self.gram)
        return np.asarray(np.sqrt(np.where(squares > self.resolution, squares, 0) / (self.rows - 1)))

    def correlations(self) -> Matrix64:
        """Return the correlations, (q, q); NaN for a number that is the same in all rows."""
        scale = self.deviations() * np.sqrt(self.rows - 1)
        scale[scale == 0] = np.nan
        found = (self.gram / np.outer(scale, scale)).clip(-1, 1)
        np.fill_diagonal(found, np.where(np.isnan(scale), np.nan, 1.0))
        return np.asarray(found)


def principal_components(correlations: Matrix64) -> tuple[Matrix64, Matrix64]:
    """Return the principal components of standardised numbers.

    Parameters
    ----------
    correlations : (q, q) ndarray
        A number that is the same in all rows, which has NaN, has a part in none.

    Returns
    -------
    shares : (k,) ndarray
        Of the variance, the largest first.
    directions : (k, q) ndarray
        Of length 1, the largest entry positive.
    """
    vary = ~np.isnan(np.diagonal(correlations))
    if not vary.any():
        return np.empty(0), np.empty((0, len(correlations)))
    values, vectors = np.linalg.eigh(correlations[np.ix_(vary, vary)])
    directions = np.zeros((len(values), len(correlations)))
    directions[:, vary] = vectors.T[::-1]
    largest = np.abs(directions).argmax(axis=1)
    directions *= np.sign(directions[np.arange(len(values)), largest])[:, None]
    return values[::-1].clip(0) / len(values), directions


@dataclass(frozen=True)
class LeastSquares:
    """Least squares of one number on others, with an intercept and without a penalty.

    Attributes
    ----------
    values, errors : (k,) ndarray
        The change of the number for each contrast, and its standard error; NaN where the rows do not tell it.
    quantile : float
        Half the width of a 95 % interval, in standard errors.
    r_squared, deviation : float
        Share of the variance, and standard deviation of what is left.
    freedom : int
        Degrees of freedom that are left.
    """

    values: Matrix64
    errors: Matrix64
    quantile: float
    r_squared: float
    deviation: float
    freedom: int


def least_squares(moments: Moments, contrasts: Matrix64) -> LeastSquares:
    """Return the least squares of the last number on all others: what a regression on all rows gives.

    Columns that go together exactly, such as all levels of one column with the intercept, have no
    coefficients, but differences between them do.

    Parameters
    ----------
    moments : Moments
        Of q + 1 numbers.
    contrasts : (k, q) ndarray
        Changes in the others.

    Raises
    ------
    ValueError
        If there are no more rows than coefficients, or the number is the same in all rows.
    """
    gram, cross, squares = moments.gram[:-1, :-1], moments.gram[:-1, -1], float(moments.gram[-1, -1])
    values, vectors = np.linalg.eigh(gram)
    vary = values > moments.resolution
    freedom = moments.rows - 1 - int(vary.sum())
    if freedom < 1:
        raise ValueError(f"{moments.rows} rows are too few for {int(vary.sum()) + 1} coefficients")
    if squares <= moments.resolution:
        raise ValueError("the number is the same in all rows, as far as sums have digits under these terms")
    along = contrasts @ vectors[:, vary]
    left = np.linalg.norm(contrasts @ vectors[:, ~vary], axis=1)
    told = left <= _ESTIMABLE * np.linalg.norm(contrasts, axis=1)
    turned = vectors[:, vary].T @ cross
    residual = max(squares - float(np.sum(turned**2 / values[vary])), 0.0)
    errors = np.sqrt(np.sum(along**2 / values[vary], axis=1) * residual / freedom)
    return LeastSquares(
        np.where(told, along @ (turned / values[vary]), np.nan),
        np.where(told, errors, np.nan),
        student_95(freedom),
        1 - residual / squares,
        float(np.sqrt(residual / freedom)),
        freedom,
    )


def student_95(freedom: int) -> float:
    """Return the number within which 95 % of Student's distribution lie, on either side of 0."""
    if freedom > _SMALL_FREEDOM:
        return NORMAL_95 + (NORMAL_95**3 + NORMAL_95) / (4 * freedom)
    angles = np.linspace(0, np.pi / 2, _ANGLES)  # with t = sqrt(freedom) tan(angle)
    density = np.cos(angles) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return float(np.sqrt(freedom) * np.tan(np.interp(0.95 * mass[-1], mass, angles)))
