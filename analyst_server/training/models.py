"""The models h: built from the terms, fitted on the aligned representations.

Every model begins with one shift and one scale that are the same for all latent directions, so that
a fit does not depend on which orthogonal target the alignment chose, nor on the units of the table.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from analyst_server.training.spec import ModelSpec

Matrix = NDArray[np.floating]
Labels = NDArray[np.integer]
Classifier = Any  # of scikit-learn, which ships no types
CALIBRATION_FOLDS = 5
"""Parts an SVM's probabilities are calibrated on (Platt); the machine itself is fitted on all rows."""


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
        If a class has no row, or for an SVM only one: its probabilities take a row to check on.
    """
    missing = sorted(set(range(classes)) - set(np.unique(labels).tolist()))
    if missing:
        raise ValueError(f"training needs rows of every class; none of class number {missing[0]} came")
    classifier = _classifier(spec, labels, aligned_rep.shape[1])
    scaler = _one_scale(aligned_rep)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        classifier.fit(scaler.transform(aligned_rep), labels)
    converged = not any(issubclass(entry.category, ConvergenceWarning) for entry in caught)
    return FittedModel(
        Pipeline([("scale", scaler), ("classify", classifier)]),
        parameters=_parameters(classifier) + 2 * aligned_rep.shape[1],
        converged=converged,
    )


def _classifier(spec: ModelSpec, labels: Labels, latent_dim: int) -> Classifier:
    if spec.kind == "mlp":
        return MLPClassifier(
            hidden_layer_sizes=(spec.hidden_units,),
            activation="relu",
            solver="adam",
            learning_rate_init=spec.learning_rate,
            max_iter=spec.epochs,
            random_state=spec.seed,
        )
    if spec.kind == "logistic":
        return LogisticRegression(C=spec.inverse_penalty, max_iter=spec.epochs)
    rarest = int(np.bincount(labels).min())
    if rarest < 2:
        raise ValueError("an svm needs two rows of every class")
    gamma = 1 / latent_dim if spec.gamma is None else spec.gamma
    folds = StratifiedKFold(min(CALIBRATION_FOLDS, rarest), shuffle=True, random_state=spec.seed)
    if spec.kind == "svm":
        return _against_the_rest(SVC(C=spec.inverse_penalty, gamma=gamma), folds)
    features = RBFSampler(gamma=gamma, n_components=spec.random_features, random_state=spec.seed)
    machine = LinearSVC(C=spec.inverse_penalty, dual=False, max_iter=spec.epochs)
    return Pipeline([("features", features), ("machine", _against_the_rest(machine, folds))])


def _against_the_rest(machine: Classifier, folds: StratifiedKFold) -> OneVsRestClassifier:
    """Return a machine with probabilities for each class.

    What libsvm makes of more than two classes counts votes of pairs, and a row between two of them
    would get another probability from the rounding of the ONNX file.
    """
    return OneVsRestClassifier(CalibratedClassifierCV(machine, cv=folds, ensemble=False))


def _parameters(classifier: Classifier) -> int:
    """How many numbers a fitted classifier has: the paper's N."""
    if isinstance(classifier, MLPClassifier):
        return sum(array.size for array in (*classifier.coefs_, *classifier.intercepts_))
    if isinstance(classifier, LogisticRegression):
        return int(classifier.coef_.size + classifier.intercept_.size)
    if isinstance(classifier, Pipeline):
        features = classifier["features"]
        shared = features.random_weights_.size + features.random_offset_.size
        return int(shared + _parameters(classifier["machine"]))
    machines = [one.calibrated_classifiers_[0].estimator for one in classifier.estimators_]
    platt = 2  # slope and intercept of the probability
    return sum(_of_machine(machine) + platt for machine in machines)


def _of_machine(machine: Classifier) -> int:
    weights = (machine.support_vectors_, machine.dual_coef_) if isinstance(machine, SVC) else (machine.coef_,)
    return sum(int(array.size) for array in weights) + 1


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
