"""Rows that are read in blocks are the same rows, wherever the blocks are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.harness.peaks import peak_bytes
from user_client.custody.scratch import Float, Scratch
from user_client.rows import Block, Rows, blocks_of, sample_of

WHOLE = np.random.default_rng(0).standard_normal((100, 3))
CUTS = [0, 1, 40, 40, 77]


def in_memory(directory: Path) -> Rows:
    return Scratch(directory).keep(np.split(WHOLE, CUTS), 3)


def on_disk(directory: Path) -> Rows:
    return Scratch(directory, in_memory_bytes=0).keep(np.split(WHOLE, CUTS), 3)


def partly_on_disk(directory: Path) -> Rows:
    return Scratch(directory, in_memory_bytes=41 * 3 * 8).keep(np.split(WHOLE, CUTS), 3)


def as_one(_: Path) -> Rows:
    return Rows.of(WHOLE)


Kind = Callable[[Path], Rows]
kinds = pytest.mark.parametrize("kind", [in_memory, on_disk, partly_on_disk, as_one])


@kinds
def test_what_a_function_returns_of_each_block_comes_in_their_order(kind: Kind, tmp_path: Path) -> None:
    seen: list[float] = []

    def of_block(block: np.ndarray) -> float:
        seen.append(float(block.sum()))  # noise is drawn in such a function: for one block after the other
        return seen[-1]

    rows = kind(tmp_path)
    assert list(rows.mapped(of_block)) == seen == [block.sum() for block in rows.blocks()]


def test_an_error_of_such_a_function_is_raised_where_its_block_would_come(tmp_path: Path) -> None:
    def of_block(block: np.ndarray) -> int:
        if block[0, 0] == WHOLE[40, 0]:
            raise OSError("the disk is gone")
        return len(block)

    found = in_memory(tmp_path).mapped(of_block)
    assert [next(found), next(found)] == [1, 39]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)


@kinds
def test_the_blocks_are_the_rows(kind: Kind, tmp_path: Path) -> None:
    rows = kind(tmp_path)
    assert (len(rows), rows.shape) == (100, (100, 3))
    for _ in range(2):  # as often as somebody asks
        np.testing.assert_array_equal(np.concatenate([*rows.blocks()]), WHOLE)
    np.testing.assert_array_equal(np.asarray(rows), WHOLE)
    assert all(len(block) for block in blocks_of(rows))


@kinds
@pytest.mark.parametrize("numbers", [[], [0], [99], [0, 1, 39, 40, 41, 76, 77, 99], list(range(100))])
def test_some_rows_are_taken_by_their_numbers(kind: Kind, tmp_path: Path, numbers: list[int]) -> None:
    taken = np.array(numbers, dtype=np.int64)
    np.testing.assert_array_equal(kind(tmp_path).take(taken), WHOLE[taken])


@kinds
def test_rows_are_chosen_again_and_again(kind: Kind, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    first = rng.random(100) < 0.5
    second = rng.random(first.sum()) < 0.5
    second[-10:] = False  # the last block is left without rows
    rows = kind(tmp_path).where(first).where(second)
    expected = WHOLE[first][second]
    np.testing.assert_array_equal(np.concatenate([*rows.blocks()]), expected)
    np.testing.assert_array_equal(rows.take(np.array([0, len(expected) - 1])), expected[[0, -1]])
    nothing = rows.where(np.zeros(len(rows), np.bool_))
    assert nothing.shape == (0, 3)
    assert np.asarray(nothing).shape == (0, 3)


@kinds
def test_no_row_is_in_the_repr(kind: Kind, tmp_path: Path) -> None:
    assert repr(kind(tmp_path)) == "<Rows of shape (100, 3)>"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at open files as Linux shows them")
def test_nothing_readable_reaches_the_disk_and_nothing_is_left_there(tmp_path: Path) -> None:
    rows = on_disk(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (file,) = [path for path in Path("/proc/self/fd").iterdir() if str(tmp_path) in _target(path)]
    written = file.read_bytes()
    assert len(written) >= WHOLE.nbytes
    assert not any(row.tobytes() in written for row in WHOLE)
    np.testing.assert_array_equal(np.asarray(rows), WHOLE)
    del rows
    assert not file.exists()


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # closed since it was listed
        return ""


def test_a_sample_has_about_as_many_rows_as_it_should() -> None:
    rng = np.random.default_rng(2)
    np.testing.assert_array_equal(sample_of(50, 50, rng), np.arange(50))
    found = sample_of(10_000, 1000, rng)
    assert 800 < len(found) < 1200
    assert (np.diff(found) > 0).all()
    assert 4500 < found.mean() < 5500


@pytest.mark.parametrize("width", [1, 2, 3, 50])
@pytest.mark.parametrize("share", [0.01, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_a_large_block_are_taken(width: int, share: float, dtype: Float, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    whole = rng.standard_normal((3000, width)).astype(np.float32).astype(np.float64)
    scratch = Scratch(tmp_path, in_memory_bytes=0)
    rows = scratch.keep([whole[:1001], whole[1001:1002], whole[1002:]], width, dtype)
    chosen = rng.random(3000) < 0.9
    for among, expected in ((rows, whole), (rows.where(chosen), whole[chosen])):
        taken = np.flatnonzero(rng.random(len(expected)) < share)
        np.testing.assert_array_equal(among.take(taken), expected[taken])


def test_rows_are_rounded_on_the_disk_alone(tmp_path: Path) -> None:
    rows = Scratch(tmp_path, in_memory_bytes=41 * 3 * 8).keep(np.split(WHOLE, CUTS), 3, np.float32)
    found, rounded = np.asarray(rows), WHOLE.astype(np.float32).astype(np.float64)
    assert found.dtype == np.float64
    for each in np.split(np.arange(len(WHOLE)), CUTS):
        assert any(np.array_equal(found[each], known[each]) for known in (WHOLE, rounded))
    exact = (found == WHOLE).all(axis=1)
    assert 0 < exact.sum() < len(WHOLE)
    np.testing.assert_array_equal(found[~exact], rounded[~exact])


def test_few_rows_are_read_without_the_others(tmp_path: Path) -> None:
    whole = np.random.default_rng(4).standard_normal((50_000, 10))
    rows = Scratch(tmp_path, in_memory_bytes=0).keep([whole], 10)
    assert peak_bytes(lambda: rows.take(np.arange(0, 50_000, 500))) < whole.nbytes / 8


def test_rows_that_are_taken_are_in_memory_once() -> None:
    rows = Rows([Block(np.zeros((1000, 20)).copy, 1000) for _ in range(100)], 20)
    taken = np.arange(0, 100_000, 2)
    assert peak_bytes(lambda: rows.take(taken)) < 1.25 * rows.take(taken).nbytes
