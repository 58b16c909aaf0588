"""What the analyst links by lengths and angles alone: a few rows that it knows, a patient of two hospitals.

A projection that is merely turned keeps the inner products of what it does not cut off; no key and no anchor
is needed for that.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from user_client.privacy.grid import Matrix64
from user_client.privacy.held import Indices, Labels, Uplink

SEEDS: Final = 2000
"""Pairs of sent rows from which the search for known rows begins."""
MOST_ALIKE: Final = 0.999
"""No pair of directions is trusted more than this correlation."""


def locate(
    known: Matrix64, known_labels: Labels, uplink: Uplink, *, projector: Matrix64 | None = None
) -> Indices:
    """Return which sent row each known row is, (k,), by lengths and angles alone; nothing else is needed.

    A projection that is merely turned keeps the inner products of what it does not cut off. The search
    begins with the best pairs of sent rows for the first two known ones, adds the others one by one, and
    exchanges single rows as long as that helps.

    Parameters
    ----------
    known : (k, m) ndarray
        Encoded rows of the member, in any order.
    projector : (m, m) ndarray, optional
        An estimate of ``F F.T``, for example from public rows.
    """
    seen = known if projector is None else known @ projector
    noise = float(np.trace(uplink.noise))
    products = uplink.rep @ uplink.rep.T
    products[np.diag_indices_from(products)] -= noise
    wanted = seen @ seen.T
    fits = (np.diag(products)[None, :] - np.diag(wanted)[:, None]) ** 2
    fits[known_labels[:, None] != uplink.labels[None, :]] = np.inf
    if len(known) == 1:
        return np.asarray(fits.argmin(axis=1))
    chosen = _seeded(fits, products, wanted)
    for other in range(2, len(known)):
        cost = fits[other] + 2 * _misfit(products, wanted, chosen, other)
        _bar_taken(cost, chosen)
        chosen = np.hstack([chosen, cost.argmin(axis=1)[:, None]])
    chosen = _exchanged(fits, products, wanted, chosen)
    return np.asarray(chosen[_total(fits, products, wanted, chosen).argmin()])


def find_duplicates(first: Uplink, second: Uplink) -> Indices:
    """Return for each row of the first uplink the row of the second that is most likely the same patient.

    ``A_1.T A_2 = F_1.T F_2``. Its singular vectors pair directions of the two bases, and its singular values
    are the cosines between them. These, and the share of the noise, are taken for the correlations of what
    both see of one patient; rows are compared by the likelihood ratio of being one patient or two.
    """
    left, cosines, right = np.linalg.svd(first.anchor_rep.T @ second.anchor_rep)
    ours, theirs = _standardised(first.rep @ left, second.rep @ right.T)
    kept = np.sqrt(_signal_share(first, left) * _signal_share(second, right.T))
    alike = np.minimum(cosines.clip(0, 1) * kept, MOST_ALIKE)
    weights = alike / (1 - alike**2)
    likelihood = (ours * weights) @ theirs.T - (theirs**2 @ (alike * weights)) / 2
    return np.asarray(likelihood.argmax(axis=1))


def _seeded(fits: Matrix64, products: Matrix64, wanted: Matrix64) -> Indices:
    """Return the best pairs of sent rows for the first two known rows, (s, 2)."""
    costs = fits[0][:, None] + fits[1][None, :] + 2 * (products - wanted[0, 1]) ** 2
    np.fill_diagonal(costs, np.inf)
    count = min(SEEDS, costs.size)
    best = np.argpartition(costs, count - 1, axis=None)[:count]
    return np.stack(np.unravel_index(best, costs.shape), axis=1)


def _misfit(products: Matrix64, wanted: Matrix64, chosen: Indices, other: int) -> Matrix64:
    """Return how far each sent row is from a known row's products with those chosen so far, (s, n)."""
    cost = np.zeros((len(chosen), len(products)))
    for place in range(chosen.shape[1]):
        if place != other:
            cost += (products[chosen[:, place]] - wanted[other, place]) ** 2
    return cost


def _bar_taken(cost: Matrix64, chosen: Indices) -> None:
    for place in range(chosen.shape[1]):
        cost[np.arange(len(chosen)), chosen[:, place]] = np.inf


def _exchanged(
    fits: Matrix64, products: Matrix64, wanted: Matrix64, chosen: Indices, rounds: int = 3
) -> Indices:
    best = np.argsort(_total(fits, products, wanted, chosen))[: SEEDS // 10]
    chosen = chosen[best].copy()
    for _ in range(rounds):
        for other in range(len(wanted)):
            cost = fits[other] + 2 * _misfit(products, wanted, chosen, other)
            _bar_taken(cost, np.delete(chosen, other, axis=1))
            chosen[:, other] = cost.argmin(axis=1)
    return chosen


def _total(fits: Matrix64, products: Matrix64, wanted: Matrix64, chosen: Indices) -> Matrix64:
    own = fits[np.arange(len(wanted)), chosen].sum(axis=1)
    pairs = (products[chosen[:, :, None], chosen[:, None, :]] - wanted) ** 2
    off_diagonal = ~np.eye(len(wanted), dtype=bool)
    return np.asarray(own + pairs[:, off_diagonal].sum(axis=1))


def _standardised(ours: Matrix64, theirs: Matrix64) -> tuple[Matrix64, Matrix64]:
    """Return both with one centre and one scale: two of them would differ by what the samples differ."""
    centre = (ours.mean(axis=0) + theirs.mean(axis=0)) / 2
    ours, theirs = ours - centre, theirs - centre
    scale = np.sqrt((np.mean(ours**2, axis=0) + np.mean(theirs**2, axis=0)) / 2)
    return ours / np.maximum(scale, 1e-12), theirs / np.maximum(scale, 1e-12)


def _signal_share(uplink: Uplink, directions: Matrix64) -> Matrix64:
    """Return which share of the variance along each direction is no noise."""
    noise = np.einsum("ik,ij,jk->k", directions, uplink.noise, directions)
    variance = np.maximum((uplink.rep @ directions).var(axis=0), 1e-12)
    return np.asarray((1 - noise / variance).clip(0, 1))
