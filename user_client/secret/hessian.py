"""Directions along which a label curves.

A value that is bad when it is high and when it is low, or only where another one is high, has a slope of
zero: no regression on the rows sees it, and one on squares and products of a few numbers does. Their
directions are the principal Hessian directions [1]_ of what the regression leaves of the label, in closed
form from sums over the rows.

References
----------
.. [1] Li, On principal Hessian directions for data visualization and dimension reduction: another application
   of Stein's lemma, Journal of the American Statistical Association 87 (1992) 1025-1039.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.secret.expansion import Matrix64

MOST_DIRECTIONS: Final = 6
SHUFFLES: Final = 5
EXCESS: Final = 1.1
"""A direction counts if the label curves so many times more along it than shuffled labels do along any."""
MOST_WORK: Final = 2e9
"""Most multiplications of one sum over the rows. Fewer rows are looked at where there would be more."""
ROWS_PER_FEATURE: Final = 2
"""With fewer rows than this for each feature, shuffled labels curve as much as any."""
LEAST_GAIN: Final = 0.02
"""Of ROC-AUC or concordance, on rows that have not chosen the directions."""
CHANCE: Final = 0.5
"""A score that says nothing is often below, because each row is left out of its own."""


def hessian_directions(
    rows: Matrix64, residuals: Matrix64, quality: Callable[[Matrix64, NDArray[np.int64]], float]
) -> Matrix64 | None:
    """Return the directions along which a label curves, if a score gains by them on other rows.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Centred. Not modified.
    residuals : (n, k) ndarray of float64
        What a regression on the rows leaves of the label.
    quality : callable
        Fits a score to features, (h, f), of the rows of some numbers, (h,), and returns how good it is on
        each row without that row.

    Returns
    -------
    (m, q) ndarray of float64, or None
        Along each, the rows have the variance 1, and no two coordinates are correlated.
    """
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(len(rows))[: int(MOST_WORK / (residuals.shape[1] * rows.shape[1] ** 2))]
    if len(shuffled) < 2 * ROWS_PER_FEATURE * rows.shape[1]:
        return None
    found = _directions(rows[shuffled], residuals[shuffled], rng)
    count = found.shape[1]
    if not count:
        return None
    gains = []
    for judged, chose in ((shuffled[::2], shuffled[1::2]), (shuffled[1::2], shuffled[::2])):
        along = _directions(rows[chose], residuals[chose], count=count)
        curved = np.hstack([rows[judged], products(rows[judged], along)])
        gains.append(quality(curved, judged) - max(quality(rows[judged], judged), CHANCE))
    return found if np.mean(gains) >= LEAST_GAIN else None


def products(rows: Matrix64, directions: Matrix64) -> Matrix64:
    """Return the squares and products of coordinates, (n, q (q + 1) / 2), in the unit of the rows."""
    coordinates = rows @ directions
    first, second = np.triu_indices(directions.shape[1])
    return np.asarray(coordinates[:, first] * coordinates[:, second] * _unit(rows))


def curved_weights(rows: Matrix64, directions: Matrix64, weights: Matrix64) -> Matrix64:
    """Return the columns along which a score of products varies, (m, q), each as much as the score does.

    The variance of x^T W W^T x is that of the products: of normal coordinates z, z^T Q z has the variance
    2 |Q|^2.

    Parameters
    ----------
    weights : (q (q + 1) / 2, k) ndarray of float64
        Of `products`, in a regression.
    """
    count = directions.shape[1]
    first, second = np.triu_indices(count)
    energies = np.zeros((count, count))
    for column in weights.T * _unit(rows):
        form = np.zeros((count, count))
        form[first, second] = column
        form = (form + form.T) / 2
        energies += 2 * form @ form
    sizes, mixes = np.linalg.eigh(energies)
    return np.asarray(directions @ (mixes * np.sqrt(sizes.clip(0))))


def _unit(rows: Matrix64) -> float:
    """Return the standard deviation of a feature, for one penalty to suit features and products."""
    return float(np.sqrt(np.square(rows).mean()))


def _directions(
    rows: Matrix64, residuals: Matrix64, rng: np.random.Generator | None = None, *, count: int = 0
) -> Matrix64:
    """Return the ``count`` directions of most curvature, or with a generator those that are no chance."""
    energies, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    real = energies > 1e-6 * energies[-1]
    whitening = vectors[:, real] / np.sqrt(energies[real])
    white = rows @ whitening
    left = residuals - residuals.mean(axis=0)
    curvatures, mixes = np.linalg.eigh(_squared_hessian(white, left))
    if rng is not None:
        by_chance = max(
            float(np.linalg.eigvalsh(_squared_hessian(white, rng.permutation(left)))[-1])
            for _ in range(SHUFFLES)
        )
        count = min(int(np.sum(curvatures > EXCESS**2 * by_chance)), MOST_DIRECTIONS)
    return np.asarray(whitening @ mixes[:, ::-1][:, :count])


def _squared_hessian(white: Matrix64, left: Matrix64) -> Matrix64:
    """Return the sum over the columns of the label of H H, with H its mean Hessian in white coordinates."""
    found = np.zeros((white.shape[1], white.shape[1]))
    for column in left.T:
        hessian = white.T @ (white * column[:, None]) / len(white)
        found += hessian @ hessian
    return found
