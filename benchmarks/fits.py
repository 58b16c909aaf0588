"""What numbers too small for their exponent cost the fit of a network: `python -m benchmarks.fits`.

The default model is fitted twice on the same rows, with denormal numbers as zero (what users get) and as
they are, by the institution's code and by the analyst's. Rows of few factors and many columns need little of
the network, so that much of it shrinks.
"""

from __future__ import annotations

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
SAME_PREDICTIONS: Final = 1e-6
NOT_SLOWER: Final = 0.9
"""Ratio of seconds; the rest is noise of the machine."""
Matrix = NDArray[np.float64]
Fit = Callable[[Matrix, NDArray[np.int64]], Callable[[Matrix], Matrix]]


def measure(options: report.Options) -> Report:
    """Fit by each side, with and without: it is no slower, and predictions are the same."""
    return compared(FULL_ROWS if options.full else ROWS, COLUMNS, FACTORS)


def compared(count: int, columns: int, factors: int) -> Report:
    """Return rows and claims of tables of this size."""
    found = Report("fits", {"rows": count, "columns": columns, "factors": factors, "model": "averaged"})
    rng = np.random.default_rng(0)
    rows = 0.1 * rng.standard_normal((count, factors)) @ rng.standard_normal((factors, columns))
    labels = (rows[:, 0] + 0.3 * rng.standard_normal(count) > 0).astype(np.int64)
    ratios, gaps = [], []
    for side, by in (("institution", _by_institution), ("analyst", _by_analyst)):
        seconds, answers = zip(
            *(_timed(by, way, rows, labels) for way in (tiny_as_zero, nullcontext)), strict=True
        )
        ratios.append(seconds[1] / seconds[0])
        gaps.append(float(np.abs(answers[0] - answers[1]).max()))
        found.rows.append(
            {"side": side, "seconds": seconds[0], "with_denormals": seconds[1], "ratio": ratios[-1]}
        )
    found.claim("fit_not_slower", min(ratios), "times as fast as with denormal numbers", ">=", NOT_SLOWER)
    found.claim("fit_prediction_gap", max(gaps), "of a probability", "<=", SAME_PREDICTIONS)
    return found


def _timed(
    by: Fit, way: Callable[[], AbstractContextManager[None]], rows: Matrix, labels: NDArray[np.int64]
) -> tuple[float, Matrix]:
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
