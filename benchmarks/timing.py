"""Seconds of functions that take turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

SETTLE_S: Final = 0.12
"""Before each call: an idle thread of OpenBLAS keeps a core busy for 2**28 cycles, asking for work."""


def take_turns(
    functions: Mapping[str, Callable[[], object]], *, rounds: int = 7, budget_s: float = 20.0
) -> dict[str, NDArray[np.float64]]:
    """Return the seconds of each function in each round, after one round to warm up.

    Parameters
    ----------
    functions : mapping of callables
        Called in turn; what they return is thrown away.
    rounds : int
        As many, or fewer when the budget is spent, but three at least.
    budget_s : float
        Seconds after which no further round begins.
    """
    for function in functions.values():
        function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    begun = time.perf_counter()
    for done in range(rounds):
        if done >= 3 and time.perf_counter() - begun > budget_s:
            break
        for name, function in functions.items():
            time.sleep(SETTLE_S)
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Return the exponent of the power law through the points: least squares of the logarithms."""
    return float(np.polyfit(np.log10(sizes), np.log10(seconds), 1)[0])
