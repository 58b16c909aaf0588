from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

from analyst_server.alignment.procrustes import align_procrustes
from analyst_server.alignment.rdp import PENALTY, TOLERANCE, Objective, align_rdp, descend
from tests.harness.problems import Matrix, anchor, haar, own_span, shared_span


def different_spans(seed: int, parties: int = 4) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    matrix = anchor("haar", 64, rng)
    return [matrix @ basis for basis in own_span(rng, parties=parties, latent_dim=3)]


def objective(reps: list[Matrix], changes: Any, penalty: float = 1.0) -> float:
    """Eq. (24) with eta = penalty times the mean squared norm, divided by that norm."""
    unit = float(np.mean([np.sum(rep**2) for rep in reps]))
    images = [rep @ change for rep, change in zip(reps, changes, strict=True)]
    pairs = sum(float(np.sum((one - other) ** 2)) for one in images for other in images) / 2
    return pairs / unit + penalty * float(np.sum(np.log(np.linalg.det(changes) ** 2) ** 2))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_that_of_the_value(seed: int, fixed: bool) -> None:
    rng = np.random.default_rng(seed)
    reps = rng.standard_normal((3, 9, 2))
    function = Objective(reps, 0.7, 3, rng.standard_normal((9, 2)) if fixed else None)
    point = rng.standard_normal(12)
    numeric = optimize.approx_fprime(point, lambda flat: function(flat)[0], 1e-7)
    gradient = function(point)[1]
    np.testing.assert_allclose(gradient, numeric, rtol=0, atol=1e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("seed", range(5))
def test_the_value_is_the_printed_sum_over_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reps = rng.standard_normal((4, 9, 3))
    reps /= np.sqrt(np.mean(np.sum(reps**2, axis=(1, 2))))
    changes = rng.standard_normal((4, 3, 3))
    found, _ = Objective(reps, 2.0, 4)(changes.ravel())
    assert found == pytest.approx(objective(list(reps), changes, 2.0))


@pytest.mark.parametrize("seed", range(5))
def test_the_descent_ends_below_orthogonal_procrustes(seed: int) -> None:
    reps = different_spans(seed)
    found = align_rdp(reps)
    begin = np.stack(align_procrustes(reps).changes_of_basis)
    assert objective(reps, np.stack(found.changes_of_basis)) < 0.99 * objective(reps, begin)


@pytest.mark.parametrize("seed", range(5))
def test_a_higher_penalty_holds_the_volumes_closer_to_one(seed: int) -> None:
    reps = different_spans(seed)
    start = np.stack(align_procrustes(reps).changes_of_basis)
    unit = np.sqrt(np.mean([np.sum(rep**2) for rep in reps]))
    volumes = []
    for penalty in (0.01, 1.0, 100.0):
        changes, _ = descend(Objective(np.stack(reps) / unit, penalty, len(reps)), start, TOLERANCE, 1000)
        volumes.append(np.abs(np.linalg.slogdet(changes)[1]).max())
    assert volumes[0] > 5 * volumes[1] > 25 * volumes[2]


def test_one_span_needs_no_descent() -> None:
    rng = np.random.default_rng(0)
    matrix = anchor("haar", 30, rng)
    reps = [matrix @ basis for basis in shared_span(rng)[0]]
    for change in align_rdp(reps).changes_of_basis:
        np.testing.assert_allclose(change.T @ change, np.eye(8), rtol=0, atol=1e-10)


def test_the_target_is_the_mean_of_the_trusted_parties() -> None:
    reps = different_spans(0, parties=5)
    found = align_rdp(reps, trusted=[0, 2, 3])
    expected = np.mean([reps[index] @ found.changes_of_basis[index] for index in (0, 2, 3)], axis=0)
    np.testing.assert_allclose(found.target, expected, rtol=0, atol=1e-12)


def test_an_untrusted_party_ends_as_close_to_the_target_as_it_can() -> None:
    reps = different_spans(0, parties=5)
    found = align_rdp(reps, trusted=[0, 1, 2, 3])
    unit = np.sqrt(np.mean([np.sum(rep**2) for rep in reps[:4]]))
    function = Objective(np.stack(reps[4:]) / unit, PENALTY, 4, np.asarray(found.target / unit))
    change = found.changes_of_basis[4].astype(np.float64)
    rng = np.random.default_rng(0)
    best = function(change.ravel())[0]
    assert all(
        function((change + size * haar(3, rng)).ravel())[0] > best
        for size in (1e-3, 1e-2, 0.1)
        for _ in range(9)
    )


def test_a_direction_in_common_is_stretched_without_end_until_the_limit() -> None:
    """The problem has no minimum there; what counts is that the descent ends, and says after how many."""
    basis = haar(20, np.random.default_rng(0))
    reps = [basis[:, [0, other]] for other in (1, 2, 3)]
    start = np.stack(align_procrustes(reps).changes_of_basis)
    stretched = []
    for limit in (10, 100):
        changes, iterations = descend(Objective(np.stack(reps), PENALTY, len(reps)), start, 0.0, limit)
        assert iterations == limit
        stretched.append(np.linalg.cond(changes[0]))
    assert stretched[1] > 10 * stretched[0]
