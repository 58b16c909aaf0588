from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from analyst_server.alignment import _spectral
from analyst_server.alignment._spectral import Stack, leading_directions, whiten
from tests.harness.problems import Matrix, haar

SHAPES = {"wide": (20, 12), "tall": (60, 4), "square": (24, 6)}
"""(rows, parties of four columns)"""


def blocks(rows: int, parties: int, seed: int = 0) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((rows, 4)) + 5 * rng.random((rows, 1)) for _ in range(parties)]


def matrix_with(values: list[float], rows: int, parties: int) -> list[Matrix]:
    """Blocks of a matrix of known singular values, the rest of them 1e-9."""
    rng = np.random.default_rng(0)
    order = min(rows, 4 * parties)
    spectrum = np.full(order, 1e-9)
    spectrum[: len(values)] = values
    left = np.linalg.qr(rng.standard_normal((rows, order)))[0]
    right = np.linalg.qr(rng.standard_normal((4 * parties, order)))[0]
    return np.split(left * spectrum @ right.T, parties, axis=1)


def projector(columns: Matrix) -> Matrix:
    return np.asarray(columns @ columns.T)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_directions_and_values_are_those_of_a_full_decomposition(shape: tuple[int, int]) -> None:
    found, values = leading_directions(Stack(blocks(*shape)), 4)
    left, expected, _ = np.linalg.svd(np.hstack(blocks(*shape)))
    np.testing.assert_allclose(values, expected[:4], rtol=1e-10)
    np.testing.assert_allclose(projector(found), projector(left[:, :4]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_weights_are_as_good_as_weighted_blocks(shape: tuple[int, int]) -> None:
    reps, rng = blocks(*shape), np.random.default_rng(1)
    weights = [rng.standard_normal((4, 3)) for _ in reps]
    weighted = [rep @ weight for rep, weight in zip(reps, weights, strict=True)]
    found, _ = leading_directions(Stack(reps, weights), 2)
    expected, _ = leading_directions(Stack(weighted), 2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("last", [1e-2, 1e-7])
def test_gram_matrix_and_qr_find_the_same_space(shape: tuple[int, int], last: float) -> None:
    """A Gram matrix still resolves a last singular value of 1e-2, but not one of 1e-7."""
    stack = Stack(matrix_with([1.0, 0.5, last], *shape))
    found, values = leading_directions(stack, 3)
    left, _, _ = np.linalg.svd(np.hstack(stack.reps))
    np.testing.assert_allclose(projector(found), projector(left[:, :3]), rtol=0, atol=1e-8)
    np.testing.assert_allclose(values, [1.0, 0.5, last], rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_directions_that_nobody_has_are_filled_up_orthonormally(shape: tuple[int, int]) -> None:
    reps = [rep[:, :1] @ np.ones((1, 4)) for rep in blocks(*shape)[:2]]
    found, values = leading_directions(Stack(reps), 4)
    np.testing.assert_allclose(found.T @ found, np.eye(4), rtol=0, atol=1e-12)
    np.testing.assert_allclose(values[2:], 0, atol=1e-12 * values[0])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_the_size_of_a_block_changes_nothing(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    stacks = [Stack(blocks(*shape)), Stack(matrix_with([1.0, 0.5, 0.2, 1e-7], *shape))]
    whole = [leading_directions(stack, 4) for stack in stacks]
    monkeypatch.setattr(_spectral, "BLOCK_BYTES", 8 * 20 * 5)
    for (expected, _), stack in zip(whole, stacks, strict=True):
        found, _ = leading_directions(stack, 4)
        np.testing.assert_allclose(projector(found), projector(expected), rtol=0, atol=1e-8)


def test_few_directions_of_many_are_found() -> None:
    stack = Stack(matrix_with([1.0, 0.9], 60, 12))
    found, values = leading_directions(stack, 2)
    left, _, _ = np.linalg.svd(np.hstack(stack.reps))
    np.testing.assert_allclose(projector(found), projector(left[:, :2]), rtol=0, atol=1e-10)
    np.testing.assert_allclose(values, [1.0, 0.9], rtol=1e-10)


def test_the_largest_entry_of_a_direction_is_positive() -> None:
    found, _ = leading_directions(Stack(matrix_with([3.0, 2.0, 1.0, 0.5], 30, 3)), 4)
    assert (np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0) > 0).all()


def test_more_directions_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="5 directions asked for, there are 4 at most"):
        leading_directions(Stack(blocks(20, 1)), 5)


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e5, 1e7])
def test_whitening_makes_columns_orthonormal_and_gives_the_pseudo_inverse(condition: float) -> None:
    rng = np.random.default_rng(0)
    spectrum = np.geomspace(1, 1 / condition, 5)
    rep = np.linalg.qr(rng.standard_normal((40, 5)))[0] * spectrum @ haar(5, rng)
    weights = whiten(rep)
    basis = rep @ weights
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), rtol=0, atol=1e-14 * max(1e4, condition))
    expected = np.linalg.pinv(rep)
    error = np.linalg.norm(weights @ basis.T - expected) / np.linalg.norm(expected)
    assert error < 1e-14 * max(1e3, condition)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_directions_that_a_party_lost_are_left_out(rank: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    rep = (rng.standard_normal((40, rank)) @ rng.standard_normal((rank, 5))).astype(dtype)
    assert whiten(rep).shape == (5, rank)


@pytest.mark.parametrize(("rows", "parties"), [(200, 1500), (8000, 100)])
def test_the_parties_are_never_stacked(rows: int, parties: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    reps: list[Matrix] = [rng.random((rows, 8), dtype=np.float32) for _ in range(parties)]
    monkeypatch.setattr(_spectral, "BLOCK_BYTES", 2**20)
    tracemalloc.start()
    leading_directions(Stack(reps), 8)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    answer_bytes = 8 * 8 * max(rows, 8 * parties)
    stacked_bytes = 8 * rows * 8 * parties  # in float64
    assert peak_bytes < 5 * answer_bytes + stacked_bytes / 4 < stacked_bytes
