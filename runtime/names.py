"""Which of some names a person may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_ALIKE: Final = 0.8
"""From this share of equal letters on, two names may be one: `age` is not `stage`."""


def near_name(name: str, there: Iterable[str]) -> str | None:
    """Return which of some names may be meant with another, None if none is alike."""
    known = {each.strip().lower(): each for each in there}
    near = difflib.get_close_matches(name.strip().lower(), known, 1, _ALIKE)
    return known[near[0]] if near else None
