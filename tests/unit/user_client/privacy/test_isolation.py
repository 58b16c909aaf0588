from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from user_client.privacy.isolation import isolated

NAMES = ("age", "dose", "weight")
RNG = np.random.default_rng(0)
AGE = RNG.uniform(-1, 1, 400)


def test_ranges_that_are_too_wide_for_all_columns_but_one_isolate_it() -> None:
    others = RNG.uniform(-0.01, 0.01, (400, 2)) + 0.01 * AGE[:, None]
    found = isolated(np.column_stack([AGE, others]), NAMES, (1, 1, 1))
    assert found is not None
    assert (found.column, found.share > 0.99, found.correlation > 0.999) == ("age", True, True)


def test_the_column_is_found_among_columns_of_several_features() -> None:
    levels = 0.001 * np.eye(3)[RNG.integers(0, 3, 400)]
    found = isolated(np.column_stack([levels, AGE]), ("site", "age"), (3, 1))
    assert found is not None
    assert found.column == "age"


@pytest.mark.parametrize(
    "rows",
    [
        RNG.uniform(-1, 1, (400, 3)),
        np.column_stack([AGE, AGE, AGE]),
        np.zeros((400, 3)),
        np.ones((1, 3)),
        np.empty((0, 3)),
    ],
)
def test_columns_that_vary_alike_isolate_none(
    rows: NDArray[np.float64],
) -> None:
    assert isolated(rows, NAMES, (1, 1, 1)) is None


def test_of_one_column_nothing_is_said() -> None:
    assert isolated(AGE[:, None], NAMES[:1], (1,)) is None
