"""Bytes and ratios as people read them."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def size(count: float) -> str:
    """Three digits and a decimal unit, as the papers and network people count: 10.1 GB."""
    step = 0
    while abs(count) >= 999.5 and step < len(_UNITS) - 1:
        count, step = count / 1000, step + 1
    if step == 0:
        return f"{count:.0f} B"
    digits = max(0, 2 - (abs(count) >= 9.995) - (abs(count) >= 99.95))
    return f"{count:.{digits}f} {_UNITS[step]}"


def exact(count: float) -> str:
    """Every digit, in groups of three."""
    return f"{count:,.0f}"


def ratio(value: float | None) -> str:
    """Ours over the formula; nothing where the formula has nothing."""
    return "" if value is None else f"{value:.4g}"
