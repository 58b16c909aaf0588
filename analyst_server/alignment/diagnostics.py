"""How well an alignment brought the parties together, from the anchor representations alone.

`suspicion` finds the parties to blame where it did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix
from analyst_server.alignment._orthogonal import mean_aligned
from analyst_server.alignment._spread import SpreadReps

MOST_VALUES: Final = 32
"""Singular values of one party that are kept: enough for a curve, and little of many parties."""


@dataclass(frozen=True)
class Diagnostics:
    """Figures measured on the anchor.

    Attributes
    ----------
    concordance_gap : float
        The largest of the trusted parties' ``party_gaps``: 0 if all their bases share a span.
    party_gaps : tuple of float
        ``||A_i G_i - Z||_F / ||Z||_F`` for each party, where ``Z`` is the mean of the trusted parties.
    spectrum_spread : tuple of float
        ``max_k |s_k(A_i) - median_k| / median_1`` for each party. Orthonormal bases of one span give
        equal singular values, so a party that stands out here broke an assumption or has another span.
        With a Haar anchor the singular values of every orthonormal basis are 1, whatever its span.
    singular_values : tuple of (float, float)
        The largest and the smallest ``s_k(A_i)`` for each party.
    spectra : tuple of tuple of float
        ``s_k(A_i)`` for each party, the largest first; of more than `MOST_VALUES`, as many at even
        distances, the first and the last among them.
    span_angles : tuple of (float, float)
        The median and the largest principal angle between the spans of ``A_i`` and of ``Z``, in degrees,
        for each party: 0 for a direction it shares with the others, 90 for one that it lacks.
    """

    concordance_gap: float
    party_gaps: tuple[float, ...]
    spectrum_spread: tuple[float, ...]
    singular_values: tuple[tuple[float, float], ...]
    spectra: tuple[tuple[float, ...], ...]
    span_angles: tuple[tuple[float, float], ...]


def diagnose(
    anchor_reps: AnchorReps, changes_of_basis: Sequence[Matrix], trusted: Sequence[int] | None = None
) -> Diagnostics:
    """Return the `Diagnostics` of an alignment.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l_i) ndarrays
    changes_of_basis : sequence of c (l_i, l) ndarrays
    trusted : sequence of int, optional
        The parties whose mean is ``Z``; all if not given.

    Returns
    -------
    Diagnostics

    Notes
    -----
    ``8 a l**2`` flops, one symmetric eigenproblem and one SVD of order l per party. Singular values come
    from ``A_i.T @ A_i``: relative to the largest they are accurate to the square root of the rounding.
    """
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    target = mean_aligned(anchor_reps, changes_of_basis, trusted).astype(np.float64)
    scale = float(np.linalg.norm(target)) or 1.0
    there = target.any(axis=0)  # a direction that nobody has is a column of zeros
    directions = np.linalg.qr(target[:, there] if there.any() else target)[0]
    distances, spectra, angles = _measure(anchor_reps, changes_of_basis, target, directions)
    gaps = tuple(distance / scale for distance in distances)
    return Diagnostics(
        concordance_gap=max(gaps[index] for index in chosen),
        party_gaps=gaps,
        spectrum_spread=_spread(spectra),
        singular_values=tuple((float(values[0]), float(values[-1])) for values in spectra),
        spectra=tuple(map(_some, spectra)),
        span_angles=tuple((float(np.median(found)), float(found.max())) for found in angles),
    )


def _measure(
    anchor_reps: AnchorReps, changes: Sequence[Matrix], target: Matrix, directions: Matrix
) -> tuple[list[float], list[Matrix], list[Matrix]]:
    """Return the distance of each ``A_i G_i`` from the target, its singular values and its angles."""
    if isinstance(anchor_reps, SpreadReps):
        groups = anchor_reps.by_group(_measure_group, target, directions, own=changes)
        distances = [float(one) for found, *_ in groups for one in found]
        compared = [pair for _, *found in groups for pair in zip(found[::2], found[1::2], strict=True)]
    else:
        distances = [
            float(np.linalg.norm(rep @ change - target))
            for rep, change in zip(anchor_reps, changes, strict=True)
        ]
        compared = [_compare(rep, directions) for rep in anchor_reps]
    return distances, [values for values, _ in compared], [found for _, found in compared]


def _measure_group(
    reps: AnchorReps, own: Sequence[Matrix], target: Matrix, directions: Matrix
) -> tuple[Matrix, ...]:
    distances, spectra, angles = _measure(reps, own, target, directions)
    return np.array(distances), *(one for pair in zip(spectra, angles, strict=True) for one in pair)


def _compare(rep: Matrix, directions: Matrix) -> tuple[Matrix, Matrix]:
    """Return the singular values of one anchor representation, and its principal angles in degrees."""
    gram = np.asarray(rep.T @ rep, dtype=np.float64)
    eigenvalues, vectors = np.linalg.eigh(gram)
    values = np.sqrt(eigenvalues.clip(min=0))
    kept = values > values[-1] * np.sqrt(len(gram) * np.finfo(rep.dtype).eps)
    whitened = (vectors[:, kept] / values[kept]).T @ (rep.T @ directions)
    cosines = np.zeros(min(len(gram), directions.shape[1]))
    found = np.linalg.svd(whitened, compute_uv=False)
    cosines[: len(found)] = found[: len(cosines)].clip(max=1)
    return values[::-1], np.degrees(np.arccos(cosines))


def _some(values: Matrix) -> tuple[float, ...]:
    chosen = np.linspace(0, len(values) - 1, min(len(values), MOST_VALUES)).round().astype(int)
    return tuple(float(value) for value in values[chosen])


def _spread(spectra: Sequence[Matrix]) -> tuple[float, ...]:
    shared = min(len(values) for values in spectra)
    table = np.stack([values[:shared] for values in spectra])
    median = np.median(table, axis=0)
    spread = np.abs(table - median).max(axis=1) / (median[0] or 1.0)
    return tuple(float(value) for value in spread)
