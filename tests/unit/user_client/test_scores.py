from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from user_client.scores import roc_auc


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [1, 8])
def test_roc_auc_is_that_of_scikit_learn_also_with_ties(seed: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    scores, positive = rng.standard_normal(200).round(digits), rng.random(200) < 0.3
    assert roc_auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


@pytest.mark.parametrize("positive", [[True, True], [False, False]])
def test_one_class_has_none(positive: list[bool]) -> None:
    assert roc_auc(np.array([0.0, 1.0]), np.array(positive)) is None
