"""What the anchor representations alone say about an alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyst_server.alignment._orthogonal import Matrix


@dataclass(frozen=True)
class Diagnostics:
    """Measured on the anchor; all figures are relative and unitless.

    Attributes
    ----------
    concordance_gap : float
        ``max_i ||A_i G_i - Z||_F / ||Z||_F`` with ``Z`` the mean: 0 when all bases share a span.
    party_gaps : tuple of float
        The same for each party.
    spectrum_spread : tuple of float
        ``max_k |s_k(A_i) - median_k| / median_1`` for each party. Orthonormal bases of one span give
        equal singular values, so a party that stands out here broke an assumption or sees another span.
        With a Haar anchor they are all 1 for every orthonormal basis, whatever its span.
    """

    concordance_gap: float
    party_gaps: tuple[float, ...]
    spectrum_spread: tuple[float, ...]


def diagnose(anchor_reps: Sequence[Matrix], changes_of_basis: Sequence[Matrix]) -> Diagnostics:
    """Return the `Diagnostics` of an alignment; cost ``O(a l**2)`` per party."""
    aligned_mean = np.zeros((anchor_reps[0].shape[0], changes_of_basis[0].shape[1]))
    for rep, change in zip(anchor_reps, changes_of_basis, strict=True):
        aligned_mean += rep @ change
    aligned_mean /= len(anchor_reps)
    scale = float(np.linalg.norm(aligned_mean)) or 1.0
    gaps = tuple(
        float(np.linalg.norm(rep @ change - aligned_mean)) / scale
        for rep, change in zip(anchor_reps, changes_of_basis, strict=True)
    )
    shared = min(rep.shape[1] for rep in anchor_reps)
    spectra = np.stack(
        [np.linalg.svd(rep.astype(np.float64), compute_uv=False)[:shared] for rep in anchor_reps]
    )
    median = np.median(spectra, axis=0)
    spread = np.abs(spectra - median).max(axis=1) / (median[0] or 1.0)
    return Diagnostics(max(gaps), gaps, tuple(float(value) for value in spread))
