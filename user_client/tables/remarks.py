"""What a person should look at in a column before proposing terms: codes, tails, categories and leaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from user_client.scores import roc_auc
from user_client.tables.fields import Matrix64, as_numbers, as_text

CODES: Final = frozenset(
    sign * code
    for sign in (-1, 1)
    for code in (9, 88, 98, 99, 888, 988, 998, 999, 8888, 9998, 9999, 88888, 99998, 99999, 999999)
)
"""Numbers that tables use for "not known"."""
FAR: Final = 1.0
"""A code stands at least this many times the spread of all other numbers away from them."""
HEAVY: Final = 20.0
"""How many times as long as the middle half of the numbers a tail is that we call heavy."""
FEW: Final = 10
"""Largest number of different whole numbers that may be names of categories."""
LEAK: Final = 0.97
"""ROC-AUC of a single column from which on we ask whether it is known before the outcome."""


def remarks_on(
    name: str,
    values: pa.ChunkedArray,
    missing: Sequence[str],
    labels: NDArray[Any],
    classes: int,
    *,
    is_number: bool,
) -> Iterator[str]:
    """Yield one sentence for each thing a person should look at in a column.

    Parameters
    ----------
    labels : (n,) ndarray of int or float
        Class numbers; rows with a NaN are not looked at.
    is_number : bool
        Whether the draft takes the column as numbers, and not as levels.
    """
    if is_number:
        numbers, _ = as_numbers(values, missing)
        known = numbers[~np.isnan(numbers)]
        yield from _remarks_on_numbers(name, known)
        ordered = np.nan_to_num(numbers, nan=float(np.median(known)))
    else:
        ordered = _rates(values, labels)
    known_label = np.isfinite(labels)
    auc = largest_auc(ordered[known_label], labels[known_label], classes)
    if auc >= LEAK:
        yield (
            f"{name}: predicts the label alone (ROC-AUC {100 * auc:.1f} %); unless it is known before the"
            f" outcome, leave it out with --exclude {name}"
        )


def _remarks_on_numbers(name: str, known: Matrix64) -> Iterator[str]:
    distinct, counts = np.unique(known, return_counts=True)
    for code in (distinct[0], distinct[-1]):
        others = distinct[distinct != code]
        if code in CODES and len(others) > 1:
            spread = others[-1] - others[0]
            distance = others[0] - code if code < others[0] else code - others[-1]
            if distance >= FAR * spread:
                count = int(counts[distinct == code][0])
                yield (
                    f"{name}: {code:g} stands in {count} rows, far from all other numbers; if it means that"
                    f" the number is not known, draft again with --missing {code:g}"
                )
                known = known[known != code]
    is_whole = bool(np.all(distinct == np.round(distinct)))
    if is_whole and 3 <= len(distinct) <= FEW:
        yield (
            f"{name}: has {len(distinct)} different whole numbers; if they are names of categories, draft"
            f" again with --category {name}"
        )
    first, middle, third = np.quantile(known, [0.25, 0.5, 0.75])
    tail = max(np.quantile(known, 0.995) - middle, middle - np.quantile(known, 0.005))
    if third > first and tail > HEAVY * (third - first):
        yield f"{name}: has a heavy tail, which ranks keep in proportion and ranges cut off"


def _rates(values: pa.ChunkedArray, labels: NDArray[Any]) -> Matrix64:
    """Return the mean class number of each row's level: a number to order the rows by."""
    codes = pc.fill_null(as_text(values), "").dictionary_encode().combine_chunks()
    chosen = np.asarray(codes.indices)
    known = np.isfinite(labels)
    totals = np.bincount(chosen[known], labels[known], minlength=len(codes.dictionary))
    counts = np.bincount(chosen[known], minlength=len(codes.dictionary))
    return np.asarray((totals / np.maximum(counts, 1))[chosen])


def largest_auc(ordered: Matrix64, labels: NDArray[Any], classes: int) -> float:
    """Return the largest ROC-AUC of one number per row for a class against the rest, in either direction."""
    found = [roc_auc(ordered, labels == index) for index in range(classes if classes > 2 else 1)]
    return max((max(auc, 1 - auc) for auc in found if auc is not None), default=0.5)
