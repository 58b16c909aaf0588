"""What every alignment method takes and gives."""

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
    """Return how far entries of ``A_i.T @ A_i`` may lie from those of I for rounding alone.

    float32 is good to 1e-6 here, but carries what was rounded to float16 (some 1e-3) or to 8-bit integers
    (1e-2, worst where m is about 8) on the wire. A scaled or wrong basis is off by far more.
    """
    return 1e-6 if dtype == np.float64 else 2e-2


@dataclass(frozen=True)
class Solution:
    """What a method found.

    Every method also takes ``trusted``: the indices of the parties that shape the target, all of them if
    None. The others are mapped onto it all the same.

    Attributes
    ----------
    changes_of_basis : list of (l_i, l) ndarrays
        G_i in the order of the parties.
    target : (a, l) ndarray
        Z, what ``A_i @ G_i`` was brought to.
    description : str
        The target in words for a report, for example ``"A_1 O"``.
    """

    changes_of_basis: list[Matrix]
    target: Matrix
    description: str
