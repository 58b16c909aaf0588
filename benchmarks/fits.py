"""What numbers too small for their exponent cost the fit of a network: `python -m benchmarks.fits`.

The default model is fitted twice on the same rows, with denormal numbers as zero (what users get) and as
they are, by the institution's code and by the analyst's. Rows of few factors and many columns need little of
the network, so that much of it shrinks.

Whether there is anything to gain depends on the processor: a probe multiplies denormal numbers beside normal
ones. A speed-up is claimed where they are slow, and elsewhere the program says that there is nothing to gain.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.training.averaged import Averaged
from analyst_server.training.models import fit
from benchmarks import report
from benchmarks.report import Report
from protocol.model_terms import AveragedTerms, LogisticTerms
from runtime.denormals import tiny_as_zero
from user_client.secret.local_model import LogisticOptions, NetworkOptions, Options, fit_local_model

ROWS, FULL_ROWS, COLUMNS, FACTORS = 20_000, 50_000, 120, 20
TURNS: Final = 3
"""How often either side is fitted each way; every second time the other way goes first."""
WARM_UP_ROWS: Final = 500
SAME_PREDICTIONS: Final = 1e-6
NOT_SLOWER: Final = 0.9
"""Ratio of seconds; the rest is noise of the machine."""
FASTER: Final = 2.0
"""Least speed-up of the worse side where the probe finds denormal numbers slow."""
SLOW: Final = 5.0
"""A processor that takes as many times as long for denormal numbers is slow with them."""
_TINY: Final = np.float32(1e-40)
Matrix = NDArray[np.float64]
Fit = Callable[[Matrix, NDArray[np.int64]], Callable[[Matrix], Matrix]]
Way = Callable[[], AbstractContextManager[None]]


def measure(options: report.Options) -> Report:
    """Fit by each side, with and without: how much faster it is, and that predictions are the same."""
    return compared(FULL_ROWS if options.full else ROWS, COLUMNS, FACTORS, slowdown=slowdown_by_denormals())


def compared(count: int, columns: int, factors: int, *, slowdown: float) -> Report:
    """Return rows and claims of tables of this size; ``slowdown`` is what the probe has found."""
    conditions = {"rows": count, "columns": columns, "factors": factors, "model": "averaged", "turns": TURNS}
    inside, outside = (product_of_denormals(way) for way in (tiny_as_zero, nullcontext))
    told = {"slowdown_by_denormals": slowdown, "product_inside": inside, "product_outside": outside}
    found = Report("fits", {**conditions, **told})
    rng = np.random.default_rng(0)
    rows = 0.1 * rng.standard_normal((count, factors)) @ rng.standard_normal((factors, columns))
    labels = (rows[:, 0] + 0.3 * rng.standard_normal(count) > 0).astype(np.int64)
    ratios, gaps = [], []
    for side, by in (("institution", _by_institution), ("analyst", _by_analyst)):
        seconds, gap = _in_turn(by, rows, labels)
        ratios.append(float(np.median(np.array(seconds[1]) / np.array(seconds[0]))))
        gaps.append(gap)
        row = {"seconds": float(np.median(seconds[0])), "with_denormals": float(np.median(seconds[1]))}
        found.rows.append({"side": side, **row, "all_seconds": seconds, "ratio": ratios[-1]})
    found.claim("fit_not_slower", min(ratios), "times as fast as with denormal numbers", ">=", NOT_SLOWER)
    if slowdown >= SLOW:
        found.claim("fit_speed_up", min(ratios), "times as fast as with denormal numbers", ">=", FASTER)
    else:
        print(f"nothing to gain here: this processor takes {slowdown:.1f} times as long for denormal numbers")
    found.claim("fit_prediction_gap", max(gaps), "of a probability", "<=", SAME_PREDICTIONS)
    return found


def slowdown_by_denormals() -> float:
    """Return how many times as long products take whose results are denormal, the best of several."""
    half, seconds = np.float32(0.5), []
    for value in (np.float32(1), _TINY):
        numbers = np.full(100_000, value)
        taken = []
        for _ in range(20):
            started = time.perf_counter()
            np.multiply(numbers, half, out=np.empty_like(numbers))
            taken.append(time.perf_counter() - started)
        seconds.append(min(taken))
    return seconds[1] / seconds[0]


def product_of_denormals(way: Way) -> float:
    """Return half of a denormal number as it is computed one way: 0 if such numbers count as zero."""
    with way():
        return float(np.multiply(np.full(16, _TINY), np.float32(0.5))[0])


def _in_turn(by: Fit, rows: Matrix, labels: NDArray[np.int64]) -> tuple[list[list[float]], float]:
    """Return the seconds of each way, with denormal numbers as zero first, and the largest difference."""
    ways: tuple[Way, Way] = (tiny_as_zero, nullcontext)
    for way in ways:  # libraries are loaded, and caches filled, before anything is timed
        _timed(by, way, rows[:WARM_UP_ROWS], labels[:WARM_UP_ROWS])
    seconds: list[list[float]] = [[], []]
    answers = []
    for turn in range(TURNS):
        for number in (0, 1) if turn % 2 == 0 else (1, 0):
            taken, answer = _timed(by, ways[number], rows, labels)
            seconds[number].append(taken)
            answers.append(answer)
    gaps = [float(np.abs(one - other).max()) for one, other in itertools.combinations(answers, 2)]
    return seconds, max(gaps)


def _timed(by: Fit, way: Way, rows: Matrix, labels: NDArray[np.int64]) -> tuple[float, Matrix]:
    started = time.perf_counter()
    with way():
        predictions = by(rows, labels)
    return time.perf_counter() - started, predictions(rows[:1000])


def _by_institution(rows: Matrix, labels: NDArray[np.int64]) -> Callable[[Matrix], Matrix]:
    terms = AveragedTerms()
    parts: list[Options] = [
        LogisticOptions(terms.inverse_penalty, LogisticTerms().epochs),
        NetworkOptions(terms.hidden_units, terms.learning_rate, terms.epochs, terms.weight_penalty),
    ]
    fitted = fit_local_model(parts, rows.astype(np.float64), labels, 2, np.random.default_rng(terms.seed))
    assert fitted is not None  # noqa: S101  # there are two classes
    return fitted.predictions


def _by_analyst(rows: Matrix, labels: NDArray[np.int64]) -> Callable[[Matrix], Matrix]:
    fitted = fit(Averaged(), rows.astype(np.float32), labels, 2)
    return lambda asked: fitted.predictions(asked.astype(np.float32)).astype(np.float64)


if __name__ == "__main__":
    sys.exit(report.main(measure))
