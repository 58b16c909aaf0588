from __future__ import annotations

import numpy as np
import pytest

from analyst_server.alignment.imakura import align_imakura
from analyst_server.alignment.odc import align_odc
from analyst_server.alignment.procrustes import align_procrustes
from tests.harness.problems import SEEDS, anchor, haar, own_span, shared_span


@pytest.mark.parametrize("seed", SEEDS)
def test_one_span_is_aligned_as_by_odc_up_to_one_turn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bases, _ = shared_span(rng)
    matrix = anchor("uniform", 30, rng)
    reps = [matrix @ basis for basis in bases]
    found, expected = align_procrustes(reps).changes_of_basis, align_odc(reps).changes_of_basis
    turn = found[0]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other @ turn, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_orthogonal_matrix_comes_closer_to_the_target(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reps = [anchor("uniform", 64, rng) @ basis for basis in own_span(rng, parties=3)]
    solution = align_procrustes(reps)
    for rep, change in zip(reps, solution.changes_of_basis, strict=True):
        found = np.linalg.norm(rep @ change - solution.target)
        step = haar(5, rng) * 1e-3
        nearby, _ = np.linalg.qr(np.eye(5) + step - step.T)  # a small turn
        for other in (np.eye(5), haar(5, rng), change @ nearby, change @ np.diag([-1, 1, 1, 1, 1])):
            assert found <= np.linalg.norm(rep @ other - solution.target) + 1e-10


def test_the_target_is_imakuras() -> None:
    rng = np.random.default_rng(0)
    reps = [anchor("uniform", 64, rng) @ basis for basis in own_span(rng)]
    np.testing.assert_array_equal(align_procrustes(reps).target, align_imakura(reps).target)
