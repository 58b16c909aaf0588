"""Scores of a classifier, the same for the demo and the benchmarks; `judgement` has those of a round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, roc_auc_score

from analyst_server.training.models import Labels


def score(labels: Labels, probabilities: NDArray[np.floating]) -> dict[str, float]:
    """Return accuracy and ROC-AUC (one against rest, macro mean, when there are more than two classes).

    Parameters
    ----------
    labels : (n,) ndarray of int
        True class numbers. The ROC-AUC is left out unless every class occurs.
    probabilities : (n, k) ndarray
        Column j belongs to class j.
    """
    scores = {"accuracy": float(accuracy_score(labels, probabilities.argmax(axis=1)))}
    classes = probabilities.shape[1]
    if len(np.unique(labels)) == classes:
        found = probabilities[:, 1] if classes == 2 else probabilities
        scores["roc_auc"] = float(roc_auc_score(labels, found, multi_class="ovr"))
    return scores
