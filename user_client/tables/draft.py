"""A first draft of the schema, derived from one table, for people to discuss and correct.

Ranges are widened and rounded, so that they fit other institutions too and do not reveal the exact extremes
of this table. Empty fields are imputed by medians and by the most frequent levels.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from protocol.errors import InputError
from user_client.errors import MissingColumnError
from user_client.tables.encode import Matrix64, as_numbers, as_text

MISSING_TEXTS = ("", "?", "NA", "N/A", "NaN", "nan", "null", "None")
MAX_DRAFT_LEVELS = 50
"""Largest number of distinct values of a categorical column; with more it holds names or comments."""
MARGIN = 0.1
"""Fraction of its width by which a range is widened on each side."""


def draft_schema(
    table: pa.Table, label: str, exclude: Collection[str] = (), *, out_of_range: str = "refuse"
) -> dict[str, Any]:
    """Return the ``table_schema`` part of the terms for ``table``.

    Raises `TableError` or `InputError` if the label column is missing or a column cannot be used.
    """
    if label not in table.column_names:
        raise MissingColumnError(label)
    columns = [
        _draft_column(name, table.column(name), out_of_range)
        for name in table.column_names
        if name != label and name not in exclude
    ]
    classes = _distinct(table.column(label))
    if not 2 <= len(classes) <= MAX_DRAFT_LEVELS:
        raise InputError(
            f"column '{label}' has {len(classes)} distinct values; a label has 2 to {MAX_DRAFT_LEVELS}"
        )
    return {
        "missing": list(MISSING_TEXTS),
        "label_column": {"name": label, "classes": classes},
        "columns": columns,
    }


def _draft_column(name: str, values: pa.ChunkedArray, out_of_range: str) -> dict[str, Any]:
    numbers, _ = as_numbers(values, MISSING_TEXTS)
    levels = _distinct(values)
    if levels and not np.isnan(numbers).all() and all(_is_number(level) for level in levels):
        return {**_draft_numeric(name, numbers), "out_of_range": out_of_range}
    if not 2 <= len(levels) <= MAX_DRAFT_LEVELS:
        raise InputError(
            f"column '{name}' has {len(levels)} distinct texts; leave it out with --exclude {name}"
        )
    return {"kind": "categorical", "name": name, "levels": levels, "impute": _most_frequent(values)}


def _draft_numeric(name: str, numbers: Matrix64) -> dict[str, Any]:
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    step = 10.0 ** math.floor(math.log10(max(high - low, abs(high), 1e-9)) - 1)
    wide_low = math.floor((low - MARGIN * (high - low)) / step) * step
    wide_high = math.ceil((high + MARGIN * (high - low)) / step) * step
    if low >= 0:
        wide_low = max(wide_low, 0.0)
    return {
        "kind": "numeric",
        "name": name,
        "low": _rounded(wide_low),
        "high": _rounded(wide_high if wide_high > wide_low else wide_low + step),
        "impute": _rounded(float(np.nanmedian(numbers))),
    }


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _distinct(values: pa.ChunkedArray) -> list[str]:
    text = as_text(values)
    kept = [item for item in pc.unique(text).to_pylist() if item is not None and item not in MISSING_TEXTS]
    return sorted(kept, key=lambda item: (_sort_number(item), item))


def _sort_number(text: str) -> float:
    return float(text) if _is_number(text) else math.inf


def _most_frequent(values: pa.ChunkedArray) -> str:
    counts = pc.value_counts(as_text(values)).to_pylist()
    known = [
        entry for entry in counts if entry["values"] is not None and entry["values"] not in MISSING_TEXTS
    ]
    return str(max(known, key=lambda entry: (entry["counts"], entry["values"]))["values"])
