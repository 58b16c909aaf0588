"""Estimators whose ONNX file computes in 64-bit floats, because their weights may be large.

A total tells features apart that hardly differ, such as random features of a wide kernel. The weights of such
a model come to tens of thousands and cancel each other; added up in 32-bit floats, as the converter's own
operators do, a probability can be off by 1e-3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge


class LinearClasses(LogisticRegression):  # type: ignore[misc]  # scikit-learn ships no types
    """A linear classifier whose ONNX file computes in 64-bit floats."""


class LinearNumbers(Ridge):  # type: ignore[misc]  # scikit-learn has no types
    """A linear regression whose ONNX file computes in 64-bit floats."""


def register() -> None:
    """Tell the converter of both."""
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )

    update_registered_converter(
        LinearClasses,
        "OdcLinearClasses",
        calculate_linear_classifier_output_shapes,
        _classes_as_onnx,
        options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
    )
    update_registered_converter(
        LinearNumbers, "OdcLinearNumbers", calculate_linear_regressor_output_shapes, _numbers_as_onnx
    )


def rows_in_double(operator: Any, version: int) -> Any:
    """Return the node that makes 64-bit floats of an operator's input."""
    from onnx import TensorProto
    from skl2onnx.algebra.onnx_ops import OnnxCast

    return OnnxCast(operator.inputs[0], to=TensorProto.DOUBLE, op_version=version)


def answer_classes(logits: Any, scope: Any, operator: Any, container: Any) -> None:
    """Add the two outputs of a classifier: the likeliest class, and the probabilities in 32-bit floats."""
    from onnx import TensorProto
    from skl2onnx.algebra.onnx_ops import OnnxArgMax, OnnxCast, OnnxSoftmax

    version, (label, answer) = container.target_opset, operator.outputs
    chances = OnnxSoftmax(logits, axis=1, op_version=version)
    rounded = OnnxCast(chances, to=TensorProto.FLOAT, op_version=version, output_names=[answer])
    rounded.add_to(scope, container)
    found = OnnxArgMax(logits, axis=1, keepdims=0, op_version=version, output_names=[label])
    found.add_to(scope, container)


def _linear(weights: Any, shifts: Any, operator: Any, version: int) -> Any:
    from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxMatMul

    product = OnnxMatMul(rows_in_double(operator, version), weights, op_version=version)
    return OnnxAdd(product, shifts, op_version=version)


def _classes_as_onnx(scope: Any, operator: Any, container: Any) -> None:
    fitted = operator.raw_operator
    weights, shifts = fitted.coef_.T, np.asarray(fitted.intercept_)
    if len(fitted.classes_) == 2:  # scikit-learn has one logit then: that of the first class is 0
        weights, shifts = np.hstack([np.zeros_like(weights), weights]), np.array([0.0, *shifts])
    logits = _linear(weights, shifts[None, :], operator, container.target_opset)
    answer_classes(logits, scope, operator, container)


def _numbers_as_onnx(scope: Any, operator: Any, container: Any) -> None:
    from onnx import TensorProto
    from skl2onnx.algebra.onnx_ops import OnnxCast

    fitted, version = operator.raw_operator, container.target_opset
    value = _linear(fitted.coef_[:, None], np.array([[fitted.intercept_]]), operator, version)
    (output,) = operator.outputs
    OnnxCast(value, to=TensorProto.FLOAT, op_version=version, output_names=[output]).add_to(scope, container)
