from __future__ import annotations

import numpy as np
import pytest

from benchmarks import privacy
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
    revealed = privacy.row_revealing(played)["inversion_error"]
    kept = privacy.member_alone(played, "logistic", 2)["inversion_error"]
    assert revealed < 0.7
    assert kept > 0.99


def test_the_uniform_anchor_leaks_and_the_others_do_not() -> None:
    leaks = {
        kind: privacy.analyst_alone(privacy.play(breast_cancer(), kind, 0))["basis_sum_cosine"]
        for kind in privacy.ANCHORS
    }
    assert leaks["uniform"] > 0.99
    assert max(leaks["haar"], leaks["gaussian"]) < 0.6
