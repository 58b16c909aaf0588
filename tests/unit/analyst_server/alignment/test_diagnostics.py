from __future__ import annotations

import numpy as np
import pytest

from analyst_server.alignment.diagnostics import MOST_VALUES, diagnose
from analyst_server.alignment.odc import align_odc
from tests.harness.problems import SEEDS, Matrix, anchor, haar, own_span, shared_span


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
def test_the_gap_agrees_with_its_definition(seed: int) -> None:
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


@pytest.mark.parametrize("kind", ["haar", "uniform"])
def test_the_angles_are_those_between_the_spans(kind: str) -> None:
    """Two directions in common, one at 30 degrees, one at a right angle."""
    rng = np.random.default_rng(0)
    directions = haar(20, rng)
    tilted = np.sqrt(0.75) * directions[:, 2] + 0.5 * directions[:, 5]
    other = np.column_stack([directions[:, :2], tilted, directions[:, 6]])
    reps = [directions[:, :4], directions[:, :4] @ haar(4, rng), other @ haar(4, rng)]
    if kind == "uniform":  # any full factor on the right leaves a span as it is
        reps = [rep @ rng.random((4, 4)) for rep in reps]
        changes: list[Matrix] = [np.linalg.lstsq(rep, directions[:, :4])[0] for rep in reps]
    else:
        changes = list(align_odc(reps).changes_of_basis)
    found = diagnose(reps, changes, trusted=[0, 1]).span_angles
    assert found[0] == pytest.approx((0, 0), abs=1e-4)
    assert found[1] == pytest.approx((0, 0), abs=1e-4)
    assert found[2] == pytest.approx((15, 90), abs=1e-4)


def test_a_direction_that_is_missing_is_at_a_right_angle() -> None:
    rep = haar(9, np.random.default_rng(0))[:, :3]
    flat = rep * [1, 1, 0]
    found = diagnose([rep, rep, flat], [np.eye(3)] * 3, trusted=[0, 1])
    assert found.span_angles[2][1] == pytest.approx(90)
    assert found.singular_values[2] == pytest.approx((1, 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_the_singular_values_are_those_of_an_svd(seed: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    reps: list[Matrix] = [
        (rng.random((50, 20)) @ basis).astype(dtype) for basis in shared_span(rng, 3, 20)[0]
    ]
    found = diagnose(reps, align_odc(reps).changes_of_basis)
    plain = [np.linalg.svd(rep.astype(np.float64), compute_uv=False)[[0, -1]] for rep in reps]
    rtol = 1e-3 if dtype is np.float32 else 1e-10
    np.testing.assert_allclose(found.singular_values, plain, rtol=rtol)
    spectra = [np.linalg.svd(rep.astype(np.float64), compute_uv=False) for rep in reps]
    np.testing.assert_allclose(found.spectra, spectra, rtol=rtol)


def test_of_a_long_spectrum_some_values_are_kept_with_both_ends() -> None:
    rep = np.diag(np.arange(100.0, 0, -1))
    (spectrum,) = diagnose([rep], [np.eye(100)]).spectra
    assert (len(spectrum), spectrum[0], spectrum[-1]) == (MOST_VALUES, 100, 1)
    assert list(spectrum) == sorted(spectrum, reverse=True)


def test_a_party_that_is_not_trusted_moves_nobody_elses_gap() -> None:
    rng = np.random.default_rng(0)
    reps = of_shared_span(0)
    reps[2] = rng.permutation(reps[2])
    trusted = [0, 1, 3, 4]
    found = diagnose(reps, align_odc(reps).changes_of_basis, trusted)
    assert found.concordance_gap < 1e-10
    assert found.party_gaps[2] > 0.1
    assert [found.party_gaps[index] < 1e-10 for index in trusted] == [True] * 4
