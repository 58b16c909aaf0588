"""Rows in a random order: every order as likely, and few bytes for each row."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from tests.harness.peaks import peak_bytes
from user_client.custody.scratch import Scratch
from user_client.rows import Block, Rows
from user_client.sdk.row_order import PART_BYTES, shuffled
from user_client.secret.expansion import uniform

BLOCK_ROWS, WIDTH = 10_000, 8


def stream(seed: int) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes  # repeats


def numbered(blocks: int) -> Rows:
    """Rows that say which they are, made when they are read."""

    def block(number: int) -> Block:
        def load() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
            found = np.zeros((BLOCK_ROWS, WIDTH))
            found[:, 0] = np.arange(number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS)
            return found

        return Block(load, BLOCK_ROWS)

    return Rows([block(number) for number in range(blocks)], WIDTH)


@pytest.mark.parametrize("blocks", [0, 1, 60], ids=["none", "one part", "several parts"])
def test_the_order_is_the_sorting_order_of_uniform_numbers(blocks: int, tmp_path: Path) -> None:
    rows = numbered(blocks)
    found, order = shuffled(rows, stream(0), Scratch(tmp_path))
    expected = np.argsort(uniform(stream(0), len(rows)), kind="stable")
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(np.asarray(found).reshape(-1, WIDTH)[:, 0], expected)


def test_every_order_comes_equally_often(tmp_path: Path) -> None:
    source, draws = stream(1), 6000
    three = Rows.of(np.eye(3))
    drawn = np.array([shuffled(three, source, Scratch(tmp_path))[1] for _ in range(draws)])
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert scipy.stats.chisquare(counts).pvalue > 1e-5
    assert len(counts) == 6


def test_of_each_row_little_more_than_its_number_stays_in_memory(tmp_path: Path) -> None:
    few, many = (
        peak_bytes(lambda: shuffled(numbered(blocks), stream(0), Scratch(tmp_path, in_memory_bytes=0)))  # noqa: B023
        for blocks in (100, 400)
    )
    assert 8 * WIDTH * 100 * BLOCK_ROWS > 3 * PART_BYTES  # the fewer rows are in several parts too
    assert many - few < 6 * 300 * BLOCK_ROWS
