from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

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

FLOAT64 = 1e-10
"""Some hundred operations of 1e-16 each on matrices of norm one."""


@pytest.mark.parametrize("kind", ["haar", "uniform"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_basis_turned_by_a_known_matrix_is_turned_back(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    bases, turns = shared_span(rng)
    matrix, factor = anchor(kind, 30, rng), haar(8, rng)
    changes = align_odc([matrix @ basis for basis in bases], factor).changes_of_basis
    # Theorem IV.3 with F = F_1: E_i stands for the turn from F_1 to F_i, so G_i = E_i^T E_1 O
    for turn, change in zip(turns, changes, strict=True):
        np.testing.assert_allclose(change, turn.T @ turns[0] @ factor, rtol=0, atol=FLOAT64)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_party_gets_the_target_factor_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bases, factor = own_span(rng, parties=3), haar(5, rng)
    reps = [anchor("uniform", 64, rng) @ basis for basis in bases]
    np.testing.assert_allclose(align_odc(reps, factor).changes_of_basis[0], factor, rtol=0, atol=FLOAT64)


@pytest.mark.parametrize("kind", ["haar", "uniform"])
@pytest.mark.parametrize("seed", SEEDS)
def test_bases_of_one_span_agree_after_alignment(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    bases, _ = shared_span(rng)
    matrix = anchor(kind, 30, rng)
    changes = align_odc([matrix @ basis for basis in bases]).changes_of_basis
    assert worst_disagreement(bases, changes) < FLOAT64


@pytest.mark.parametrize("kind", ["haar", "uniform"])
@pytest.mark.parametrize("seed", SEEDS)
def test_bases_of_one_span_agree_after_single_precision_on_the_wire(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    bases, _ = shared_span(rng)
    matrix = anchor(kind, 30, rng)
    changes = align_odc([(matrix @ basis).astype(np.float32) for basis in bases]).changes_of_basis
    assert worst_disagreement(bases, changes) < 1e-4  # float32 rounds by 6e-8, times the condition of A


@pytest.mark.parametrize("seed", SEEDS)
def test_no_orthogonal_matrix_does_better_than_the_closed_form(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reps = [anchor("uniform", 64, rng) @ basis for basis in own_span(rng, parties=3)]
    changes = align_odc(reps).changes_of_basis
    for rep, change in zip(reps, changes, strict=True):
        found = np.linalg.norm(rep @ change - reps[0])
        step = haar(5, rng) * 1e-3
        nearby, _ = np.linalg.qr(np.eye(5) + step - step.T)  # a small turn
        for other in (np.eye(5), haar(5, rng), change @ nearby, change @ np.diag([-1, 1, 1, 1, 1])):
            assert found <= np.linalg.norm(rep @ other - reps[0]) + FLOAT64


@pytest.mark.parametrize("seed", SEEDS)
def test_every_change_of_basis_is_orthogonal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reps = [anchor("uniform", 64, rng) @ basis for basis in own_span(rng)]
    for change in align_odc(reps, haar(5, rng)).changes_of_basis:
        np.testing.assert_allclose(change.T @ change, np.eye(5), rtol=0, atol=1e-13)


def test_a_party_with_a_rank_deficient_anchor_still_gets_an_orthogonal_change() -> None:
    rng = np.random.default_rng(0)
    good, flat = rng.standard_normal((20, 4)), np.outer(rng.standard_normal(20), rng.standard_normal(4))
    change = align_odc([good, flat]).changes_of_basis[1]
    np.testing.assert_allclose(change.T @ change, np.eye(4), rtol=0, atol=1e-13)


def test_one_party_alone_keeps_its_basis() -> None:
    (change,) = align_odc([np.random.default_rng(0).standard_normal((12, 4))]).changes_of_basis
    np.testing.assert_allclose(change, np.eye(4), rtol=0, atol=FLOAT64)


def test_with_one_latent_dimension_only_the_sign_is_aligned() -> None:
    rep = np.random.default_rng(0).standard_normal((7, 1))
    changes = align_odc([rep, -rep, rep]).changes_of_basis
    assert [float(change[0, 0]) for change in changes] == [1.0, -1.0, 1.0]


def test_the_anchor_representations_are_not_modified() -> None:
    rng = np.random.default_rng(0)
    reps = [rng.standard_normal((9, 3)) for _ in range(2)]
    copies = [rep.copy() for rep in reps]
    align_odc(reps, haar(3, rng))
    for rep, copy in zip(reps, copies, strict=True):
        np.testing.assert_array_equal(rep, copy)


@pytest.mark.parametrize("seed", range(5))
def test_a_support_vector_machine_does_not_see_which_target_was_chosen(seed: int) -> None:
    """Kernel values depend on distances alone, and no O changes a distance."""
    rng = np.random.default_rng(seed)
    data, labels = load_breast_cancer(return_X_y=True)
    spread = np.ptp(data, axis=0)
    rows = rng.permutation(len(data))
    data, labels = (2 * (data - data.min(axis=0)) / spread - 1)[rows], labels[rows]
    parties = np.array_split(np.arange(400), 4)
    _, vectors = np.linalg.eigh(data[:400].T @ data[:400])
    bases = [vectors[:, -10:] @ haar(10, rng) for _ in parties]
    matrix = haar(30, rng)
    found = []
    for factor in (haar(10, rng), haar(10, rng)):
        changes = align_odc([matrix @ basis for basis in bases], factor).changes_of_basis
        aligned = np.concatenate(
            [data[own] @ basis @ change for own, basis, change in zip(parties, bases, changes, strict=True)]
        )
        model = SVC(kernel="rbf", gamma=0.1).fit(aligned, labels[:400])
        found.append(model.decision_function(data[400:] @ bases[0] @ changes[0]))
    np.testing.assert_array_equal(found[0] > 0, found[1] > 0)
    # the solver stops at a gap of 1e-3 in its dual; rounding may end it one step earlier or later
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-2)
    assert np.mean((found[0] > 0) == labels[400:]) > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_of_the_wire_is_kept(dtype: type) -> None:
    reps: list[Matrix] = [
        np.random.default_rng(seed).standard_normal((20, 3)).astype(dtype) for seed in range(3)
    ]
    found = align_odc(reps, haar(3, np.random.default_rng(9)))
    assert {matrix.dtype for matrix in [*found.changes_of_basis, found.target]} == {np.dtype(dtype)}


def test_the_first_trusted_party_is_the_target() -> None:
    reps = [np.random.default_rng(seed).standard_normal((20, 3)) for seed in range(4)]
    found = align_odc(reps, trusted=[2, 3])
    np.testing.assert_array_equal(found.target, reps[2])
    np.testing.assert_allclose(found.changes_of_basis[2], np.eye(3), rtol=0, atol=FLOAT64)
    assert found.description == "A_3"
