from __future__ import annotations

import pytest

from benchmarks.data import breast_cancer
from benchmarks.nri import one_round


@pytest.mark.parametrize(("kind", "rows_per_feature", "least"), [("gaussian", 20, 0.95), ("public", 0, 0.95)])
def test_own_models_say_what_a_logistic_model_says(kind: str, rows_per_feature: int, least: float) -> None:
    found = one_round("breast cancer", breast_cancer(0), "logistic", kind, rows_per_feature, 0)
    assert found["agreement"] >= least
    assert found["own_accuracy"] > 0.9


def test_a_uniform_anchor_would_teach_next_to_nothing() -> None:
    found = one_round("breast cancer", breast_cancer(0), "logistic", "uniform", 20, 0)
    assert found["agreement"] < 0.8
