"""Wasserstein-Procrustes: what the analyst recognises with public rows of the same population, without a key.

``X~_i A_i.T``, from what is sent, puts the rows of all members in one frame, in which they differ from the
encoded rows by a projection and by one unknown rotation (a Haar anchor is orthogonal). Moments of public rows
with labels reveal that rotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.privacy.components import can_search, find_splits, name_splits, shares_by_class, two_valued
from user_client.privacy.grid import Matrix64
from user_client.privacy.held import Indices, Labels, Uplink, leading_axes, polar, squared_distances

WARPS: Final = (0.0, 0.5)
"""Powers of the covariance by which the axes are shrunk before moments are matched."""
OTHER_STARTS: Final = 10
"""Random ones beside that of the moments and that of the named features."""
REFINED: Final = 3
"""Starts with the best moments that are refined by transport; the cheapest transport decides."""
ASCENT_STEPS: Final = 200
TEMPERATURES: Final = (0.3, 0.1, 0.05)
TRANSPORT_STEPS: Final = 15
SCALINGS: Final = 20
MOST_ROWS: Final = 800
"""Of each class and side, while rows are transported."""
PUBLIC_FEWEST: Final = 0.02
"""Named features with a rarer value do not help."""


@dataclass(frozen=True, repr=False)
class Rotation:
    """A map from encoded rows to what the analyst has of them.

    Attributes
    ----------
    to_frame : (m, m) ndarray
        Of rank r: the estimated ``V V.T A.T`` for r leading axes V of the population.
    cost : float
        Of the transport of the public rows to those that were sent.
    """

    to_frame: Matrix64
    cost: float

    def rep_of(self, rows: Matrix64, uplink: Uplink) -> Matrix64:
        """Return what the member would have sent of these rows."""
        return np.asarray(rows @ self.to_frame @ uplink.anchor_rep)


def match_population(
    uplinks: Sequence[Uplink], public: Matrix64, public_labels: Labels, *, rng: np.random.Generator
) -> Rotation:
    """Return the rotation under which public rows look most like the rows that were sent.

    A first start comes from vectors that turn with the rows: class means, these times class covariances, and
    third moments; they have no sign to guess. A second one comes from the 0/1 features that `find_splits`
    finds and `name_splits` names. From there ``tr(R.T T_k R S_k)``, the agreement of the second moments of
    all classes, is raised by polar steps, and the result is refined by Wasserstein-Procrustes within each
    class: transport at falling temperature [1]_, then the best rotation for it [2]_.

    Parameters
    ----------
    uplinks : sequence of Uplink
    public : (k, m) ndarray
        Encoded rows of the same population that nobody sent.

    References
    ----------
    .. [1] Cuturi, NIPS 2013, arXiv:1306.0895.
    .. [2] Grave, Joulin, Berthet, AISTATS 2019, arXiv:1805.11222.
    """
    sent = np.vstack([one.rep @ one.anchor_rep.T for one in uplinks])
    labels = np.concatenate([one.labels for one in uplinks])
    count = uplinks[0].rep.shape[1]
    axes, public_axes = leading_axes(sent, count), leading_axes(public, count)
    sides = _Side(sent @ axes, labels), _Side(public @ public_axes, public_labels)
    pairs = _paired_by_name(*sides, public, rng)
    found = []
    for warp in WARPS:
        side, other = (one.warped(warp) for one in sides)
        turns = [_ascended(side, other, start) for start in _starts(side, other, pairs, rng)]
        # the first is that of the moments, the second that of the names: both are always refined
        order = np.argsort([_disagreement(side, other, turn) for turn in turns])[:REFINED]
        for index in sorted({0, 1, *order.tolist()}):
            turn = _refined(side, other, turns[index], rng)
            _, cost = _transported(*sides, turn, TEMPERATURES[-1], np.random.default_rng(0))
            found.append(Rotation(public_axes @ turn @ axes.T, cost))
    return min(found, key=lambda one: one.cost)


def reidentified(
    uplinks: Sequence[Uplink], rows: Sequence[Matrix64], public: Matrix64, rotation: Rotation
) -> float:
    """Return the share of sent rows whose nearest row in a register is the right one.

    The register has all members' encoded rows and the public ones.
    """
    found = nearest_in_register(uplinks, np.vstack([*rows, public]), rotation)
    return float(np.mean(np.concatenate(found) == np.arange(sum(map(len, rows)))))


def nearest_in_register(
    uplinks: Sequence[Uplink], register: Matrix64, rotation: Rotation, *, rounds: int = 2
) -> list[Indices]:
    """Return the row of a register that each sent row is taken for.

    Distances are Euclidean first, then in units of what the rows differed by in the round before: the noise,
    and what the rotation does not explain.
    """
    found = []
    for uplink in uplinks:
        guess, metric = rotation.rep_of(register, uplink), np.eye(uplink.rep.shape[1])
        for _ in range(rounds + 1):
            nearest = squared_distances(uplink.rep @ metric, guess @ metric).argmin(axis=1)
            differs = uplink.rep - guess[nearest]
            spread = differs.T @ differs / len(differs)
            spread += np.eye(len(spread)) * (1e-3 * np.trace(spread) / len(spread) + 1e-12)
            metric = np.linalg.cholesky(np.linalg.inv(spread))
        found.append(nearest)
    return found


def fitted_to_register(uplinks: Sequence[Uplink], register: Matrix64, rotation: Rotation) -> Rotation:
    """Return the rotation that an attacker finds who has the register of those whose rows were sent.

    It takes each row for its nearest one and turns the register towards these, until that changes little.
    """
    count = uplinks[0].rep.shape[1]
    sent = np.vstack([one.rep @ one.anchor_rep.T for one in uplinks])
    axes, own_axes = leading_axes(sent, count), leading_axes(register, count)
    for _ in range(TRANSPORT_STEPS):
        nearest = np.concatenate(nearest_in_register(uplinks, register, rotation))
        turn = polar(own_axes.T @ register[nearest].T @ sent @ axes)
        rotation = Rotation(own_axes @ turn @ axes.T, rotation.cost)
    return rotation


@dataclass(frozen=True, repr=False)
class _Side:
    """Rows of one side along its leading axes, (n, r), with labels."""

    rows: Matrix64
    labels: Labels

    def warped(self, power: float) -> _Side:
        values, axes = np.linalg.eigh(np.cov(self.rows.T))
        values = np.maximum(values, 1e-3 * values.max()) ** (-power / 2)
        return _Side(self.rows @ (axes * values) @ axes.T, self.labels)

    def of(self, name: int) -> Matrix64:
        return np.asarray(self.rows[self.labels == name])


def _classes(side: _Side, other: _Side) -> list[int]:
    """Return the classes of which both sides have enough rows for moments."""
    return [k for k in np.unique(side.labels).tolist() if min(len(side.of(k)), len(other.of(k))) > 2]


def _starts(side: _Side, other: _Side, pairs: Pairs, rng: np.random.Generator) -> Iterator[Matrix64]:
    classes = _classes(side, other)
    turning = _turning_vectors(other, classes).T @ _turning_vectors(side, classes)
    yield polar(turning)
    yield _by_names(side, other, pairs, turning)
    for _ in range(OTHER_STARTS):
        yield polar(polar(turning) + 2 * rng.standard_normal(turning.shape) / np.sqrt(len(turning)))


Pairs = list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]
"""For each named feature, which of the sent rows and which of the public ones have its larger value."""


def _paired_by_name(side: _Side, other: _Side, public: Matrix64, rng: np.random.Generator) -> Pairs:
    features, values = two_valued(public)
    if not len(features) or not can_search():
        return []
    classes = int(max(side.labels.max(), other.labels.max())) + 1
    published = shares_by_class(values, other.labels, classes)
    (splits, separation), pairs = find_splits(side.rows, rng=rng), []
    for split, feature in name_splits(splits, separation, side.labels, published):
        told, true = splits[:, split], values[:, feature]
        shares = np.array(
            [told[side.labels == k].mean() if (side.labels == k).any() else 0.5 for k in range(classes)]
        )
        expected = published[:, feature]
        if np.abs(1 - shares - expected).sum() < np.abs(shares - expected).sum():
            told = ~told
        if min(told.mean(), 1 - told.mean(), true.mean(), 1 - true.mean()) > PUBLIC_FEWEST:
            pairs.append((told, true))
    return pairs


def _by_names(side: _Side, other: _Side, pairs: Pairs, turning: Matrix64) -> Matrix64:
    """Return the rotation that maps the mean differences of named features best; wrong names count less."""
    if not pairs:
        return polar(turning)
    ours = np.stack([side.rows[told].mean(axis=0) - side.rows[~told].mean(axis=0) for told, _ in pairs])
    theirs = np.stack([other.rows[true].mean(axis=0) - other.rows[~true].mean(axis=0) for _, true in pairs])
    weights = np.ones(len(pairs))
    for _ in range(10):
        turn = polar((theirs * weights[:, None]).T @ ours + turning)
        missed = np.linalg.norm(theirs @ turn - ours, axis=1) / np.linalg.norm(ours, axis=1)
        weights = 1 / (0.1 + missed**2)
    return turn


def _turning_vectors(side: _Side, classes: Sequence[int]) -> Matrix64:
    """Return vectors that turn with the rows, in a fixed order, each of about the length of a class mean."""
    means = np.stack([side.of(k).mean(axis=0) for k in classes])
    spread = np.cov(side.rows.T)
    found = [means, means @ spread / np.trace(spread)]
    for k, mean in zip(classes, means, strict=True):
        centred = side.of(k) - mean
        inside = centred.T @ centred / len(centred)
        size = max(float(np.trace(inside)), 1e-12)
        found.append(means @ inside / size)
        found.append((centred * np.sum(centred**2, axis=1)[:, None]).mean(axis=0)[None] / size)
        lengths = np.sum(means**2, axis=1)[:, None] + 1e-12
        found.append(((centred @ means.T) ** 2).T @ centred / len(centred) / lengths)
    return np.vstack(found)


def _ascended(side: _Side, other: _Side, turn: Matrix64) -> Matrix64:
    """Raise the agreement of means and covariances of all classes; each polar step can only raise it."""
    moments = []
    for k in _classes(side, other):
        ours, theirs = side.of(k), other.of(k)
        weight = np.sqrt(len(ours) * len(theirs))
        mean = np.outer(theirs.mean(axis=0), ours.mean(axis=0))
        moments.append((weight * np.cov(theirs.T), np.cov(ours.T), weight * mean))
    for _ in range(ASCENT_STEPS):
        before = turn
        turn = polar(np.sum([their @ turn @ our + mean for their, our, mean in moments], axis=0))
        if np.abs(turn - before).max() < 1e-6:
            break
    return turn


def _disagreement(side: _Side, other: _Side, turn: Matrix64) -> float:
    total = 0.0
    for k in _classes(side, other):
        ours, theirs = side.of(k), other.of(k)
        means = theirs.mean(axis=0) @ turn - ours.mean(axis=0)
        spreads = turn.T @ np.cov(theirs.T) @ turn - np.cov(ours.T)
        total += len(ours) * float(np.sum(spreads**2) + 2 * np.sum(means**2))
    return total


def _refined(side: _Side, other: _Side, turn: Matrix64, rng: np.random.Generator) -> Matrix64:
    for temperature in TEMPERATURES:
        for _ in range(TRANSPORT_STEPS):
            cross, _ = _transported(side, other, turn, temperature, rng)
            turn = polar(cross)
    return turn


def _transported(
    side: _Side, other: _Side, turn: Matrix64, temperature: float, rng: np.random.Generator
) -> tuple[Matrix64, float]:
    """Return the cross moments, (r, r), of the rows under the transport of each class, and its cost."""
    cross, cost, total = np.zeros_like(turn), 0.0, 0
    for k in _classes(side, other):
        ours, theirs = (rows[rng.permutation(len(rows))[:MOST_ROWS]] for rows in (side.of(k), other.of(k)))
        distances = squared_distances(ours, theirs @ turn)
        kernel = np.exp(-distances / (temperature * np.median(distances))) + 1e-300
        column = np.full(len(theirs), 1 / len(theirs))
        for _ in range(SCALINGS):
            row = 1 / (len(ours) * (kernel @ column))
            column = 1 / (len(theirs) * (row @ kernel))
        plan = row[:, None] * kernel * column * len(ours)
        cross += theirs.T @ (plan.T @ ours)
        cost, total = cost + float(np.sum(plan * distances)), total + len(ours)
    return cross, cost / total
