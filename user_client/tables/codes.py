"""Numbers and days that tables use for "not known", and whether they stand apart from all others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from user_client.tables.fields import Mask, Matrix64

CODES: Final = frozenset(
    sign * code
    for sign in (-1, 1)
    for code in (9, 88, 98, 99, 888, 988, 998, 999, 8888, 9998, 9999, 88888, 99998, 99999, 999999)
) | {0}
"""Numbers that tables use for "not known": 0 too, as for the blood pressure of somebody alive."""
DATE_CODES: Final = {
    float((day - date(1970, 1, 1)).days): day.isoformat()
    for day in (
        date(1, 1, 1),
        date(1800, 1, 1),
        date(1899, 12, 30),
        date(1899, 12, 31),
        date(1900, 1, 1),
        date(1901, 1, 1),
        date(1970, 1, 1),
        date(2099, 12, 31),
        date(2999, 12, 31),
        date(9999, 12, 31),
    )
}
"""Days since 1970-01-01 that tables use for "not known", and how they are written."""
FAR: Final = 1.0
"""A code stands at least this many times the spread of all other numbers away from them."""
_NEXT_TO_ZERO: Final = 12
"""So many different numbers after 0 say how far apart the smallest ones are."""
_GAP: Final = 5.0
"""A 0 that is so many times as far from the next number as those are from each other is none of them."""
_OUTERMOST: Final = 1 + _NEXT_TO_ZERO
"""So many different numbers at either end say whether the first or the last stands apart from all others."""


def far_codes(distinct: Matrix64, codes: Collection[float]) -> Iterator[float]:
    """Yield the first and the last of ascending numbers if they are codes that stand apart from all others.

    They are far from these, or the only number below 0, as -9 of a laboratory value. A 0 must be far by the
    measure of the numbers next to it: 0 of 0, 1 and 2 is a count, and 0 of 0, 50 and 100 a dose.
    """
    for code in (distinct[0], distinct[-1]):
        others = distinct[distinct != code]
        if code in codes and len(others) > 1:
            spread = others[-1] - others[0]
            distance = others[0] - code if code < others[0] else code - others[-1]
            if code == 0:
                is_apart = _is_apart_from_zero(others)
            else:
                is_apart = distance >= FAR * spread or code < 0 <= others[0]
            if is_apart:
                yield float(code)


def _is_apart_from_zero(others: Matrix64) -> bool:
    """Return whether a gap lies between 0 and other numbers, in ascending order."""
    nearest = others[:_NEXT_TO_ZERO]
    if len(nearest) < _NEXT_TO_ZERO or nearest[0] < 0:
        return False
    return bool(nearest[0] >= _GAP * np.median(np.diff(nearest)))


@dataclass(frozen=True)
class FarCode:
    """A code that stands in a column, apart from all other numbers.

    Attributes
    ----------
    texts : tuple of str
        How the table writes it.
    rows : int
        In how many rows it stands.
    """

    texts: tuple[str, ...]
    rows: int


@dataclass
class Ends:
    """The outermost numbers of a column that is read part by part: enough to find the codes in it.

    A number that is among the outermost of all rows is so among the rows read before, too: none is missed,
    and none is counted late.
    """

    codes: Collection[float]
    _rows: dict[float, int] = field(default_factory=dict)
    _texts: dict[float, set[str]] = field(default_factory=dict)

    def add(self, numbers: Matrix64, written: Callable[[Mask], pa.ChunkedArray]) -> None:
        """Look at the numbers of some more rows, NaN where a field is empty.

        ``written`` returns how those of a mask are written.
        """
        found, counts = np.unique(numbers[self._may_be_outermost(numbers)], return_counts=True)
        some = {*found[:_OUTERMOST].tolist(), *found[-_OUTERMOST:].tolist()}
        for number in some:
            count = int(counts[np.searchsorted(found, number)])
            self._rows[number] = self._rows.get(number, 0) + count
            if number in self.codes:
                texts = pc.unique(written(numbers == number)).to_pylist()
                self._texts.setdefault(number, set()).update(texts)
        ascending = sorted(self._rows)
        kept = {*ascending[:_OUTERMOST], *ascending[-_OUTERMOST:]}
        self._rows = {number: rows for number, rows in self._rows.items() if number in kept}

    def _may_be_outermost(self, numbers: Matrix64) -> Mask:
        ascending = sorted(self._rows)
        if len(ascending) < _OUTERMOST:
            return ~np.isnan(numbers)
        return (numbers <= ascending[_OUTERMOST - 1]) | (numbers >= ascending[-_OUTERMOST])

    def far(self) -> list[FarCode]:
        """Return the codes that stand apart from all other numbers."""
        if not self._rows:
            return []
        distinct = np.array(sorted(self._rows))
        return [
            FarCode(tuple(sorted(self._texts[code])), self._rows[code])
            for code in far_codes(distinct, self.codes)
        ]
