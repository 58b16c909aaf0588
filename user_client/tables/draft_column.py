"""A first draft of one column, from its values in a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from protocol.errors import InputError
from user_client.tables.fields import Mask, Matrix64, as_numbers, as_text
from user_client.tables.figures import (
    MAX_DRAFT_LEVELS,
    OUTERMOST,
    distinct,
    is_number,
    range_of,
    rounded,
    rounded_apart,
    share_beyond,
)

Encoding = Literal["ranks", "ranges", "plain"]
QUANTILES: Final = 21
FEW_QUANTILES: Final = 5
"""Quantiles per column of a table so wide that the terms would not fit into one message with `QUANTILES`."""
MANY_EMPTY: Final = 0.05
"""Share of empty fields from which on a column gets a feature that says whether the field is empty."""
NUMERIC_VARIANCE: Final = 1 / 3
"""Variance of ranks, which are spread evenly from -1 to 1; all levels of a column together have no more."""


@dataclass(frozen=True)
class ColumnDrafting:
    """How columns are drafted.

    Attributes
    ----------
    quantiles : int
        Of each column of ranks.
    missing : tuple of str
        Texts that stand for an empty field.
    """

    encoding: Encoding
    quantiles: int
    missing: tuple[str, ...]

    def column(self, name: str, values: pa.ChunkedArray, *, is_category: bool) -> dict[str, Any] | None:
        """Return one column of the schema; None if it has the same value everywhere."""
        levels = distinct(values, self.missing)
        numbers, _ = as_numbers(values, self.missing)
        takes_numbers = not is_category and all(is_number(level) for level in levels)
        if takes_numbers and len(np.unique(numbers[~np.isnan(numbers)])) < 2:
            return None
        if takes_numbers:
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
            beyond = share_beyond(OUTERMOST, len(known))
            shares = shares.clip(beyond, 1 - beyond)
            found = rounded_apart(np.quantile(known, shares, method="nearest"))
            if found[0] < found[-1]:
                column: dict[str, Any] = {"kind": "ranks", "name": name, "quantiles": found}
                return {**column, **_empty(np.isnan(numbers))}
        low, high = range_of(known)
        if self.encoding == "plain":
            median = rounded(float(np.median(known)), high - low)
            return {
                "kind": "numeric",
                "name": name,
                "low": low,
                "high": high,
                "impute": min(max(median, low), high),
                "out_of_range": "clip",
            }
        centre = rounded(float(known.clip(low, high).mean()), high - low)
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


def _empty(is_empty: Mask) -> dict[str, Any]:
    share = float(is_empty.mean())
    return {"empty": "centre", **({"missing_share": round(share, 3)} if share >= MANY_EMPTY else {})}
