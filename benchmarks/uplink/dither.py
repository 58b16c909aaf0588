"""Noise on X~_i before it is rounded: two ways to spread the same amount over the directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.data import Matrix

Kind = Literal["isotropic", "shaped"]


@dataclass(frozen=True)
class Dither:
    """Fresh Gaussian noise on the rows of one uplink; the manifest states it, so attackers know it.

    Attributes
    ----------
    kind : {"isotropic", "shaped"}
        The same in every direction, ``strength`` times the root mean square over the columns' standard
        deviations; or with ``strength**2`` times the covariance of X~, so that every principal axis gets the
        same relative noise.
    strength : float
        0 for none.
    """

    kind: Kind = "isotropic"
    strength: float = 0.0

    def covariance(self, rep: Matrix) -> Matrix:
        """Return the covariance of the noise for rows, (n, l), of which the covariance is known; (l, l)."""
        spread = np.atleast_2d(np.cov(rep.T))
        if self.kind == "isotropic":
            spread = np.eye(len(spread)) * np.trace(spread) / len(spread)
        return np.asarray(self.strength**2 * spread)

    def added_to(self, rep: Matrix, rng: np.random.Generator) -> Matrix:
        """Return the rows with noise."""
        values, axes = np.linalg.eigh(self.covariance(rep))
        root = (axes * np.sqrt(values.clip(0))) @ axes.T
        return np.asarray(rep + rng.standard_normal(rep.shape) @ root)

    def share_of(self, noisy: Matrix) -> Matrix:
        """Return the covariance of the noise in rows that contain it: what the analyst can compute."""
        return self.covariance(noisy) / (1 + self.strength**2)
