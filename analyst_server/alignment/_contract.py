"""What every alignment method takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating]
AnchorReps = Sequence[Matrix]
"""A_i of each party, (a, l_i), float32 or float64, possibly memory-mapped; never modified."""


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
