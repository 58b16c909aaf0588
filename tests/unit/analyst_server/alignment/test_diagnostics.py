from __future__ import annotations

import numpy as np
import pytest

from analyst_server.alignment.diagnostics import diagnose
from analyst_server.alignment.odc import align_odc
from tests.unit.analyst_server.alignment.parties import SEEDS, Matrix, anchor, haar, own_span, shared_span


def of_shared_span(seed: int) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    bases, _ = shared_span(rng)
    matrix = anchor("uniform", 30, rng)
    return [matrix @ basis for basis in bases]


@pytest.mark.parametrize("seed", SEEDS)
def test_parties_of_one_span_show_no_gap_and_no_spread(seed: int) -> None:
    reps = of_shared_span(seed)
    found = diagnose(reps, align_odc(reps).changes_of_basis)
    assert found.concordance_gap < 1e-10
    assert max(found.spectrum_spread) < 1e-10


@pytest.mark.parametrize("seed", range(5))
def test_the_gap_is_the_plain_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reps = [rng.random((100, 64)) @ basis for basis in own_span(rng, parties=4)]
    changes = align_odc(reps).changes_of_basis
    aligned = np.stack([rep @ change for rep, change in zip(reps, changes, strict=True)])
    mean = aligned.mean(axis=0)
    plain = [float(np.linalg.norm(one - mean) / np.linalg.norm(mean)) for one in aligned]
    found = diagnose(reps, changes)
    assert found.party_gaps == pytest.approx(plain, rel=1e-12)
    assert found.concordance_gap == max(found.party_gaps)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("culprit", [0, 2, 4])
def test_a_basis_that_is_not_orthonormal_stands_out(culprit: int, seed: int) -> None:
    reps = of_shared_span(seed)
    reps[culprit] = reps[culprit] @ np.diag(np.linspace(1, 3, 8))
    spread = diagnose(reps, align_odc(reps).changes_of_basis).spectrum_spread
    others = [value for index, value in enumerate(spread) if index != culprit]
    assert int(np.argmax(spread)) == culprit
    assert max(others) < 1e-10 < 0.1 < spread[culprit]


@pytest.mark.parametrize("seed", range(5))
def test_a_party_with_another_anchor_has_the_largest_gap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bases, _ = shared_span(rng)
    matrix, another = anchor("uniform", 30, rng), anchor("uniform", 30, rng)
    reps = [(another if index == 3 else matrix) @ basis for index, basis in enumerate(bases)]
    assert int(np.argmax(diagnose(reps, align_odc(reps).changes_of_basis).party_gaps)) == 3


def test_the_figures_do_not_depend_on_the_scale_of_the_anchor() -> None:
    rng = np.random.default_rng(0)
    reps = [rng.random((100, 64)) @ basis for basis in own_span(rng, parties=3)]
    one, other = (
        diagnose(reps, align_odc(reps).changes_of_basis),
        diagnose([1000 * rep for rep in reps], align_odc(reps).changes_of_basis),
    )
    assert one.party_gaps == pytest.approx(other.party_gaps, rel=1e-12)
    assert one.spectrum_spread == pytest.approx(other.spectrum_spread, rel=1e-12)


def test_one_party_agrees_with_itself() -> None:
    rep = np.random.default_rng(0).standard_normal((9, 3))
    assert diagnose([rep], [haar(3, np.random.default_rng(1))]).spectrum_spread == (0.0,)


def test_parties_that_cancel_each_other_give_finite_figures() -> None:
    rep = np.zeros((4, 2))
    found = diagnose([rep, rep], [np.eye(2), np.eye(2)])
    assert (found.concordance_gap, found.spectrum_spread) == (0.0, (0.0, 0.0))
