"""Divides the rows of every party into parts, of which each can be held out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def parts_of_parties(
    strata: NDArray[np.integer], senders: NDArray[np.integer], parts: int, seed: int
) -> NDArray[np.int64]:
    """Return the number of each row's part, (n,); each has its share of every stratum of every party."""
    rng = np.random.default_rng(seed)
    part = np.empty(len(strata), dtype=np.int64)
    for party in np.unique(senders):
        for stratum in np.unique(strata[senders == party]):
            own = np.flatnonzero((senders == party) & (strata == stratum))
            # each begins at another part, or the first parts would get all rows of rare classes
            part[rng.permutation(own)] = (rng.integers(parts) + np.arange(len(own))) % parts
    return part
