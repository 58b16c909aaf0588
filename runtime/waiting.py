"""Waiting for something that is looked at again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 600.0
"""What comes after hours is still seen within minutes."""


def look_until(
    is_enough: Callable[[T], bool],
    look: Callable[[], T],
    *,
    wait_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Return what was seen once it is enough, or what is seen after ``wait_s`` seconds.

    The pauses grow with the time waited, up to ten minutes, so that an hour takes about twenty looks.
    """
    seen, waited = look(), 0.0
    while waited < wait_s and not is_enough(seen):
        pause_s = min(_FIRST_PAUSE_S + waited / 2, _LONGEST_PAUSE_S, wait_s - waited)
        pause(pause_s)
        waited += pause_s
        seen = look()
    return seen


class Look(NamedTuple, Generic[T]):
    """What a look has found."""

    seen: T
    will_hold: bool
    """Whether the other side answers the next look only when there is news, so that no pause is needed."""
    held_s: float = 0.0
    """How long this look has waited for news."""


def watch_until(
    is_enough: Callable[[T], bool],
    look: Callable[[float], Look[T]],
    *,
    first: Look[T] | None = None,
    wait_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Return what was seen once it is enough, or what is seen after ``wait_s`` seconds.

    As `look_until`, for a ``look`` that may itself take up to the seconds that it is given, because the other
    side holds its answer until there is news. While it does not, the pauses are the same. ``first`` is what
    an earlier look has found, if there was one.
    """
    found, waited_s, unheld_s = first or look(0), 0.0, 0.0
    while waited_s < wait_s and not is_enough(found.seen):
        left_s = wait_s - waited_s
        if found.will_hold:
            found = look(left_s)
            waited_s += found.held_s
            if found.will_hold:
                unheld_s = 0.0
                # news may come in a row, and what says that it holds may not
                pause_s = min(_FIRST_PAUSE_S, left_s) - found.held_s
                if pause_s > 0 and not is_enough(found.seen):
                    pause(pause_s)
                    waited_s += pause_s
        else:
            pause_s = min(_FIRST_PAUSE_S + unheld_s / 2, _LONGEST_PAUSE_S, left_s)
            pause(pause_s)
            waited_s, unheld_s = waited_s + pause_s, unheld_s + pause_s
            found = look(0)
    return found.seen
