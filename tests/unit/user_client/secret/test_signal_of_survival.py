from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from user_client.secret.basis import principal_axes
from user_client.secret.signal import OwnScore, score_of
from user_client.secret.targets import targets_of

Matrix = NDArray[np.float64]


def survival_of(rows: Matrix, weights: Matrix, share: float, rng: np.random.Generator) -> Matrix:
    """Return times of rows, of which about a share has the event, negative without it, up to 1."""
    event = rng.exponential(size=len(rows)) * np.exp(-(rows @ weights))
    end = rng.exponential(size=len(rows)) * share / (1 - share)
    until = np.minimum(event, end)
    return np.asarray(np.where(event <= end, until, -until) / until.max())


def score_of_times(rows: Matrix, times: Matrix) -> OwnScore | None:
    return score_of(rows, targets_of(times, are_times=True))


def rare_events(seed: int) -> tuple[Matrix, Matrix]:
    """Return rows of nine features, in three groups that vary together, and times that follow differences."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(rng.standard_normal((900, 3)), 3, axis=1) + 0.35 * rng.standard_normal((900, 9))
    weights = np.array([1.8, -1.8, 0, -1.4, 1.4, 0, 0, 0, 0])
    return rows, survival_of(rows, weights, 0.03, rng)


@pytest.mark.parametrize("seed", range(5))
def test_rare_events_that_follow_what_varies_least_have_a_signal_and_its_loss_is_seen(seed: int) -> None:
    """Though nearly all rows are censored, and what is left of them then is in the order of their times."""
    rows, times = rare_events(seed)
    score = score_of_times(rows, times)
    assert score is not None
    assert score.auc > 0.7
    axes = principal_axes(rows)[1]
    assert score.along(axes[:, :3]).kept < 0.3
    assert score.dimensions(axes, 0.95) > 3


def test_the_score_is_harrells_concordance() -> None:
    """Of the scores that it was fitted to, on as many rows that a row left out changes little."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((900, 3))
    times = survival_of(rows, np.array([1.0, 0.5, 0]), 0.2, rng)
    score = score_of_times(rows, times)
    assert score is not None
    told, right, pairs = rows @ score.weights[:, 0], 0.0, 0
    for row in np.flatnonzero(times > 0):
        later = np.abs(times) > times[row]
        right, pairs = right + np.sum(told[row] > told[later]), pairs + np.sum(later)
    assert score.auc == pytest.approx(right / pairs, abs=0.01)
    assert score.measure == "concordance"


@pytest.mark.parametrize(("count", "share"), [(200, 0.1), (200, 0.5), (400, 0.05), (1000, 0.05), (1000, 0.3)])
def test_times_that_the_rows_say_nothing_about_cannot_tell(count: int, share: float) -> None:
    """Of 40 tables of noise, four may pass: the share that does is about one in fifty."""
    passed = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, count])
        rows = rng.standard_normal((count, 8))
        passed += score_of_times(rows, survival_of(rows, np.zeros(8), share, rng)) is not None
    assert passed <= 4


@pytest.mark.parametrize("events", [0, 4])
def test_rows_with_too_few_events_cannot_tell(events: int) -> None:
    rng = np.random.default_rng(0)
    times = -rng.uniform(0.1, 1, 60)
    times[:events] *= -1
    assert score_of_times(rng.standard_normal((60, 3)), times) is None
