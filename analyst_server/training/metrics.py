"""Scores of a classifier, the same for the analyst, the demo and the benchmarks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from analyst_server.training.models import Labels, Matrix, Model, fit

HOLD_OUT = 0.2
"""Share of the rows that are set aside to measure on; the released model is fitted on all rows."""


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


def measure(model: Model, aligned_rep: Matrix, labels: Labels, classes: int) -> dict[str, float] | None:
    """Fit on a stratified part of the rows and return the scores on the rest.

    None if the rarest class has too few rows to be on both sides.
    """
    smallest = int(np.bincount(labels, minlength=classes).min())
    if smallest < 2 or round(HOLD_OUT * len(labels)) < classes:
        return None
    train, test = train_test_split(
        np.arange(len(labels)), test_size=HOLD_OUT, stratify=labels, random_state=model.seed
    )
    if np.bincount(labels[train], minlength=classes).min() < model.rows_per_class:
        return None
    fitted = fit(model, aligned_rep[train], labels[train], classes)
    return score(labels[test], fitted.pipeline.predict_proba(aligned_rep[test]))
