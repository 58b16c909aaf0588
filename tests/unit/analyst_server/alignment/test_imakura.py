from __future__ import annotations

import numpy as np
import pytest

from analyst_server.alignment.imakura import align_imakura
from analyst_server.alignment.odc import align_odc
from tests.harness.problems import (
    SEEDS,
    Matrix,
    anchor,
    haar,
    own_span,
    shared_span,
    worst_disagreement,
)


def stretched(seed: int) -> tuple[list[Matrix], list[Matrix]]:
    """Bases of one span that are not orthonormal, and their anchor representations."""
    rng = np.random.default_rng(seed)
    bases = [basis @ rng.standard_normal((8, 8)) for basis in shared_span(rng)[0]]
    matrix = anchor("uniform", 30, rng)
    return bases, [matrix @ basis for basis in bases]


@pytest.mark.parametrize("seed", SEEDS)
def test_bases_of_one_span_agree_though_they_are_not_orthonormal(seed: int) -> None:
    bases, reps = stretched(seed)
    assert worst_disagreement(bases, align_imakura(reps).changes_of_basis) < 1e-9
    assert worst_disagreement(bases, align_odc(reps).changes_of_basis) > 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_every_party_comes_as_close_to_the_target_as_its_span_allows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reps = [anchor("uniform", 64, rng) @ basis for basis in own_span(rng)]
    found = align_imakura(reps)
    for rep, change in zip(reps, found.changes_of_basis, strict=True):
        error = rep @ change - found.target
        np.testing.assert_allclose(rep.T @ error, 0, atol=1e-9 * float(np.linalg.norm(rep)))


def test_the_target_is_orthonormal_and_the_best_of_its_dimension() -> None:
    _, reps = stretched(0)
    noisy = [rep + 0.1 * np.random.default_rng(i).standard_normal(rep.shape) for i, rep in enumerate(reps)]
    target, stack = align_imakura(noisy).target, np.hstack(noisy)
    np.testing.assert_allclose(target.T @ target, np.eye(8), rtol=0, atol=1e-12)
    left_over = np.linalg.svd(stack, compute_uv=False)[8:]
    assert np.linalg.norm(stack - target @ target.T @ stack) == pytest.approx(np.linalg.norm(left_over))


def test_any_invertible_right_factor_leaves_the_parties_in_agreement() -> None:
    bases, reps = stretched(0)
    factor = np.random.default_rng(1).random((8, 8))
    changes = [change @ factor for change in align_imakura(reps).changes_of_basis]
    assert worst_disagreement(bases, changes) < 1e-8


def test_a_wider_party_loses_what_the_others_do_not_have() -> None:
    rng = np.random.default_rng(0)
    directions, matrix = haar(10, rng), anchor("haar", 10, rng)
    bases = [directions[:, :3], directions[:, :5], directions[:, [0, 1, 2, 6]]]
    changes = align_imakura([matrix @ basis for basis in bases]).changes_of_basis
    for basis, change in zip(bases, changes, strict=True):
        # the three shared directions and nothing else
        np.testing.assert_allclose((basis @ change).T @ directions[:, 3:], 0, atol=1e-12)
    assert worst_disagreement(bases, changes) < 1e-12
