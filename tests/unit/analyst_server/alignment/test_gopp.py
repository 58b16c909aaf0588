from __future__ import annotations

import re

import numpy as np
import pytest

from analyst_server.alignment.gopp import align_gopp, descend
from analyst_server.alignment.odc import align_odc
from analyst_server.alignment.procrustes import align_procrustes
from tests.harness.problems import (
    SEEDS,
    Matrix,
    anchor,
    haar,
    own_span,
    shared_span,
    worst_disagreement,
)


def plain(reps: list[Matrix], target: Matrix, sweeps: int) -> list[Matrix]:
    """Algorithm 2 as it is printed, party by party, from a given Z."""
    changes: list[Matrix] = []
    for _ in range(1 + sweeps):
        changes = []
        for rep in reps:
            left, _, right = np.linalg.svd(rep.T @ target)
            changes.append(left @ right)
        target = np.mean([rep @ change for rep, change in zip(reps, changes, strict=True)], axis=0)
    return changes


def different_spans(seed: int, parties: int = 4) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    matrix = haar(64, rng)
    return [matrix @ basis for basis in own_span(rng, parties=parties)]


def error(reps: list[Matrix], changes: list[Matrix]) -> float:
    aligned = np.stack([rep @ change for rep, change in zip(reps, changes, strict=True)])
    return float(np.square(aligned - aligned.mean(axis=0)).sum())


@pytest.mark.parametrize("sweeps", [0, 1, 5])
@pytest.mark.parametrize("seed", range(3))
def test_the_spectral_start_leads_where_the_plain_algorithm_does(seed: int, sweeps: int) -> None:
    reps = different_spans(seed)
    left, _, _ = np.linalg.svd(np.hstack(reps), full_matrices=False)
    expected = plain(reps, left[:, :5], sweeps)
    start = align_procrustes(reps).target
    found, _, _ = descend(reps, start, trusted=None, tolerance=0, max_sweeps=sweeps)
    common = found[0].T @ expected[0]  # singular vectors have no sign of their own
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one @ common, other, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_start_from_one_party_leads_where_the_plain_algorithm_does(seed: int) -> None:
    reps = different_spans(seed)
    found, _, _ = descend(reps, reps[0], trusted=None, tolerance=0, max_sweeps=4)
    for one, other in zip(found, plain(reps, reps[0], 4), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["haar", "uniform"])
@pytest.mark.parametrize("seed", SEEDS)
def test_bases_of_one_span_agree(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    bases, _ = shared_span(rng)
    matrix = anchor(kind, 30, rng)
    found = align_gopp([matrix @ basis for basis in bases])
    assert worst_disagreement(bases, found.changes_of_basis) < 1e-10


@pytest.mark.parametrize("seed", range(5))
def test_when_it_has_settled_another_sweep_changes_nothing(seed: int) -> None:
    reps = different_spans(seed)
    changes, target, sweeps = descend(reps, reps[0], trusted=None, tolerance=1e-12, max_sweeps=5000)
    mean = sum(rep @ change for rep, change in zip(reps, changes, strict=True)) / len(reps)
    np.testing.assert_allclose(mean, target, rtol=0, atol=1e-11)
    assert sweeps < 5000


@pytest.mark.parametrize("seed", range(5))
def test_the_parties_agree_better_at_the_end_than_at_the_start(seed: int) -> None:
    reps = different_spans(seed)
    assert error(reps, align_gopp(reps).changes_of_basis) < error(reps, align_odc(reps).changes_of_basis)


def test_the_target_is_the_one_the_changes_are_best_for() -> None:
    reps = different_spans(0)
    found = align_gopp(reps)
    for rep, change in zip(reps, found.changes_of_basis, strict=True):
        left, _, right = np.linalg.svd(rep.T @ found.target)
        np.testing.assert_allclose(change, left @ right, rtol=0, atol=1e-10)


def test_a_looser_tolerance_takes_fewer_sweeps() -> None:
    reps = different_spans(0)
    sweeps = [
        descend(reps, reps[0], trusted=None, tolerance=tolerance, max_sweeps=7)[2]
        for tolerance in (10.0, 1e-3, 0)
    ]
    assert sweeps[0] == 0 < sweeps[1] < sweeps[2] == 7


def test_the_answer_says_how_many_sweeps_were_made() -> None:
    found = align_gopp(different_spans(0))
    assert re.fullmatch(r"mean of A_i G_i after [1-9]\d* sweeps from spectral", found.description)


def test_untrusted_parties_do_not_shape_the_target() -> None:
    reps = different_spans(0, parties=5)
    wild = [100 * np.random.default_rng(9).standard_normal(reps[0].shape), *reps]
    found = align_gopp(wild, trusted=range(1, 6))
    alone = align_gopp(reps)
    np.testing.assert_allclose(found.target, alone.target, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.changes_of_basis[1:], alone.changes_of_basis, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.changes_of_basis[0].T @ found.changes_of_basis[0], np.eye(5), atol=1e-12)


def test_centring_is_the_same_as_centring_first() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.random((200, 64))
    reps = [matrix @ basis for basis in own_span(rng, parties=4)]
    first = [rep - rep.mean(axis=0) for rep in reps]
    found = descend(reps, first[0], trusted=None, tolerance=0, max_sweeps=5, centred=True)
    expected = descend(first, first[0], trusted=None, tolerance=0, max_sweeps=5)
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=1e-8)


def test_single_precision_stays_single() -> None:
    reps = [rep.astype(np.float32) for rep in different_spans(0)]
    found = align_gopp(reps)
    assert {matrix.dtype for matrix in [*found.changes_of_basis, found.target]} == {np.dtype(np.float32)}
