"""A first draft of the schema, derived from one table, for people to discuss and correct.

Numbers are mapped to their rank among quantiles of the table, which survives heavy tails, or linearly from a
range of quantiles. Quantiles are rounded, and the outermost are not the extremes, so that they fit other
institutions too and reveal no single row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.table_schema import Task
from user_client.errors import MissingColumnError
from user_client.tables.fields import Matrix64, as_numbers, as_text
from user_client.tables.remarks import remarks_on

Encoding = Literal["ranks", "ranges", "plain"]
MISSING_TEXTS: Final = ("", "?", "NA", "N/A", "NaN", "nan", "null", "None")
MAX_DRAFT_LEVELS: Final = 50
"""Largest number of distinct values of a categorical column; with more it holds names or comments."""
QUANTILES: Final = 21
FEW_QUANTILES: Final = 5
"""Quantiles per column of a table so wide that the terms would not fit into one message with `QUANTILES`."""
WIDE: Final = 8000
OUTERMOST: Final = 0.005
"""Share of the rows beyond the first and the last quantile of ranks."""
RANGE: Final = 0.01
"""Share of the rows beyond each end of a range."""
ROWS_BEYOND: Final = 2.5
"""Fewest rows beyond an outermost quantile, so that it is the value of no extreme row."""
FEWEST_EVENTS: Final = 5
"""Rows with the event that a draft needs."""
MANY_EMPTY: Final = 0.05
"""Share of empty fields from which on a column gets a feature that says whether the field is empty."""
NUMERIC_VARIANCE: Final = 1 / 3
"""Variance of ranks, which are spread evenly from -1 to 1; all levels of a column together have no more."""


@dataclass(frozen=True)
class DraftedSchema:
    """The ``table_schema`` part of the terms, and what a person should look at before proposing it."""

    content: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def draft_schema(
    table: pa.Table,
    label: str,
    exclude: Collection[str] = (),
    *,
    encoding: Encoding = "ranks",
    categories: Collection[str] = (),
    classes: Collection[str] = (),
    missing: Sequence[str] = (),
    task: Task = "classes",
    label_range: tuple[float, float] | None = None,
    event: DraftedEvent | None = None,
) -> DraftedSchema:
    """Return the ``table_schema`` part of the terms for ``table``.

    Parameters
    ----------
    label : str
        The column to predict.
    exclude : collection of str
        Columns to leave out. A column that has the same value everywhere is left out too, with a remark.
    encoding : {"ranks", "ranges", "plain"}
        Numbers become ranks among quantiles, or are mapped linearly from a range of quantiles; both are
        centred, and so are the levels of a category. "plain" is the uncentred form of the papers.
    categories : collection of str
        Columns of numbers that are names of categories.
    classes : collection of str
        Classes of the label that only other institutions have.
    missing : sequence of str
        Further texts that stand for an empty field.
    task : {"classes", "number", "survival"}
        What the label is.
    label_range : tuple of float, optional
        Between which the numbers of the label lie at every institution; by default those of the table, with
        half of their range more on either side, but no number below 0 if the table has none.
    event : DraftedEvent, optional
        Of survival, where ``label`` is the column of times.

    Raises
    ------
    TableError, InputError
        If the label column is missing, or a column cannot be used.
    """
    of_label = (label, event.column) if event else (label,)
    for name in (*of_label, *exclude, *categories):
        if name not in table.column_names:
            raise MissingColumnError(name)
    texts = tuple(dict.fromkeys((*MISSING_TEXTS, *missing)))
    if event is not None:
        drafted = _survival(table, label, texts, event)
    elif task == "number":
        drafted = _number(table, label, texts, label_range)
    else:
        drafted = _classes(table, label, texts, classes)
    names = [name for name in table.column_names if name not in (*of_label, *exclude)]
    drafting = _Drafting(encoding, QUANTILES if len(names) <= WIDE else FEW_QUANTILES, texts)
    columns, remarks = [], list(drafted.remarks)
    for name in names:
        values = table.column(name)
        column = drafting.column(name, values, is_category=name in categories)
        if column is None:
            remarks.append(f"{name}: has the same value everywhere, so it is left out")
            continue
        columns.append(column)
        is_number = "levels" not in column
        remarks += remarks_on(name, values, texts, drafted.groups, drafted.count, is_number=is_number)
    if not columns:
        raise InputError("no column is left to predict from")
    content = {"missing": list(texts), "label_column": drafted.content, "columns": columns}
    return DraftedSchema(content, remarks)


@dataclass(frozen=True)
class _DraftedLabel:
    """The label block, and for each row a class number, to find the columns that leak the label."""

    content: dict[str, Any]
    groups: NDArray[Any]
    """NaN for a row without one."""
    count: int
    remarks: tuple[str, ...] = ()


def _classes(table: pa.Table, label: str, missing: Collection[str], others: Collection[str]) -> _DraftedLabel:
    classes = _in_order({*_distinct(table.column(label), missing), *others})
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
    groups = np.array(pc.index_in(as_text(table.column(label)), value_set=pa.array(classes, pa.string())))
    return _DraftedLabel({"name": label, "classes": classes}, groups, len(classes))


def _number(
    table: pa.Table, label: str, missing: Sequence[str], given: tuple[float, float] | None
) -> _DraftedLabel:
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
    return _DraftedLabel(content, groups, 2, tuple(remarks))


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


def _survival(table: pa.Table, label: str, missing: Sequence[str], event: DraftedEvent) -> _DraftedLabel:
    if event.column == label:
        raise InputError(f"column '{label}' cannot be both the time and what ended it")
    until, empty = as_numbers(table.column(label), missing)
    if not np.isfinite(until[~empty]).all() or (until[~empty] < 0).any():
        raise InputError(f"column '{label}' has fields that are no times: a time is a number from 0 on")
    seen, censored = _two_ends(table, missing, event)
    ended = np.array(pc.fill_null(pc.equal(as_text(table.column(event.column)), seen), False)) & ~empty
    with_event = until[ended & (until > 0)]
    if len(with_event) < FEWEST_EVENTS:
        raise InputError(
            f"the event was seen in {len(with_event)} rows after a time above 0: too few to draft from"
        )
    longest = float(until[~empty].max())
    horizon = _rounded_up(longest)
    times = sorted({float(time) for time in event.times}) or _quartiles(with_event)
    if not 0 < times[0] <= times[-1] <= horizon:
        raise InputError(f"the times must lie above 0 and not beyond the longest observation, {longest:g}")
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
    return _DraftedLabel(content, groups, 2, (remark,))


def _two_ends(table: pa.Table, missing: Sequence[str], event: DraftedEvent) -> tuple[str, str]:
    """Return what the column says of the event and without it, as the table spells it."""
    values = _distinct(table.column(event.column), missing)
    if len(values) != 2:
        raise InputError(f"column '{event.column}' has {len(values)} distinct values, and not two")
    number = _sort_number(event.seen)  # 1 and 1.0 are the same number
    named = [value for value in values if value == event.seen or _sort_number(value) == number < math.inf]
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
    return sorted({_rounded(value, value) for value in found})


def _wide_enough(label: str, low: float, high: float) -> str:
    return (
        f"{label}: {low:g} to {high:g} is this table's range with half of it more on either side, and a table"
        " with a number outside is refused: ask the other institutions, or give --label-range LOW:HIGH"
    )


def _widened(known: Matrix64) -> tuple[float, float]:
    low, high = float(known.min()), float(known.max())
    more = (high - low) / 2
    wider = (0.0 if low >= 0 and low - more < 0 else low - more, high + more)
    return min(_rounded(wider[0], more), low), max(_rounded(wider[1], more), high)


@dataclass(frozen=True)
class _Drafting:
    encoding: Encoding
    quantiles: int
    missing: tuple[str, ...]

    def column(self, name: str, values: pa.ChunkedArray, *, is_category: bool) -> dict[str, Any] | None:
        """Return one column of the schema; None if it has the same value everywhere."""
        levels = _distinct(values, self.missing)
        numbers, _ = as_numbers(values, self.missing)
        is_number = not is_category and all(_is_number(level) for level in levels)
        if is_number and len(np.unique(numbers[~np.isnan(numbers)])) < 2:
            return None
        if is_number:
            return self._numeric(name, numbers)
        if len(levels) == 1:
            return None
        if len(levels) > MAX_DRAFT_LEVELS:
            raise InputError(
                f"column '{name}' has {len(levels)} distinct texts; leave it out with --exclude {name}"
            )
        return self._categorical(name, values, levels)

    def _numeric(self, name: str, numbers: Matrix64) -> dict[str, Any]:
        known = numbers[~np.isnan(numbers)]
        if self.encoding == "ranks":
            shares = np.linspace(0, 1, self.quantiles)
            beyond = _beyond(OUTERMOST, len(known))
            shares = shares.clip(beyond, 1 - beyond)
            found = _rounded_apart(np.quantile(known, shares, method="nearest"))
            if found[0] < found[-1]:
                column: dict[str, Any] = {"kind": "ranks", "name": name, "quantiles": found}
                return {**column, **_empty(np.isnan(numbers))}
        low, high = _range(known)
        if self.encoding == "plain":
            median = _rounded(float(np.median(known)), high - low)
            return {
                "kind": "numeric",
                "name": name,
                "low": low,
                "high": high,
                "impute": min(max(median, low), high),
                "out_of_range": "clip",
            }
        centre = _rounded(float(known.clip(low, high).mean()), high - low)
        column = {"kind": "range", "name": name, "low": low, "high": high, "centre": centre}
        return {**column, **_empty(np.isnan(numbers))}

    def _categorical(self, name: str, values: pa.ChunkedArray, levels: list[str]) -> dict[str, Any]:
        text = as_text(values)
        chosen = np.array(pc.fill_null(pc.index_in(text, value_set=pa.array(levels, pa.string())), -1))
        counts = np.bincount(chosen[chosen >= 0], minlength=len(levels))
        if self.encoding == "plain":
            impute = levels[int(counts.argmax())]
            return {"kind": "categorical", "name": name, "levels": levels, "impute": impute}
        shares = counts / counts.sum()
        spread = 1 - float(np.square(shares).sum())
        return {
            "kind": "levels",
            "name": name,
            "levels": levels,
            "shares": [round(float(share), 3) for share in shares],
            "weight": round(min(1.0, math.sqrt(NUMERIC_VARIANCE / spread)), 3),
            **_empty(chosen < 0),
        }


def _empty(is_empty: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    share = float(is_empty.mean())
    return {"empty": "centre", **({"missing_share": round(share, 3)} if share >= MANY_EMPTY else {})}


def _range(known: Matrix64) -> tuple[float, float]:
    """Return a rounded range of quantiles, that of all numbers if the quantiles are one number."""
    beyond = _beyond(RANGE, len(known))
    low, high = np.quantile(known, [beyond, 1 - beyond], method="nearest")
    if low == high:
        low, high = known.min(), known.max()
    return _rounded(float(low), high - low), _rounded(float(high), high - low)


def _beyond(share: float, rows: int) -> float:
    return min(max(share, ROWS_BEYOND / rows), 0.1)


def _rounded_apart(quantiles: Matrix64) -> list[float]:
    """Round each quantile to about a hundredth of the distance to the nearest different one."""
    distinct = np.unique(quantiles)
    gaps = np.diff(distinct)
    nearest = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    rounded = {value: _rounded(value, gap) for value, gap in zip(distinct, nearest, strict=True)}
    return [rounded[value] for value in quantiles]


def _rounded(number: float, scale: float) -> float:
    """Round to two digits of ``scale``."""
    if not (scale > 0 and math.isfinite(scale)):
        return float(number)
    digits = 1 - math.floor(math.log10(scale))
    return round(float(number), digits) + 0.0  # never -0.0


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _distinct(values: pa.ChunkedArray, missing: Collection[str]) -> list[str]:
    text = as_text(values)
    kept = [item for item in pc.unique(text).to_pylist() if item is not None and item not in missing]
    return _in_order(kept)


def _in_order(texts: Collection[str]) -> list[str]:
    return sorted(texts, key=lambda item: (_sort_number(item), item))


def _sort_number(text: str) -> float:
    return float(text) if _is_number(text) else math.inf
