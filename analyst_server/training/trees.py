"""Trees on the aligned representation: a random forest, and boosting on histograms.

A tree splits along the axes, so it depends on which orthogonal target the alignment chose. These models
therefore ask for the principal axes of all rows. They take the representation as it comes, in float32 and
without a scale, so that the ONNX file compares the same numbers.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.preprocessing import StandardScaler

from analyst_server.training.models import Classifier, Labels, Weighable, unscaled
from analyst_server.training.progress import following
from analyst_server.training.tasks import Estimator, Matrix

GRID_BITS: Final = 20
"""Of the largest number; a middle of two has one more, and a 32-bit float holds 24."""


@dataclass(frozen=True)
class _Trees(Weighable):
    """What both have in common."""

    needs_principal_axes: ClassVar[bool] = True

    def scaler(self, aligned_rep: Matrix) -> StandardScaler:
        """Return a scaler that changes nothing."""
        return unscaled(aligned_rep)

    def fitted(self, rows: Matrix, labels: Labels, classes: int) -> Classifier:
        return super().fitted(np.asarray(rows, np.float32), labels, classes)

    def fitted_on_numbers(self, rows: Matrix, numbers: Matrix) -> Estimator:
        return super().fitted_on_numbers(np.asarray(rows, np.float32), numbers)


@dataclass(frozen=True)
class RandomForest(_Trees):
    """Trees on bootstrap samples, each split among a few axes drawn at random, and their mean class shares.

    Attributes
    ----------
    trees : int
    rows_per_leaf : int
        Fewest rows in a leaf. A leaf holds the class shares of its rows, a threshold the middle of two rows'
        numbers.
    """

    trees: int = 300
    rows_per_leaf: int = 5

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # it finds them itself
        return RandomForestClassifier(**self._options())

    def regressor(self) -> Estimator:
        # a third of the axes at each split, as Breiman advises for numbers
        return RandomForestRegressor(max_features=1 / 3, **self._options())

    def _options(self) -> dict[str, int]:
        return {
            "n_estimators": self.trees,
            "min_samples_leaf": self.rows_per_leaf,
            "random_state": self.seed,
        }

    def parameters(self, fitted: Estimator) -> int:
        """Return the numbers of all nodes: a threshold for each inner one, shares or a mean for each leaf."""
        in_a_leaf = len(getattr(fitted, "classes_", "1"))
        return sum(
            int((tree.tree_.feature >= 0).sum() + in_a_leaf * (tree.tree_.feature < 0).sum())
            for tree in fitted.estimators_
        )


@dataclass(frozen=True)
class GradientBoosting(_Trees):
    """Trees one after another, each on the gradient of the loss that is left, split along histograms.

    Attributes
    ----------
    trees : int
        Rounds; each adds one tree, or one for each of more than two classes.
    learning_rate : float
    rows_per_leaf : int
        Fewest rows in a leaf.
    leaves : int
        Most leaves of a tree.
    """

    trees: int = 100
    learning_rate: float = 0.05
    rows_per_leaf: int = 20
    leaves: int = 15

    def fitted(self, rows: Matrix, labels: Labels, classes: int) -> Classifier:
        return super().fitted(_on_a_grid(rows), labels, classes)

    def fitted_on_numbers(self, rows: Matrix, numbers: Matrix) -> Estimator:
        return super().fitted_on_numbers(_on_a_grid(rows), numbers)

    def followed(self, estimator: Estimator) -> AbstractContextManager[None]:
        return following(lambda: int(getattr(estimator, "n_iter_", 0)), self.trees, "trees")

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # it finds them itself
        return HistGradientBoostingClassifier(**self._options())

    def regressor(self) -> Estimator:
        return HistGradientBoostingRegressor(**self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "max_iter": self.trees,
            "max_leaf_nodes": self.leaves,
            "min_samples_leaf": self.rows_per_leaf,
            "early_stopping": False,
            "random_state": self.seed,
        }

    def parameters(self, fitted: Estimator) -> int:
        """Return the numbers of all nodes if every tree has all its leaves; how many it has is private."""
        return int(fitted.n_iter_) * int(fitted.n_trees_per_iteration_) * (2 * self.leaves - 1)

    def prepare_export(self) -> None:
        from skl2onnx import update_registered_converter
        from skl2onnx.common.shape_calculator import (
            calculate_linear_classifier_output_shapes,
            calculate_linear_regressor_output_shapes,
        )

        update_registered_converter(
            HistGradientBoostingClassifier,
            "OdcGradientBoosting",
            calculate_linear_classifier_output_shapes,
            _boosting_as_onnx,
            options={"zipmap": [True, False, "columns"], "nocl": [True, False], "raw_scores": [True, False]},
        )
        update_registered_converter(
            HistGradientBoostingRegressor,
            "OdcGradientBoostingOfNumbers",
            calculate_linear_regressor_output_shapes,
            _boosting_of_numbers_as_onnx,
        )


def _on_a_grid(rows: Matrix) -> Matrix:
    """Return the rows to within a millionth of the largest number.

    A threshold is the middle of two numbers, and has to be the same in the 32-bit floats of the ONNX file: so
    no two numbers may be neighbours.
    """
    _, exponent = math.frexp(max(float(np.abs(rows).max(initial=0)), 1e-30))
    step = 2.0 ** (exponent - GRID_BITS)
    return np.asarray(np.round(np.asarray(rows, np.float64) / step) * step)


def _boosting_as_onnx(scope: Any, operator: Any, container: Any) -> None:
    """Convert as skl2onnx does, with 0 and 1 for its booleans, which protobuf refuses among integers."""
    from skl2onnx.operator_converters.random_forest import convert_sklearn_random_forest_classifier

    convert_sklearn_random_forest_classifier(scope, operator, _WithoutBooleans(container))


def _boosting_of_numbers_as_onnx(scope: Any, operator: Any, container: Any) -> None:
    """Convert in the same way."""
    from skl2onnx.operator_converters.random_forest import convert_sklearn_random_forest_regressor_converter

    convert_sklearn_random_forest_regressor_converter(scope, operator, _WithoutBooleans(container))


class _WithoutBooleans:
    """A container of nodes that takes truth values for numbers."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def __getattr__(self, name: str) -> Any:
        return getattr(self._container, name)

    def add_node(self, kind: str, inputs: Any, outputs: Any, **attributes: Any) -> Any:
        plain = {name: _as_numbers(value) for name, value in attributes.items()}
        return self._container.add_node(kind, inputs, outputs, **plain)


def _as_numbers(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [int(entry) if isinstance(entry, bool | np.bool_) else entry for entry in value]
