"""What the bands of all columns together tell, and a model that draws no curves does not."""

from __future__ import annotations

import numpy as np
import pytest

from user_client.secret.bands import FEWEST_ROWS
from user_client.secret.together import MOST_COLUMNS, Together, told_together

ROWS = 600


def told(label: str, seed: int, *, columns: int = 6, rows: int = ROWS) -> Together | None:
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (rows, columns))
    means = {
        "curves": (features[:, :4] ** 2).sum(axis=1),
        "line": features @ np.arange(columns),
        "nothing": np.zeros(rows),
    }
    targets = (means[label] + rng.standard_normal(rows) / 3)[:, None]
    return told_together(
        features, range(columns), targets, lambda known: np.full((rows - known.sum(), 1), targets.mean())
    )


@pytest.mark.parametrize("seed", range(3))
def test_several_weak_curves_are_found_together(seed: int) -> None:
    found = told("curves", seed)
    assert found is not None
    assert found.is_lost
    assert found.in_bands > 0.3 > 0.1 > found.by_model


@pytest.mark.parametrize("label", ["line", "nothing"])
@pytest.mark.parametrize("seed", range(10))
def test_what_lies_along_a_line_is_not_lost(label: str, seed: int) -> None:
    found = told(label, seed)
    assert found is not None
    assert not found.is_lost


def test_a_model_that_draws_the_curves_loses_nothing() -> None:
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (ROWS, 3))
    targets = (features**2).sum(axis=1)[:, None]
    found = told_together(features, range(3), targets, lambda known: targets[~known])
    assert found is not None
    assert not found.is_lost


def test_few_rows_many_columns_and_a_model_that_cannot_be_fitted_tell_nothing() -> None:
    assert told("line", 0, rows=FEWEST_ROWS - 1) is None
    assert told("line", 0, columns=MOST_COLUMNS + 1) is None
    rows = np.zeros((ROWS, 1))
    assert told_together(rows, [0], rows, lambda _: None) is None
    assert told_together(rows, [0], rows, lambda known: rows[~known]) is None
