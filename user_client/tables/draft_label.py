"""A first draft of what is predicted: the label block of the schema, from a table."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.labels import Task
from protocol.limits import MAX_LABELS
from user_client.tables.fields import Matrix64, as_numbers, as_text, read_levels
from user_client.tables.figures import MAX_DRAFT_LEVELS, distinct, in_order, is_number, rounded, sort_number
from user_client.tables.remarks import remarks_on_capitals

MANY_NUMBERS: Final = 6
"""So many classes, all of them numbers, may be numbers to predict: a scale of grades has up to five."""
CLEARLY_MOST: Final = 0.75
"""Share of the rows from which on a class is hardly the one to find; near a half, chance decides."""
FEWEST_EVENTS: Final = 5
"""Rows with the event that a draft needs."""


@dataclass(frozen=True)
class DraftedEvent:
    """What ends the time of a row.

    Attributes
    ----------
    column : str
        The column that says it.
    seen : str
        What it says of the event; its other value means that the event was not seen.
    times : sequence of float
        For which the model predicts; by default the quartiles of the times of the events.
    """

    column: str
    seen: str
    times: Sequence[float] = ()


@dataclass(frozen=True)
class DraftedLabel:
    """The label block, and for each row a class number, to find the columns that leak the label."""

    content: dict[str, Any]
    groups: Mapping[str, NDArray[Any]]
    """By the name of the label; NaN for a row without a class."""
    count: int
    """How many classes there are."""
    remarks: tuple[str, ...] = ()
    events: NDArray[Any] | None = None
    """Of survival: 1 where the event was seen, and 0 elsewhere."""

    @property
    def all_groups(self) -> list[NDArray[Any]]:
        """The class numbers by which empty fields may go, with the events of survival."""
        return [*self.groups.values(), *([] if self.events is None else [self.events])]


def labels_of(label: str | Sequence[str], task: Task) -> tuple[str, ...]:
    """Return the columns to predict; raises `InputError` unless they are as many as the task has."""
    labels = (label,) if isinstance(label, str) else tuple(label)
    if len(set(labels)) != len(labels):
        raise InputError("a label is named twice")
    if task == "multilabel" and not 2 <= len(labels) <= MAX_LABELS:
        raise InputError(f"the task multilabel has 2 to {MAX_LABELS} labels, {len(labels)} are named")
    if task != "multilabel" and len(labels) != 1:
        raise InputError(f"the task {task} has one label, {len(labels)} are named")
    return labels


def classes_label(
    table: pa.Table, label: str, missing: Collection[str], others: Collection[str]
) -> DraftedLabel:
    """Return the label block of classes; raises `InputError` if the column has none or too many."""
    classes = in_order({*distinct(table.column(label), missing), *others})
    if len(classes) < 2:
        raise InputError(
            f"column '{label}' has {len(classes)} distinct values; a label has at least 2."
            " Name a class that only other institutions have with --class"
        )
    if len(classes) > MAX_DRAFT_LEVELS:
        raise InputError(
            f"column '{label}' has {len(classes)} distinct values; a label has 2 to {MAX_DRAFT_LEVELS}."
            " If they are numbers to predict, draft with --task number"
        )
    groups = _groups(table, label, classes, missing)
    remarks = (
        *_lost_classes(label, as_text(table.column(label)), missing),
        *remarks_on_capitals(label, classes, "classes"),
        *_remarks_on_meaning(label, classes, groups),
    )
    return DraftedLabel({"name": label, "classes": classes}, {label: groups}, len(classes), remarks)


def _remarks_on_meaning(label: str, classes: Sequence[str], groups: Matrix64) -> Iterator[str]:
    """Yield a remark if the classes may be numbers, or the second of two may not be the one to find."""
    if len(classes) >= MANY_NUMBERS and all(map(is_number, classes)):
        yield (
            f"{label}: its {len(classes)} classes are all numbers; if they are counts or amounts, draft again"
            " with --task number"
        )
    if len(classes) == 2:
        first, second = (int(np.count_nonzero(groups == number)) for number in range(2))
        if first > 0 and second >= CLEARLY_MOST * (first + second):
            yield (
                f"{label}: PR-AUC, calibration and coefficients are of the second class, {classes[1]}, which"
                f" {100 * second / (first + second):.0f} % of the rows have; if {classes[0]} is the one to"
                " find, exchange the two in `classes` in the file"
            )


def _groups(table: pa.Table, name: str, texts: Sequence[str], missing: Collection[str]) -> Matrix64:
    """Return which of the texts each row says, NaN for a row without a label."""
    chosen, empty = read_levels(table.column(name), name, texts, list(missing))
    return np.where(empty, np.nan, chosen)


def _lost_classes(label: str, texts: pa.ChunkedArray, missing: Collection[str]) -> Iterator[str]:
    """Yield a remark for each text that may be a class and counts as an empty field, such as None."""
    for one in pc.value_counts(texts).to_pylist():
        if one["values"] and one["values"] in missing:
            yield (
                f"{label}: {one['counts']} rows say {one['values']}, which counts as an empty field; if it"
                " is a class, take it out of `missing` in the file and put it into `classes`"
            )


def several_labels(table: pa.Table, labels: Sequence[str], missing: Collection[str]) -> DraftedLabel:
    """Return the label block of several labels; raises `InputError` if a column does not say just two things.

    Of the two, the second in their order counts as having the label: 1 of 0 and 1, yes of no and yes.
    """
    block, groups, remarks = [], {}, []
    for name in labels:
        values = in_order(distinct(table.column(name), missing))
        if len(values) != 2:
            raise InputError(
                f"column '{name}' has {len(values)} distinct values; one of several labels has 2, a row with"
                " it and a row without"
            )
        absent, present = values
        block.append({"name": name, "absent": absent, "present": present})
        remarks.append(
            f"{name}: a row with {present} counts as having this label; if it is the other way round,"
            " exchange present and absent in the file"
        )
        groups[name] = _groups(table, name, values, missing)
    return DraftedLabel({"kind": "multilabel", "labels": block}, groups, 2, tuple(remarks))


def number_label(
    table: pa.Table, label: str, missing: Sequence[str], given: tuple[float, float] | None
) -> DraftedLabel:
    """Return the label block of a number to predict; raises `InputError`."""
    numbers, empty = as_numbers(table.column(label), missing)
    known = numbers[~empty]
    if not np.isfinite(known).all():
        raise InputError(
            f"column '{label}' has texts that are no numbers; --missing TEXT names one that means empty"
        )
    if len(np.unique(known)) < 2:
        what = "has the same number everywhere" if len(known) else "is empty"
        raise InputError(f"column '{label}' {what}: there is nothing to predict")
    low, high = given or _widened(known)
    if not low <= known.min() <= known.max() <= high:
        raise InputError(f"column '{label}' has numbers outside of {low:g} to {high:g}")
    remarks = [] if given else [_wide_enough(label, low, high)]
    middle = np.median(known)
    upper = numbers > middle if (known > middle).any() else numbers >= middle
    groups = np.where(np.isnan(numbers), np.nan, upper)
    content = {"kind": "number", "name": label, "low": low, "high": high}
    return DraftedLabel(content, {label: groups}, 2, tuple(remarks))


def survival_label(table: pa.Table, label: str, missing: Sequence[str], event: DraftedEvent) -> DraftedLabel:
    """Return the label block of survival; raises `InputError`."""
    if event.column == label:
        raise InputError(f"column '{label}' cannot be both the time and what ended it")
    until, empty = as_numbers(table.column(label), missing)
    if not np.isfinite(until[~empty]).all() or (until[~empty] < 0).any():
        raise InputError(f"column '{label}' has fields that are no times: a time is a number from 0 on")
    seen, censored = _two_ends(table, missing, event)
    ended = (_groups(table, event.column, (censored, seen), missing) == 1) & ~empty
    with_event = until[ended & (until > 0)]
    if len(with_event) < FEWEST_EVENTS:
        raise InputError(
            f"the event was seen in {len(with_event)} rows after a time above 0: too few to draft from"
        )
    longest = float(until[~empty].max())
    horizon = _rounded_up(longest)
    times = sorted({float(time) for time in event.times}) or _quartiles(with_event)
    if not 0 < times[0] <= times[-1] <= horizon:
        raise InputError(
            f"the times must lie above 0 and not beyond the longest observation, about {horizon}"
        )
    content = {
        "kind": "survival",
        "name": label,
        "event": event.column,
        "seen": seen,
        "censored": censored,
        "horizon": horizon,
        "times": times,
    }
    remark = (
        f"{label}: survival is predicted at {', '.join(map(str, times))}; another institution's time beyond"
        f" {horizon} counts as one without the event. Give --time for other times"
    )
    # of those with the event: a column that tells who had it late leaks the label
    groups = np.where(ended, until > np.median(with_event), np.nan)
    events = np.where(empty, np.nan, ended)
    return DraftedLabel(content, {label: groups}, 2, (remark,), events)


def _two_ends(table: pa.Table, missing: Sequence[str], event: DraftedEvent) -> tuple[str, str]:
    """Return what the column says of the event and without it, as the table spells it."""
    values = distinct(table.column(event.column), missing)
    if len(values) != 2:
        raise InputError(f"column '{event.column}' has {len(values)} distinct values, and not two")
    number = sort_number(event.seen)  # 1 and 1.0 are the same number
    named = [value for value in values if value == event.seen or sort_number(value) == number < math.inf]
    if not named:
        raise InputError(
            f"column '{event.column}' says {values[0]} or {values[1]}: one of them has to stand for the event"
        )
    return named[0], next(value for value in values if value != named[0])


def _rounded_up(number: float) -> float:
    """Round up to two digits."""
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return max(float(f"{math.ceil(number / step) * step:.2g}"), number)


def _quartiles(times: Matrix64) -> list[float]:
    """Return the quartiles of times above 0, to two digits, each once."""
    found = (float(value) for value in np.quantile(times, [0.25, 0.5, 0.75]))
    return sorted({rounded(value, value) for value in found})


def _wide_enough(label: str, low: float, high: float) -> str:
    return (
        f"{label}: {low:g} to {high:g} is this table's range with half of it more on either side, and a table"
        " with a number outside is refused: ask the other institutions, or give --label-range LOW:HIGH"
    )


def _widened(known: Matrix64) -> tuple[float, float]:
    low, high = float(known.min()), float(known.max())
    more = (high - low) / 2
    wider = (0.0 if low >= 0 and low - more < 0 else low - more, high + more)
    return min(rounded(wider[0], more), low), max(rounded(wider[1], more), high)
