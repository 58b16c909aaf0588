from __future__ import annotations

import numpy as np
import pytest

from analyst_server.training.metrics import score


def test_scores_of_a_known_case() -> None:
    labels = np.array([0, 0, 1, 1])
    found = np.array([0.1, 0.6, 0.4, 0.9])
    # one row of each class on the wrong side; of the four pairs three are in order
    assert score(labels, np.stack([1 - found, found], axis=1)) == {"accuracy": 0.5, "roc_auc": 0.75}


def test_perfect_scores_of_three_classes() -> None:
    labels = np.array([0, 1, 2, 1])
    assert score(labels, np.eye(3)[labels]) == {"accuracy": 1.0, "roc_auc": 1.0}


@pytest.mark.parametrize("classes", [2, 3])
def test_the_roc_auc_is_left_out_when_a_class_is_missing(classes: int) -> None:
    labels = np.zeros(4, int)
    assert set(score(labels, np.full((4, classes), 1 / classes))) == {"accuracy"}
