"""Waiting for something that is looked at again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.5


def look_until(
    is_enough: Callable[[T], bool],
    look: Callable[[], T],
    *,
    wait_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Return what was seen once it is enough, or what is seen after ``wait_s`` seconds.

    The pauses grow with the time waited, so that an hour takes about twenty looks.
    """
    seen, waited = look(), 0.0
    while waited < wait_s and not is_enough(seen):
        pause_s = min(_FIRST_PAUSE_S + waited / 2, wait_s - waited)
        pause(pause_s)
        waited += pause_s
        seen = look()
    return seen
