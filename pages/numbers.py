"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def size(count: float) -> str:
    """Return bytes with three digits and a decimal unit, as the papers count: 10.1 GB."""
    step = 0
    while abs(count) >= 999.5 and step < len(_UNITS) - 1:
        count, step = count / 1000, step + 1
    if step == 0:
        return f"{count:.0f} B"
    digits = max(0, 2 - (abs(count) >= 9.995) - (abs(count) >= 99.95))
    return f"{count:.{digits}f} {_UNITS[step]}"


def exact(count: float) -> str:
    """Return every digit of a count, in groups of three."""
    return f"{count:,.0f}"


def ratio(value: float | None) -> str:
    """Return ours over the formula with four digits, or nothing if the formula has nothing."""
    return "" if value is None else f"{value:.4g}"


def when(at: int | None) -> str:
    """Return a Unix time to the minute, in UTC, or "never"."""
    return "never" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
