"""Support vector machines with the kernel ``exp(-gamma ||x - y||^2)``: exact, and by random features.

The first carries training rows inside it. The second does not: it is linear in cosines that are drawn without
looking at the rows (Rahimi and Recht, Random Features for Large-Scale Kernel Machines, NIPS 2007).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC

from analyst_server.training.models import Classifier, Labels, Weighable
from analyst_server.training.tasks import Matrix

CALIBRATION_FOLDS: Final = 5
"""Parts that the probabilities are calibrated on (Platt); the machine itself is fitted on all rows."""
_OFFSETS: Final = 3
"""Numbers of a machine beside its weights: its intercept, and slope and intercept of its probability."""


@dataclass(frozen=True)
class _Machines(Weighable):
    """One machine for each class against the rest, with probabilities.

    What libsvm makes of more than two classes counts votes of pairs, and a row between two of them
    would get another probability from the rounding of the ONNX file.

    Attributes
    ----------
    inverse_penalty : float
        C, of the slack.
    gamma : float, optional
        Of the kernel on scaled rows; None is 1 / l.
    seed : int
        Of the splits that the probabilities are calibrated on, and of the random features.
    """

    rows_per_class: ClassVar[int] = 2  # one to calibrate on and one to fit

    inverse_penalty: float = 1.0
    gamma: float | None = None

    def _gamma(self, latent_dim: int) -> float:
        return 1 / latent_dim if self.gamma is None else self.gamma

    def _machines(self, machine: Classifier, labels: Labels) -> OneVsRestClassifier:
        rarest = int(np.bincount(labels).min())
        folds = StratifiedKFold(min(CALIBRATION_FOLDS, rarest), shuffle=True, random_state=self.seed)
        calibrated = CalibratedClassifierCV(machine, cv=folds, ensemble=False)
        if self.class_weight != "none":  # both take the weights, or the probabilities would not know of them
            machine.set_fit_request(sample_weight=True)
            calibrated.set_fit_request(sample_weight=True)
        return OneVsRestClassifier(calibrated)

    def fitted(self, rows: Matrix, labels: Labels, classes: int) -> Classifier:
        # one against the rest hands weights on to its machines in this mode alone
        with config_context(enable_metadata_routing=self.class_weight != "none"):
            return super().fitted(rows, labels, classes)


@dataclass(frozen=True)
class Svm(_Machines):
    """The machines with the exact kernel."""

    carried_rows: ClassVar[str] = "its support vectors are training rows"

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:
        return self._machines(SVC(C=self.inverse_penalty, gamma=self._gamma(latent_dim)), labels)

    def parameters(self, fitted: Classifier) -> int:
        return sum(
            int(machine.support_vectors_.size + machine.dual_coef_.size) + _OFFSETS
            for machine in _fitted_machines(fitted)
        )


@dataclass(frozen=True)
class RandomFeatureSvm(_Machines):
    """Linear machines on random cosines that stand for the kernel.

    Attributes
    ----------
    random_features : int
        How many cosines.
    epochs : int
        Upper bound of iterations.
    """

    random_features: int = 512
    epochs: int = 1000

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:
        features = RBFSampler(
            gamma=self._gamma(latent_dim), n_components=self.random_features, random_state=self.seed
        )
        machine = LinearSVC(C=self.inverse_penalty, dual=False, max_iter=self.epochs)
        return Pipeline([("features", features), ("machine", self._machines(machine, labels))])

    def parameters(self, fitted: Classifier) -> int:
        features = fitted["features"]
        shared = features.random_weights_.size + features.random_offset_.size
        return int(shared) + sum(
            int(machine.coef_.size) + _OFFSETS for machine in _fitted_machines(fitted["machine"])
        )

    def prepare_export(self) -> None:
        from skl2onnx import update_registered_converter

        update_registered_converter(RBFSampler, "OdcRandomFeatures", _features_shape, _features_as_onnx)


def _fitted_machines(fitted: OneVsRestClassifier) -> list[Classifier]:
    return [one.calibrated_classifiers_[0].estimator for one in fitted.estimators_]


def _features_as_onnx(scope: Any, operator: Any, container: Any) -> None:
    """Convert random Fourier features: ``sqrt(2 / D) cos(x W + b)``."""
    from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxCos, OnnxMatMul, OnnxMul

    sampler, version = operator.raw_operator, container.target_opset
    scale = np.array([np.sqrt(2 / sampler.random_offset_.size)], np.float32)
    turned = OnnxMatMul(operator.inputs[0], sampler.random_weights_.astype(np.float32), op_version=version)
    moved = OnnxAdd(turned, sampler.random_offset_.astype(np.float32), op_version=version)
    waves = OnnxCos(moved, op_version=version)
    OnnxMul(waves, scale, op_version=version, output_names=operator.outputs[:1]).add_to(scope, container)


def _features_shape(operator: Any) -> None:
    from skl2onnx.common.data_types import FloatTensorType

    operator.outputs[0].type = FloatTensorType([None, operator.raw_operator.random_offset_.size])
