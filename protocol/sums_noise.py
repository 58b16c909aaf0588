"""Noise in the total of sums: what it is worth, and what both sides agree on (docs/protocol.md, "Noise").

Rows are clipped and summed as integers, and every institution adds its share of a discrete Gaussian. So the
total is that of a Gaussian mechanism, of which `protocol.gaussian_mechanism` knows the (epsilon, delta).
"""

from __future__ import annotations

import math
from typing import Final

from pydantic import Field

from protocol.codec import Message
from protocol.gaussian_mechanism import gaussian_sigma
from protocol.labels import AnyLabel
from protocol.limits import MAX_SUMS_PARTIES

SMALL: Final = 0.01
"""So small a share of ``delta`` is as good as none."""
MOST_BITS: Final = 20
"""Of a number of a row: products of two are summed over blocks of rows without any rounding in float64."""


class SumsNoise(Message):
    """(epsilon, delta)-differential privacy of one row in the total, and so in the model.

    With one row more or less, no set of totals is more than ``exp(epsilon)`` times as likely, but for
    ``delta``. It holds against the analyst, and against up to ``colluding`` institutions that tell it their
    own noise.
    """

    epsilon: float = Field(ge=0.1, le=20)
    delta: float = Field(ge=1e-9, le=0.01)
    clip: float = Field(gt=0, le=1e6)
    """Longer feature vectors are scaled down to this length."""
    colluding: int = Field(ge=0, lt=MAX_SUMS_PARTIES)
    """So many institutions may take their noise off the total, and what is left is still enough."""

    def share(self, label: AnyLabel, parties: int) -> float:
        """Return the standard deviation of one institution's noise, for rows of length 1."""
        enough = gaussian_sigma(self.epsilon, self.delta, sensitivity=sensitivity(label))
        return enough / math.sqrt(parties - self.colluding)

    def in_total(self, label: AnyLabel, parties: int) -> float:
        """Return the standard deviation of the noise in a number of the total, for rows of length 1."""
        return self.share(label, parties) * math.sqrt(parties)

    def added_delta(self, label: AnyLabel, parties: int, order: int, bits: int) -> float:
        """Return by how much whole numbers may add to ``delta``, which is of a continuous Gaussian [1]_.

        Rounded, a continuous Gaussian is as private. A discrete one of deviation s differs from that by a
        total variation distance of 0.02 / s^2 for each number, of which there are about ``order**2 / 2``.

        References
        ----------
        .. [1] arXiv:2102.06387, Theorem 1: a sum of discrete Gaussians is nearer still to one of them.
        """
        deviation = math.ldexp(self.share(label, parties), 2 * bits)
        return (1 + math.exp(self.epsilon)) * order**2 / (100 * deviation**2)


def sensitivity(label: AnyLabel) -> float:
    """Return how far one row moves the numbers that get noise of their own, in Euclidean length.

    A row is (1, phi, y) with ``||phi|| <= 1``. Of classes these are the products of two features, of a
    feature and y, and y; each part moves by at most 1. Of a number y in [-1, 1], 1 * 1, phi, and y * y have
    noise of their own as well.
    """
    return math.sqrt(3 if label.outputs > 1 else 6)


def bits_of(most_rows: int) -> int:
    """Return b: of a row (1, phi / clip, y) the numbers are multiples of ``2^-b``.

    It is the largest for which the total over ``most_rows`` rows cannot overflow, and at most 20.
    """
    return min(MOST_BITS, (62 - math.ceil(math.log2(most_rows))) // 2)
