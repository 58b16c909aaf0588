"""What a person should look at in a column before proposing terms: codes, tails, categories and leaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from shlex import quote
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from user_client.scores import FEWEST_OF_A_CLASS, roc_auc
from user_client.tables.codes import CODES, DATE_CODES, far_codes
from user_client.tables.draft_column import DraftedColumn
from user_client.tables.fields import Matrix64, as_text, number_of

HEAVY: Final = 20.0
"""How many times as long as the middle half of the numbers a tail is that we call heavy."""
FEW: Final = 10
"""Largest number of different whole numbers that may be names of categories."""
MANY_NUMBERS: Final = 50
"""Fewest rows with a whole number of their own each that may be numbered by it."""
DENSE: Final = 3
"""And at most so many numbers for each row between the first and the last."""
LEAK: Final = 0.97
"""ROC-AUC of a single column from which on we ask whether it is known before the outcome."""


def remarks_on(
    name: str,
    values: pa.ChunkedArray,
    column: DraftedColumn,
    labels: Mapping[str, NDArray[Any]],
    classes: int,
) -> Iterator[str]:
    """Yield one sentence for each thing a person should look at in a column.

    Parameters
    ----------
    values : (n,) pyarrow.ChunkedArray
        The column in the table.
    labels : mapping of str to (n,) ndarray of int or float
        Class numbers of each label, by its name; rows with a NaN are not looked at.
    """
    ordered = None
    if column.content["kind"] in ("levels", "categorical"):
        yield from remarks_on_capitals(name, column.content["levels"], "levels")
    if column.numbers is not None:
        known = column.numbers[~np.isnan(column.numbers)]
        if "dates" in column.content:
            yield from _remarks_on_days(name, known)
        else:
            yield from _remarks_on_numbers(name, values, known, has_scale="scale" in column.content)
        ordered = _without_gaps(column.numbers)
    for which, auc in _leaks(_rates(values, labels) if ordered is None else ordered, labels, classes).items():
        yield (
            f"{name}: predicts {which} alone (ROC-AUC {100 * auc:.1f} %); unless it is known before the"
            f" outcome, leave it out with --exclude {quote(name)}"
        )


def _leaks(
    ordered: Matrix64 | Mapping[str, Matrix64], labels: Mapping[str, NDArray[Any]], classes: int
) -> dict[str, float]:
    """Return the labels that one number per row tells as who knows the outcome does, and the ROC-AUC of each.

    The numbers may be others for each label.
    """
    found = {}
    for label, told in labels.items():
        known, by = np.isfinite(told), ordered[label] if isinstance(ordered, Mapping) else ordered
        auc = largest_auc(by[known], told[known], classes)
        if auc >= LEAK:
            found["the label" if len(labels) == 1 else f"the label {label}"] = auc
    return found


def _without_gaps(numbers: Matrix64) -> Matrix64:
    """Return numbers with their median in the place of each NaN."""
    return np.nan_to_num(numbers, nan=float(np.nanmedian(numbers)))


def remarks_on_capitals(name: str, texts: Sequence[str], what: str) -> Iterator[str]:
    """Yield one sentence for each text that a column writes with different capitals."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(text.casefold(), []).append(text)
    for same in alike.values():
        if len(same) > 1:
            yield (
                f"{name}: {', '.join(same[:-1])} and {same[-1]} differ in capitals alone, and are {len(same)}"
                f" {what}; if they mean the same, write them alike in every table"
            )


def remarks_on_dates(
    days: Mapping[str, Matrix64], labels: Mapping[str, NDArray[Any]], classes: int
) -> Iterator[str]:
    """Yield one sentence for each column of dates that are no durations: what they tell, and what to do.

    And one for each two of them whose difference predicts a label: a model of both finds that.

    Parameters
    ----------
    days : mapping of str to (n,) ndarray of float64
        Days since 1970-01-01 of each such column, NaN where a field is empty.
    labels, classes
        As for `remarks_on`.
    """
    telling: set[frozenset[str]] = set()
    for first, second in combinations(islice(days, _MOST_PAIRED), 2):
        between = days[second] - days[first]
        leaks = {} if np.isnan(between).all() else _leaks(_without_gaps(between), labels, classes)
        telling |= {frozenset((first, second))} if leaks else set()
        yield from (
            f"{first} and {second}: the days between them predict {which} (ROC-AUC {100 * auc:.1f} %); unless"
            f" both are known before the outcome, leave one out with --exclude {quote(first)} or --exclude"
            f" {quote(second)}"
            for which, auc in leaks.items()
        )
    for name, ends in days.items():
        # the nearest column that is never after it
        before = {
            other: float(np.nanmedian(ends - begins))
            for other, begins in days.items()
            if other != name and frozenset((name, other)) not in telling and _never_after(begins, ends)
        }
        advice = f"leave it out with --exclude {quote(name)}, or coarsen it in every table"
        if before:
            origin = min(before, key=lambda other: before[other])
            advice = (
                f"the days since '{origin}', which is never after it, say less: draft again with --duration"
                f" {quote(f'{name}={origin}')}"
            )
        yield f"{name}: who knows a date from elsewhere can recognise the row by it; {advice}"


_MOST_PAIRED: Final = 30
"""Of more columns of dates, only these are compared with each other."""


def _never_after(begins: Matrix64, ends: Matrix64) -> bool:
    """Return whether, where both days are known, the first never is the later one, and mostly the earlier."""
    between = ends - begins
    known = between[~np.isnan(between)]
    return bool(len(known) and (known >= 0).all() and np.median(known) > 0)


def _remarks_on_days(name: str, known: Matrix64) -> Iterator[str]:
    distinct, counts = np.unique(known, return_counts=True)
    for code in far_codes(distinct, DATE_CODES):
        count = int(counts[distinct == code][0])
        yield (
            f"{name}: {DATE_CODES[code]} is in {count} rows, apart from all other dates; if it means that"
            " the date is not known, draft again with --missing and that date as the table writes it"
        )


def _remarks_on_numbers(
    name: str, values: pa.ChunkedArray, known: Matrix64, *, has_scale: bool
) -> Iterator[str]:
    distinct, counts = np.unique(known, return_counts=True)
    for code in far_codes(distinct, CODES):
        count, written = int(counts[distinct == code][0]), _written(values, code)
        everywhere = f", or with --missing {quote(written)} if it means so in every column" if code else ""
        yield (
            f"{name}: {code:g} is in {count} row{'' if count == 1 else 's'}, apart from all other numbers; if"
            " it means that the number is not known, draft again with --missing-in"
            f" {quote(f'{name}={written}')}{everywhere}"
        )
        known = known[known != code]
    is_whole = bool(np.all(distinct == np.round(distinct)))
    if (
        is_whole
        and len(np.unique(known)) == len(known) >= MANY_NUMBERS
        and np.ptp(known) < DENSE * len(known)
    ):
        yield (
            f"{name}: has another whole number in every row; if it numbers the rows or the patients, leave it"
            f" out with --exclude {quote(name)}"
        )
    if is_whole and 3 <= len(distinct) <= FEW:
        yield (
            f"{name}: has {len(distinct)} different whole numbers; if they are names of categories, draft"
            f" again with --category {quote(name)}"
        )
    first, middle, third = np.quantile(known, [0.25, 0.5, 0.75])
    tail = max(np.quantile(known, 0.995) - middle, middle - np.quantile(known, 0.005))
    if not has_scale and third > first and tail > HEAVY * (third - first):
        yield (
            f"{name}: has a heavy tail, which ranges cut off, and of which ranks keep the order alone; if the"
            f" label grows by equal steps with every doubling, draft again with --logarithm {quote(name)}; if"
            " it grows with the amount itself, as costs do, predict the label's logarithm"
        )


def _written(values: pa.ChunkedArray, code: float) -> str:
    """Return how a column writes a number most often."""
    if not pa.types.is_string(values.type):
        return f"{code:g}"
    counts = pc.value_counts(as_text(values)).to_pylist()
    texts = {one["values"]: one["counts"] for one in counts if number_of(one["values"]) == code}
    return max(texts, key=lambda text: texts[text], default=f"{code:g}")


def _rates(values: pa.ChunkedArray, labels: Mapping[str, NDArray[Any]]) -> dict[str, Matrix64]:
    """Return, for each label, the mean class number of each row's level: a number to order the rows by."""
    codes = pc.fill_null(as_text(values), "").dictionary_encode().combine_chunks()
    chosen, found = np.asarray(codes.indices), {}
    for label, told in labels.items():
        known = np.isfinite(told)
        totals = np.bincount(chosen[known], told[known], minlength=len(codes.dictionary))
        counts = np.bincount(chosen[known], minlength=len(codes.dictionary))
        found[label] = np.asarray((totals / np.maximum(counts, 1))[chosen])
    return found


def largest_auc(ordered: Matrix64, labels: NDArray[Any], classes: int) -> float:
    """Return the largest ROC-AUC of one number per row for a class against the rest, in either direction.

    A class that hardly any row has, or nearly all, is left out: chance puts a few rows before all others.
    """
    of_each = [labels == index for index in range(classes if classes > 2 else 1)]
    enough = [one for one in of_each if FEWEST_OF_A_CLASS <= one.sum() <= len(one) - FEWEST_OF_A_CLASS]
    found = [roc_auc(ordered, one) for one in enough]
    return max((max(auc, 1 - auc) for auc in found if auc is not None), default=0.5)
