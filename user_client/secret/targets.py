"""What a party's own score of its rows is to tell of each: class, label, number or survival."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.rows import are_alike, class_counts
from user_client.scores import FEWEST_OF_A_CLASS
from user_client.secret.cox import residuals
from user_client.secret.expansion import Matrix64

FEWEST_NUMBERS: Final = 10
"""With fewer rows with numbers, a score says nothing, as with fewer than `FEWEST_OF_A_CLASS` of a class."""


@dataclass(frozen=True, repr=False)
class Targets:
    """What a score is to tell of each row: whether it is of each of some classes, or has labels, or a number.

    Attributes
    ----------
    labels : (n,) ndarray
        Of survival the residuals.
    classes : tuple of int
        Those with enough rows; empty for numbers.
    deviations : tuple of float
        Empty unless these are bits of the labels, of which a row may have several: then the standard
        deviation of each, which all are divided by, so that a rare label counts as much as any other.
    times : (n,) ndarray, optional
        Of survival, negative without the event. A residual is all that a regression needs, but those of rows
        without the event are in the order of their times alone, so that they cannot judge a score.
    """

    labels: NDArray[Any]
    classes: tuple[int, ...]
    deviations: tuple[float, ...] = ()
    times: NDArray[Any] | None = None

    def __repr__(self) -> str:
        return f"<Targets of {len(self.labels)} rows>"

    @property
    def count(self) -> int:
        """How many numbers this is for each row."""
        return max(len(self.classes), 1)

    def between(self, first: int, last: int) -> Matrix64:
        """Return the numbers, (last - first, k), for some rows, not centred."""
        return self._of(self.labels[first:last])

    def take(self, numbers: NDArray[np.int64]) -> Matrix64:
        """Return the numbers, (r, k), for the rows of these numbers, not centred."""
        return self._of(self.labels[numbers])

    def of(self, numbers: NDArray[np.int64]) -> Targets:
        """Return the targets of the rows of these numbers alone."""
        times = None if self.times is None else self.times[numbers]
        return replace(self, labels=self.labels[numbers], times=times)

    def _of(self, labels: NDArray[Any]) -> Matrix64:
        told, classes = labels[:, None], np.array(self.classes, np.int64)
        if self.deviations:
            return np.asarray((told >> classes & 1) / np.array(self.deviations))
        if self.classes:
            told = told == classes
        return told.astype(np.float64)


def targets_of(labels: NDArray[Any], *, are_bits: bool = False, are_times: bool = False) -> Targets | None:
    """Return what a score is to tell; None if the labels are of one kind, or too few.

    Parameters
    ----------
    labels : (n,) ndarray
        Class numbers, numbers as floats, whole numbers with one bit for each of several labels, or times that
        are negative without the event.
    are_bits, are_times : bool
        Whether it is one of the last two.
    """
    if are_times:
        enough = np.count_nonzero(labels > 0) >= FEWEST_OF_A_CLASS and len(labels) >= FEWEST_NUMBERS
        return Targets(residuals(labels), (), times=labels) if enough else None
    if are_bits:
        having = [int(np.count_nonzero(labels >> bit & 1)) for bit in range(8 * labels.dtype.itemsize)]
        most = len(labels) - FEWEST_OF_A_CLASS
        bits = tuple(bit for bit, count in enumerate(having) if FEWEST_OF_A_CLASS <= count <= most)
        shares = [having[bit] / len(labels) for bit in bits]
        return Targets(labels, bits, tuple((p * (1 - p)) ** 0.5 for p in shares)) if bits else None
    if labels.dtype.kind == "f":
        enough = len(labels) >= FEWEST_NUMBERS and not are_alike(labels)
        return Targets(labels, ()) if enough else None
    kept = np.flatnonzero(class_counts(labels) >= FEWEST_OF_A_CLASS)
    return Targets(labels, tuple(kept.tolist())) if len(kept) > 1 else None
