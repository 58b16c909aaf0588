"""The papers' models, as they are and after one shift and one scale, as in this software."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from benchmarks.data import Labels, Matrix

Kind = Literal["svm", "mlp", "logistic"]
Metric = Literal["accuracy", "roc_auc", "pr_auc"]


def scores(
    kind: Kind,
    train: tuple[Matrix, Labels],
    tests: list[tuple[Matrix, Labels]],
    *,
    metrics: tuple[Metric, ...],
    epochs: int,
    seed: int,
    one_scale: bool,
) -> dict[Metric, float]:
    """Fit on all parties' rows and return the mean of the parties' scores in percent.

    Parameters
    ----------
    kind : {"svm", "mlp", "logistic"}
        The SVM has a Gaussian kernel and C = 1; the MLP is that of arXiv:2403.02780, section IV-A.
    one_scale : bool
        First subtract the column means and divide by the square root of the columns' mean variance: one
        shift and one number for all columns, which removes the effect of the target's scale.
    """
    rows, labels = train
    if one_scale:
        shift, scale = rows.mean(axis=0), float(np.sqrt(rows.var(axis=0).mean())) or 1.0
        rows = (rows - shift) / scale
        tests = [((test - shift) / scale, truth) for test, truth in tests]
    # the number type of the wire, in which an MLP is twice as fast
    dtype = np.float32 if kind == "mlp" else np.float64
    model = _classifier(kind, epochs, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the papers stop after fixed epochs too
        model.fit(rows.astype(dtype), labels)
    if metrics != ("accuracy",):  # a ranking needs both classes; a small hospital may have only one
        tests = [(test, truth) for test, truth in tests if len(np.unique(truth)) > 1]
    found = [_measure(model, test.astype(dtype), truth, metrics) for test, truth in tests]
    return {metric: 100 * float(np.mean([score[metric] for score in found])) for metric in metrics}


def _classifier(kind: Kind, epochs: int, seed: int) -> SVC | MLPClassifier | LogisticRegression:
    if kind == "svm":
        return SVC()
    if kind == "logistic":
        return LogisticRegression(C=Logistic().inverse_penalty, max_iter=1000)
    mlp = Mlp()
    return MLPClassifier(
        (mlp.hidden_units,), learning_rate_init=mlp.learning_rate, max_iter=epochs, random_state=seed
    )


def _measure(
    model: SVC | MLPClassifier | LogisticRegression,
    rows: Matrix,
    labels: Labels,
    metrics: tuple[Metric, ...],
) -> dict[Metric, float]:
    if metrics == ("accuracy",):
        return {"accuracy": float(np.mean(model.predict(rows) == labels))}
    found: NDArray[np.float64] = model.predict_proba(rows)[:, 1]
    functions = {"roc_auc": roc_auc_score, "pr_auc": average_precision_score}
    return {metric: float(functions[metric](labels, found)) for metric in metrics}
