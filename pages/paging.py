"""Long lists, a part at a time: a page of hundreds of rows is slow to load and to look through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

MOST: Final = 50
"""Rows of one page."""
T = TypeVar("T")


def part_of(rows: Sequence[T], start: int) -> tuple[Sequence[T], int | None]:
    """Return the rows of the page that begins at one of them, and where the next page begins, if any."""
    after = start + MOST
    return rows[start:after], after if after < len(rows) else None
