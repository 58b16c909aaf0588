"""Ranks of several columns at once are those of each column by its definition."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import numpy as np
import pytest

from user_client.tables.fields import together
from user_client.tables.ranks import ranks


def by_definition(number: float, quantiles: list[float]) -> float:
    """Return the rank of one number as docs/protocol.md says it."""
    if math.isnan(number):
        return number
    inside = min(max(number, quantiles[0]), quantiles[-1])
    below, up_to = bisect_left(quantiles, inside), bisect_right(quantiles, inside)
    if up_to > below:
        place = (below + up_to - 1) / 2
    else:
        low, high = quantiles[below - 1], quantiles[below]
        place = below - 1 + (inside - low) / (high - low)
    return 2 * place / (len(quantiles) - 1) - 1


ALL_DIFFER = [-2.0, -0.5, 0.0, 0.25, 3.0]
SOME_EQUAL = [0.0, 0.0, 0.0, 1.0, 2.0]
LAST_EQUAL = [-1.0, 0.0, 1.0, 7.0, 7.0]


@pytest.mark.parametrize(
    "quantiles",
    [
        [ALL_DIFFER],
        [ALL_DIFFER, [2 * each for each in ALL_DIFFER], [each - 1 for each in ALL_DIFFER]],
        [SOME_EQUAL, LAST_EQUAL],
        [ALL_DIFFER, SOME_EQUAL, ALL_DIFFER, LAST_EQUAL],
        [list(np.linspace(-1, 1, 150)), list(np.linspace(0, 2, 150) ** 2)],
    ],
    ids=["one", "all differ", "some are equal", "both", "so many that they are searched"],
)
def test_each_number_has_the_rank_of_its_column(quantiles: list[list[float]]) -> None:
    rng = np.random.default_rng(0)
    numbers = np.array(
        [
            [*rng.normal(0, 2, 50), *rng.choice(known, 20), known[0] - 1, known[-1] + 1, math.nan]
            for known in quantiles
        ]
    )
    before = numbers.copy()
    found = ranks(numbers, np.array(quantiles))
    expected = [
        [by_definition(number, known) for number in column]
        for column, known in zip(numbers.tolist(), quantiles, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(numbers, before)  # they are still the table's


def test_a_column_has_the_same_bits_whatever_columns_are_beside_it() -> None:
    rng = np.random.default_rng(1)
    quantiles = np.sort(np.round(rng.standard_normal((7, 21)), 1))  # of which some columns have equal ones
    numbers = np.round(rng.standard_normal((7, 400)), 2)
    apart = np.concatenate([ranks(numbers[[row]], quantiles[[row]]) for row in range(7)])
    np.testing.assert_array_equal(ranks(numbers, quantiles), apart)


@pytest.mark.parametrize(("rows", "sizes"), [(0, [5]), (10, [5]), (30_000, [2, 2, 1]), (10**6, [1] * 5)])
def test_columns_come_together_as_long_as_their_numbers_are_few(rows: int, sizes: list[int]) -> None:
    found = list(together("abcde", rows))
    assert [len(each) for each in found] == sizes
    assert "".join("".join(each) for each in found) == "abcde"
