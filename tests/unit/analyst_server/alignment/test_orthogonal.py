from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from analyst_server.alignment import _orthogonal
from analyst_server.alignment._orthogonal import polar_factors
from tests.harness.problems import Matrix, haar

EXACT = 1e-10
"""Accuracy of double precision where singular values go down to 1e-5 of the largest."""


def conditioned(order: int, condition: float, count: int = 5, seed: int = 0) -> tuple[Matrix, Matrix]:
    """Return a stack ``U V.T V S V.T`` and its factors ``U V.T``, S from 1 down to 1 / condition."""
    rng = np.random.default_rng(seed)
    values = np.geomspace(1, 1 / condition, order)
    lefts = np.stack([haar(order, rng) for _ in range(count)])
    rights = np.stack([haar(order, rng) for _ in range(count)])
    return lefts * values @ rights.transpose(0, 2, 1), lefts @ rights.transpose(0, 2, 1)


def assert_orthogonal(factors: Matrix, tolerance: float = 1e-12) -> None:
    order = factors.shape[-1]
    grams = factors.transpose(0, 2, 1) @ factors
    np.testing.assert_allclose(grams, np.broadcast_to(np.eye(order), grams.shape), rtol=0, atol=tolerance)


@pytest.mark.parametrize("condition", [1, 2, 30, 1e3, 1e5, 1e6])
@pytest.mark.parametrize("order", [2, 3, 20, 50, 140])
def test_the_known_factor_is_found(order: int, condition: float) -> None:
    matrices, expected = conditioned(order, condition)
    found = polar_factors(matrices)
    np.testing.assert_allclose(found, expected, rtol=0, atol=EXACT)
    assert_orthogonal(found)


@pytest.mark.parametrize("condition", [1, 2, 30, 1e3, 1e5])
@pytest.mark.parametrize("order", [2, 3, 20, 50, 140])
def test_single_precision_stays_single_and_is_as_good_as_it_can_be(order: int, condition: float) -> None:
    matrices, expected = conditioned(order, condition)
    found = polar_factors(matrices.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * max(condition, 3))
    assert_orthogonal(found, 1e-5)


@pytest.mark.parametrize("order", [3, 50])
def test_a_few_bad_matrices_of_a_stack_spoil_no_other(order: int) -> None:
    matrices, expected = conditioned(order, 10, count=9)
    worse, its_factor = conditioned(order, 1e9, count=1, seed=1)
    matrices[7], expected[7] = worse[0], its_factor[0]
    matrices[2] = 0
    matrices[4, :, 0] = matrices[4, :, 1]
    found = polar_factors(matrices)
    assert_orthogonal(found)
    np.testing.assert_allclose(found[7], expected[7], rtol=0, atol=1e-6)
    good = [0, 1, 3, 5, 6, 8]
    np.testing.assert_allclose(found[good], expected[good], rtol=0, atol=EXACT)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [0, 1, 4])
def test_a_stack_without_full_rank_still_gives_orthogonal_matrices(rank: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    matrices = (rng.standard_normal((6, 5, rank)) @ rng.standard_normal((6, rank, 5))).astype(dtype)
    found = polar_factors(matrices)
    assert_orthogonal(found, 1e-5 if dtype == np.float32 else 1e-12)
    # it is one of the maximisers: tr(G.T M) is the sum of the singular values
    reached = np.einsum("kij,kij->k", found, matrices)
    best = np.linalg.svd(matrices, compute_uv=False).sum(axis=1)
    np.testing.assert_allclose(reached, best, rtol=1e-5, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_the_scale_of_a_matrix_does_not_matter(scale: float) -> None:
    matrices, expected = conditioned(6, 50)
    np.testing.assert_allclose(polar_factors(matrices * scale), expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("scale", [1e-36, 1e36])
def test_the_scale_does_not_matter_in_single_precision(scale: float) -> None:
    matrices, expected = conditioned(6, 50)
    found = polar_factors((matrices * scale).astype(np.float32))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_matrices_of_different_scales_share_a_stack() -> None:
    matrices, expected = conditioned(6, 50)
    scales = np.array([1e-200, 1e-3, 1, 1e5, 1e200])[:, None, None]
    np.testing.assert_allclose(polar_factors(matrices * scales), expected, rtol=0, atol=EXACT)


def test_multiples_of_orthogonal_matrices_lose_nothing_but_rounding() -> None:
    """What parties of one span under a Haar anchor come to."""
    rng = np.random.default_rng(0)
    turns = np.stack([haar(30, rng) for _ in range(20)])
    np.testing.assert_allclose(polar_factors(7 * turns), turns, rtol=0, atol=1e-13)


def test_with_order_one_the_factor_is_the_sign() -> None:
    found = polar_factors(np.array([[[3.0]], [[-1e-9]], [[2.0]]]))
    np.testing.assert_array_equal(found.ravel(), [1.0, -1.0, 1.0])


def test_what_is_not_finite_is_refused() -> None:
    matrices, _ = conditioned(4, 10)
    matrices[1, 2, 3] = np.nan
    with pytest.raises(np.linalg.LinAlgError):
        polar_factors(matrices)


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_the_answer_does_not_depend_on_the_number_of_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrices, expected = conditioned(8, 100, count=7)
    monkeypatch.setattr(_orthogonal, "own_threads", lambda _: nullcontext(threads))
    np.testing.assert_allclose(polar_factors(matrices), expected, rtol=0, atol=EXACT)


def test_the_matrices_are_not_modified() -> None:
    matrices, _ = conditioned(8, 100)
    before = matrices.copy()
    polar_factors(matrices)
    np.testing.assert_array_equal(matrices, before)
