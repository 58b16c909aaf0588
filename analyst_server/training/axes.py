"""Axes for models that depend on them: those of the rows that train, whatever the alignment chose."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from analyst_server.training.tasks import Matrix


def principal_axes(parts: Callable[[], Iterable[Matrix]]) -> NDArray[np.float64]:
    """Return the principal axes of the rows, (l, l), each with the sign of a positive skewness.

    Every orthogonal target is as good for the alignment. A model that splits along axes gets these, so that
    it depends on no such target where the variances along them differ.

    Parameters
    ----------
    parts : callable
        Returns the rows in parts (n_i, l), of which one is in memory at a time; it is called several times.
    """

    def wide() -> Iterable[NDArray[np.float64]]:
        return (part.astype(np.float64) for part in parts())

    sums = [(len(part), part.sum(axis=0)) for part in wide()]
    mean = sum(total for _, total in sums) / sum(count for count, _ in sums)
    moments = sum((part - mean).T @ (part - mean) for part in wide())
    axes = np.linalg.eigh(moments)[1][:, ::-1]
    skewness = sum((((part - mean) @ axes) ** 3).sum(axis=0) for part in wide())
    return np.asarray(axes * np.where(np.asarray(skewness) < 0, -1.0, 1.0))
