"""The models h: built from the terms, fitted on the aligned representations.

Every model begins with one shift and one scale that are the same for all latent directions, so that
a fit does not depend on which orthogonal target the alignment chose, nor on the units of the table.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from analyst_server.training.spec import ModelSpec

Matrix = NDArray[np.floating]
Labels = NDArray[np.integer]


@dataclass(frozen=True)
class FittedModel:
    """A fitted pipeline, how many numbers it has, and whether it converged."""

    pipeline: Pipeline
    parameters: int
    converged: bool


def fit(spec: ModelSpec, aligned_rep: Matrix, labels: Labels, classes: int) -> FittedModel:
    """Fit the model of ``spec``; deterministic for its seed.

    Parameters
    ----------
    aligned_rep : (n, l) ndarray
        All parties' ``X~_i G_i``, stacked.
    labels : (n,) ndarray of int
        Class numbers, as the terms order them.
    classes : int
        How many classes the terms name.

    Raises
    ------
    ValueError
        If a class has no row.
    """
    missing = sorted(set(range(classes)) - set(np.unique(labels).tolist()))
    if missing:
        raise ValueError(f"training needs rows of every class; none of class number {missing[0]} came")
    if spec.kind == "mlp":
        classifier = MLPClassifier(
            hidden_layer_sizes=(spec.hidden_units,),
            activation="relu",
            solver="adam",
            learning_rate_init=spec.learning_rate,
            max_iter=spec.epochs,
            random_state=spec.seed,
        )
    else:
        classifier = LogisticRegression(C=spec.inverse_penalty, max_iter=spec.epochs)
    scaler = _one_scale(aligned_rep)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        classifier.fit(scaler.transform(aligned_rep), labels)
    converged = not any(issubclass(entry.category, ConvergenceWarning) for entry in caught)
    numbers = (
        [*classifier.coefs_, *classifier.intercepts_]
        if spec.kind == "mlp"
        else [classifier.coef_, classifier.intercept_]
    )
    return FittedModel(
        Pipeline([("scale", scaler), ("classify", classifier)]),
        parameters=sum(array.size for array in numbers) + 2 * aligned_rep.shape[1],
        converged=converged,
    )


def _one_scale(aligned_rep: Matrix) -> StandardScaler:
    """Centre by the column means and divide by one number, the root mean variance of the columns.

    `StandardScaler` carries it because it is what the ONNX converter knows; a scale per column would
    tie the model to the axes of one target.
    """
    scaler = StandardScaler().fit(aligned_rep)
    scale = float(np.sqrt(scaler.var_.mean())) or 1.0
    scaler.scale_ = np.full(aligned_rep.shape[1], scale)
    scaler.var_ = scaler.scale_**2
    return scaler
