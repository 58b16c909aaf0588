"""Scores of a classifier, the same for the analyst, the demo and the benchmarks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from analyst_server.training.models import Labels, Matrix, fit
from analyst_server.training.spec import ModelSpec

HOLD_OUT = 0.2
"""Share of the rows the analyst keeps aside to measure; the released model is fitted on all rows."""


def score(labels: Labels, probabilities: NDArray[np.floating]) -> dict[str, float]:
    """Return accuracy and ROC-AUC (one against rest, macro mean, when there are more than two classes).

    Parameters
    ----------
    labels : (n,) ndarray of int
        True class numbers. Every class has to occur for the ROC-AUC; it is left out otherwise.
    probabilities : (n, k) ndarray
        Column j belongs to class j.
    """
    scores = {"accuracy": float(accuracy_score(labels, probabilities.argmax(axis=1)))}
    classes = probabilities.shape[1]
    if len(np.unique(labels)) == classes:
        found = probabilities[:, 1] if classes == 2 else probabilities
        scores["roc_auc"] = float(roc_auc_score(labels, found, multi_class="ovr"))
    return scores


def measure(spec: ModelSpec, aligned_rep: Matrix, labels: Labels, classes: int) -> dict[str, float] | None:
    """Fit on a stratified part of the rows and return the scores on the rest.

    None when the rarest class is too small to stand on both sides.
    """
    smallest = int(np.bincount(labels, minlength=classes).min())
    if smallest < 2 or round(HOLD_OUT * len(labels)) < classes:
        return None
    train, test = train_test_split(
        np.arange(len(labels)), test_size=HOLD_OUT, stratify=labels, random_state=spec.seed
    )
    if spec.kind in ("svm", "random-feature-svm") and np.bincount(labels[train]).min() < 2:
        return None
    model = fit(spec, aligned_rep[train], labels[train], classes)
    return score(labels[test], model.pipeline.predict_proba(aligned_rep[test]))
