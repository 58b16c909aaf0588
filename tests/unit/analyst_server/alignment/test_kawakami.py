from __future__ import annotations

import numpy as np
import pytest

from analyst_server.alignment.kawakami import align_kawakami
from tests.harness.problems import (
    SEEDS,
    Matrix,
    anchor,
    own_span,
    shared_span,
    worst_disagreement,
)


def different_spans(seed: int) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    matrix = anchor("uniform", 64, rng)
    return [matrix @ basis for basis in own_span(rng)]


def aligned(reps: list[Matrix], changes: list[Matrix]) -> Matrix:
    return np.stack([rep @ change for rep, change in zip(reps, changes, strict=True)])


def disagreements(reps: list[Matrix], changes: list[Matrix]) -> Matrix:
    """sum_ij ||A_i g_ik - A_j g_jk||^2 of every column k."""
    images = aligned(reps, changes)
    return np.asarray(sum(np.sum((one - other) ** 2, axis=0) for one in images for other in images))


@pytest.mark.parametrize("seed", SEEDS)
def test_bases_of_one_span_agree_though_they_are_not_orthonormal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bases = [basis @ rng.standard_normal((8, 8)) for basis in shared_span(rng)[0]]
    matrix = anchor("uniform", 30, rng)
    changes = align_kawakami([matrix @ basis for basis in bases]).changes_of_basis
    assert worst_disagreement(bases, changes) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_every_column_has_unit_length_over_all_parties_and_is_orthogonal_to_the_others(seed: int) -> None:
    reps = different_spans(seed)
    images = aligned(reps, align_kawakami(reps).changes_of_basis)
    np.testing.assert_allclose(np.einsum("iak,iaj->kj", images, images), np.eye(5), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_other_columns_of_that_length_disagree_less(seed: int) -> None:
    reps, rng = different_spans(seed), np.random.default_rng(seed)
    found = align_kawakami(reps).changes_of_basis
    best = disagreements(reps, found)
    assert (np.diff(best) >= -1e-12).all()
    for size in (1e-3, 0.1, 10.0):
        other = [change + size * rng.standard_normal(change.shape) for change in found]
        lengths = np.sqrt(np.sum(aligned(reps, other) ** 2, axis=(0, 1)))
        assert disagreements(reps, [change / lengths for change in other])[0] >= best[0] - 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_party_does_to_its_own_representation_is_undone(seed: int) -> None:
    reps, rng = different_spans(seed), np.random.default_rng(seed)
    plain = align_kawakami(reps).changes_of_basis
    own = rng.standard_normal((5, 5))
    changed = align_kawakami([reps[0] @ own, *reps[1:]]).changes_of_basis
    np.testing.assert_allclose(own @ changed[0], plain[0], rtol=0, atol=1e-8 * np.abs(plain[0]).max())
    np.testing.assert_allclose(changed[1], plain[1], rtol=0, atol=1e-8 * np.abs(plain[1]).max())


def test_a_direction_that_no_party_has_is_a_column_of_zeros() -> None:
    rng = np.random.default_rng(0)
    flat = [rng.standard_normal((20, 1)) @ np.ones((1, 4)) for _ in range(2)]
    for change in align_kawakami(flat).changes_of_basis:
        np.testing.assert_allclose(change[:, 2:], 0, atol=1e-12)
        assert np.abs(change[:, :2]).max() > 0.01
