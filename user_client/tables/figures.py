"""What a draft takes from a column: its distinct texts, and figures that are rounded so that none is a row's.

Quantiles are rounded to about a hundredth of their distance, and the outermost are not the extremes.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from user_client.tables.fields import Matrix64, as_text, is_empty, number_of, plain

MAX_DRAFT_LEVELS: Final = 50
"""Largest number of distinct texts of a column of categories; with more it holds names or comments."""
OUTERMOST: Final = 0.005
"""Share of the rows beyond the first and the last quantile of ranks."""
RANGE: Final = 0.01
"""Share of the rows beyond each end of a range."""
ROWS_BEYOND: Final = 2.5
"""Fewest rows beyond an outermost quantile, so that it is the value of no extreme row."""


def range_of(known: Matrix64) -> tuple[float, float]:
    """Return a rounded range of quantiles, that of all numbers if the quantiles are one number."""
    low, high = _ends_of(known)
    return rounded(low, high - low), rounded(high, high - low)


def positive_range_of(known: Matrix64) -> tuple[float, float, float]:
    """Return a rounded range of the numbers above 0, itself above 0, and the middle of the logarithms.

    Other numbers count as the low end in that mean, as they do in a row.
    """
    low, high = _ends_of(known[known > 0])
    centre = math.exp(float(np.log(known.clip(low, high)).mean()))
    low, high = rounded(low, min(low, high - low)), rounded(high, high - low)
    return low, high, min(max(rounded(centre, min(centre, high - low)), low), high)


def _ends_of(known: Matrix64) -> tuple[float, float]:
    beyond = share_beyond(RANGE, len(known))
    low, high = np.quantile(known, [beyond, 1 - beyond], method="nearest")
    if low == high:
        low, high = known.min(), known.max()
    return float(low), float(high)


def share_beyond(share: float, rows: int) -> float:
    return min(max(share, ROWS_BEYOND / rows), 0.1)


def rounded_apart(quantiles: Matrix64) -> list[float]:
    """Round each quantile to about a hundredth of the distance to the nearest different one."""
    values = np.unique(quantiles)
    gaps = np.diff(values)
    nearest = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    found = {value: rounded(value, gap) for value, gap in zip(values, nearest, strict=True)}
    return [found[value] for value in quantiles]


def rounded(number: float, scale: float) -> float:
    """Round to two digits of ``scale``."""
    if not (scale > 0 and math.isfinite(scale)):
        return float(number)
    digits = 1 - math.floor(math.log10(scale))
    return round(float(number), digits) + 0.0  # never -0.0


def is_number(text: str) -> bool:
    """Return whether a text is a number as the tables have it: 0_4 is none, though Python reads it as 4."""
    return math.isfinite(number_of(text))


def distinct(values: pa.ChunkedArray, missing: Collection[str]) -> list[str]:
    """Return the texts of a column but those for an empty field, in order; of several spellings one."""
    texts = pc.unique(as_text(values))
    kept = in_order(texts.filter(pa.array(~is_empty(texts, list(missing)))).to_pylist())
    of_each: dict[str, str] = {}
    for text in kept:
        if plain(text) == text or plain(text) not in of_each:
            of_each[plain(text)] = text
    return in_order(of_each.values())


def in_order(texts: Collection[str]) -> list[str]:
    return sorted(texts, key=lambda item: (sort_number(item), item))


def sort_number(text: str) -> float:
    return float(text) if is_number(text) else math.inf
