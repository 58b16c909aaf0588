"""The features of a row that are summed, in coordinates that the analyst does not know."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from user_client.secret.expansion import ByteSource, Matrix64, gaussian, haar, uniform


@dataclass(frozen=True, repr=False)
class FeatureMap:
    """``phi(x) = Q^T (x, sqrt(2 / D) cos(W x + b))``: the encoded row and its random Fourier features [1]_.

    Every institution draws the same map from the sealed seed.

    Attributes
    ----------
    turn : (d, d) ndarray
        Q, a Haar orthogonal matrix.
    frequencies : (D, m) ndarray
        W; D may be 0.
    phases : (D,) ndarray
        b.

    References
    ----------
    .. [1] Rahimi and Recht, Random Features for Large-Scale Kernel Machines (NIPS 2007).
    """

    turn: Matrix64
    frequencies: Matrix64
    phases: Matrix64

    def __repr__(self) -> str:
        return f"<FeatureMap of {len(self.turn)} features>"

    @classmethod
    def draw(
        cls, source: ByteSource, features: int, random_features: int, kernel_width: float | None
    ) -> FeatureMap:
        """Draw a map of rows of ``features`` numbers; the order of the draws stands in docs/protocol.md."""
        turn = haar(source, features + random_features)
        frequencies = gaussian(source, random_features * features).reshape(random_features, features)
        phases = 2 * np.pi * uniform(source, random_features)
        return cls(turn, frequencies / (kernel_width or 1.0), phases)

    def __call__(self, rows: Matrix64) -> Matrix64:
        """Return the features of encoded rows, (n, d)."""
        if self.is_linear:
            return np.asarray(rows @ self.turn)
        random = self.amplitude * np.cos(rows @ self.frequencies.T + self.phases)
        return np.asarray(np.hstack([rows, random]) @ self.turn)

    @property
    def amplitude(self) -> float:
        """Of a random feature."""
        return float(np.sqrt(2 / len(self.phases)))

    @property
    def is_linear(self) -> bool:
        """Whether it is the turn alone, a product with an (m, m) matrix."""
        return len(self.phases) == 0

    def to_bytes(self) -> bytes:
        """Return what `from_bytes` reads: only for the institution's own disk."""
        buffer = io.BytesIO()
        np.savez(buffer, turn=self.turn, frequencies=self.frequencies, phases=self.phases)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> FeatureMap:
        with np.load(io.BytesIO(data), allow_pickle=False) as kept:
            return cls(kept["turn"], kept["frequencies"], kept["phases"])
