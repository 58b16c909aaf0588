"""Seconds of functions called in turn, so that other load on the machine affects all of them equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

SETTLE_S: Final = 0.12
"""Pause before each call: an idle OpenBLAS thread keeps a core busy for 2**28 cycles, polling for work."""


def take_turns(
    functions: Mapping[str, Callable[[], object]], *, rounds: int = 7, budget_s: float = 20.0
) -> dict[str, NDArray[np.float64]]:
    """Return the seconds of each function in each round, after one warm-up round.

    Parameters
    ----------
    functions : mapping of callables
        Called in turn; their results are discarded.
    rounds : int
        Number of rounds; fewer if the budget is used up, but at least three.
    budget_s : float
        Seconds after which no further round starts.
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
    """Return the exponent of the power law through the points, by least squares of the logarithms."""
    return float(np.polyfit(np.log10(sizes), np.log10(seconds), 1)[0])
