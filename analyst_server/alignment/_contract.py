"""What every alignment method takes and returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating]
AnchorReps = Sequence[Matrix]
"""A_i of each party, (a, l_i), float32 or float64, possibly memory-mapped; never modified."""


def orthonormality_tolerance(dtype: np.dtype[Any]) -> float:
    """Return how far rounding alone may move the entries of ``A_i.T @ A_i`` away from those of I.

    float32 arithmetic is accurate to 1e-6 here, but a float32 matrix may hold values that were rounded for
    the wire: to float16 (errors of about 1e-3) or to 8-bit integers (1e-2, largest where m is about 8). A
    scaled or wrong basis is off by far more.
    """
    return 1e-6 if dtype == np.float64 else 2e-2


@dataclass(frozen=True)
class Solution:
    """What a method returns.

    Every method also takes ``trusted``: the indices of the parties that shape the target; None stands for
    all of them. The other parties are mapped onto that target too.

    Attributes
    ----------
    changes_of_basis : list of (l_i, l) ndarrays
        G_i in the order of the parties.
    target : (a, l) ndarray
        Z, which every ``A_i @ G_i`` approximates.
    description : str
        The target in words for a report, for example ``"A_1 O"``.
    """

    changes_of_basis: list[Matrix]
    target: Matrix
    description: str
