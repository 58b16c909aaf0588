"""Scores of predictions that an institution computes itself, without the libraries of the analyst."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def roc_auc(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Return the ROC-AUC of scores, ties counted half; None if all rows are of one class."""
    count = int(positive.sum())
    if not 0 < count < len(positive):
        return None
    _, place, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    middle_rank = (np.cumsum(sizes) - (sizes - 1) / 2)[place]
    return float((middle_rank[positive].sum() - count * (count + 1) / 2) / (count * (len(positive) - count)))
