"""What is counted, drawn and computed of the labels of many rows takes few bytes for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.harness.peaks import peak_bytes
from user_client.rows import are_alike, class_counts
from user_client.scores import can_be_scored
from user_client.sdk.hold_out import choose
from user_client.secret.cox import residuals
from user_client.secret.targets import targets_of
from user_client.tables import strata

ROWS = 2**21 + 12_345
CLASSES = np.random.default_rng(0).choice(3, ROWS, p=[0.7, 0.3, 0]).astype(np.uint8)
NUMBERS = np.random.default_rng(1).random(ROWS, dtype=np.float32)


def seed(count: int) -> bytes:
    return b"a seed of the tests".ljust(count)[:count]


@pytest.mark.parametrize(
    ("call", "most"),
    [
        (lambda: class_counts(CLASSES), 1),
        (lambda: targets_of(CLASSES), 1),
        (lambda: targets_of(NUMBERS), 1),
        (lambda: can_be_scored(NUMBERS, "number"), 1),
        (lambda: strata(NUMBERS, "number"), 8),  # quantiles sort a copy
        (lambda: strata(NUMBERS, "survival"), 3),
        (lambda: choose(CLASSES, 0.2, seed), 4),
        (lambda: residuals(np.sign(NUMBERS - 0.5) * NUMBERS.round(3)), 26),  # eight for each are the result
    ],
    ids=["counts", "classes", "numbers", "scored", "quarters", "events", "hold-out", "residuals"],
)
def test_few_bytes_are_taken_for_each_row(call: Callable[[], object], most: int) -> None:
    assert peak_bytes(call) < most * ROWS


def test_the_rows_of_a_class_are_counted_as_a_sort_counts_them() -> None:
    assert class_counts(CLASSES).tolist() == np.unique(CLASSES, return_counts=True)[1].tolist()
    assert class_counts(np.array([4, 0, 4], np.uint16)).tolist() == [1, 0, 0, 0, 2]
    assert class_counts(np.empty(0, np.uint8)).tolist() == []


@pytest.mark.parametrize(
    ("numbers", "alike"), [([], True), ([0.5], True), ([0.5, 0.5], True), ([0.5, 0.25], False)]
)
def test_numbers_are_alike_if_there_are_no_two_different_ones(numbers: list[float], alike: bool) -> None:
    assert are_alike(np.array(numbers, np.float32)) is alike


def kept_in(rows: NDArray[Any], first: int, last: int) -> int:
    return int(np.sum((rows >= first) & (rows < last)))


def test_of_many_rows_too_the_share_of_each_class_is_kept_back_wherever_they_stand() -> None:
    kept = np.flatnonzero(choose(CLASSES, 0.2, seed))
    assert class_counts(CLASSES[kept]).tolist() == [round(0.2 * each) for each in class_counts(CLASSES)][:2]
    tenth = ROWS // 10
    for start in range(0, 10 * tenth, tenth):  # 6 standard deviations of a share of so many rows
        assert kept_in(kept, start, start + tenth) / tenth == pytest.approx(0.2, abs=0.006)
    np.testing.assert_array_equal(np.flatnonzero(choose(CLASSES, 0.2, seed)), kept)
