from __future__ import annotations

import numpy as np
import pytest

from benchmarks import defences, privacy
from benchmarks.data import breast_cancer


@pytest.fixture(scope="module")
def played() -> privacy.Round:
    return privacy.play(breast_cancer(), "haar", 0)


def test_the_round_is_the_products(played: privacy.Round) -> None:
    for basis, change in zip(played.bases, played.changes, strict=True):
        assert basis.T @ basis == pytest.approx(np.eye(basis.shape[1]), abs=1e-9)
        assert change.T @ change == pytest.approx(np.eye(len(change)), abs=1e-9)


def test_what_collusion_finds_is_what_prepare_predicts(played: privacy.Round) -> None:
    found = privacy.collusion(played)
    assert found["inversion_error"] == pytest.approx(found["error_that_prepare_predicts"], rel=1e-6)


def test_a_row_revealing_model_gives_rows_and_a_default_one_does_not(played: privacy.Round) -> None:
    revealed = privacy.row_revealing(played, 2)["inversion_error"]
    kept = privacy.member_alone(played, "logistic", 2)["inversion_error"]
    assert revealed < 0.7
    assert kept > 0.99


def test_the_uniform_anchor_leaks_and_the_others_do_not() -> None:
    leaks = {
        kind: privacy.analyst_alone(privacy.play(breast_cancer(), kind, 0))["basis_sum_cosine"]
        for kind in privacy.COMPARED_ANCHORS
    }
    assert leaks["uniform"] > 0.99
    assert max(leaks["haar"], leaks["gaussian"]) < 0.6


def test_noise_hides_rows_and_a_permutation_hides_their_places_alone() -> None:
    data, clip = breast_cancer(), privacy.CLIP_NORMS["breast cancer"]
    noisy = privacy.play(data, "haar", 0, defences.gaussian_noise(1, privacy.DELTA, clip))
    sigma = defences.noise_sigma(1, privacy.DELTA, clip)
    assert privacy.collusion(noisy, sigma)["inversion_error"] > 0.95
    permuted = privacy.play(data, "gaussian", 0, defences.non_readily_identifiable(privacy.PERTURBATION))
    assert privacy.collusion(permuted)["inversion_error"] < 0.5
    linked = privacy.linking(permuted)
    assert linked["rows_linked_in_order"] < 0.2
    assert linked["rows_linked_by_distances"] > 0.9


def test_a_round_without_noise_predicts_well_by_either_way() -> None:
    played = privacy.play(breast_cancer(), "gaussian", 0)
    assert privacy.accuracy(played) > 0.85
    assert privacy.accuracy_by_the_anchor(played) > 0.85
