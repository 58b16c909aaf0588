"""The operators of the domain ``ai.onnx.ml`` that models of a round consist of: linear ones, machines, trees.

Only in the form in which models of a round have them; everything else is refused.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.onnx_model.operators import (
    Call,
    Operator,
    Outputs,
    Values,
    logistic,
    shares,
    softmax,
    whole_numbers,
)
from user_client.onnx_model.trees import CLASSIFIER_ATTRIBUTES, REGRESSOR_ATTRIBUTES, forest_of
from user_client.onnx_model.wire import RefusedModelError

_FORM: Final = "has an operator in a form that no model of a round has"


def _rows(call: Call) -> NDArray[np.float32]:
    """Return the input, which is a matrix of 32-bit floats."""
    if call.first.ndim != 2 or call.first.dtype != np.float32:
        raise RefusedModelError("hands something else than a matrix of 32-bit floats to a learned part")
    return call.first


def _transformed(call: Call, scores: NDArray[np.float32]) -> Values:
    """Return what the scores of classes are made into."""
    match call.text("post_transform", "NONE"):
        case "NONE":
            return scores
        case "LOGISTIC":
            return logistic(scores)
        case "SOFTMAX":
            return softmax(scores)
    raise RefusedModelError(_FORM)


def _chosen(answer: Values, labels: Values) -> Values:
    """Return the label of the largest number of each row."""
    if answer.shape[1] != len(labels):
        raise RefusedModelError(_FORM)
    return np.asarray(labels[answer.argmax(axis=1)])


def _linear(call: Call, outputs: int) -> NDArray[np.float32]:
    rows, weights, shifts = _rows(call), call.numbers("coefficients"), call.numbers("intercepts")
    if outputs < 1 or len(weights) != outputs * rows.shape[1] or len(shifts) not in (0, outputs):
        raise RefusedModelError(f"has {len(weights):,} weights for rows of {rows.shape[1]:,} numbers")
    call.room.take((len(rows), outputs))
    found = rows @ weights.reshape(outputs, rows.shape[1]).T
    return np.asarray(found + shifts if len(shifts) else found, np.float32)


def _linear_classifier(call: Call) -> Outputs:
    labels = call.numbers("classlabels_ints", np.int64)
    answer = _transformed(call, _linear(call, len(labels)))
    return _chosen(answer, labels), answer


def _linear_regressor(call: Call) -> Outputs:
    return (_linear(call, call.whole("targets", 1)),)


def _scaler(call: Call) -> Outputs:
    rows, shift, scale = _rows(call), call.numbers("offset"), call.numbers("scale")
    if {len(shift), len(scale)} - {1, rows.shape[1]}:
        raise RefusedModelError("scales by another number of columns than there are")
    return ((rows - shift) * scale,)


def _normalizer(call: Call) -> Outputs:
    if call.text("norm", "MAX") != "L1":
        raise RefusedModelError(_FORM)
    return (shares(_rows(call), 1),)


def _extractor(call: Call) -> Outputs:
    """Return some of the numbers along the last axis."""
    places = whole_numbers(call.inputs[1]).ravel()
    values = call.first if call.first.ndim > 1 else call.first[None, :]
    call.room.take((*values.shape[:-1], len(places)))
    return (np.take(values, places, axis=-1),)


def _machine(call: Call) -> Outputs:
    """Return the score of a machine with the kernel ``exp(-gamma ||x - y||^2)`` between two classes."""
    rows, labels = _rows(call).astype(np.float64), call.numbers("classlabels_ints", np.int64)
    counts, weights = call.numbers("vectors_per_class", np.int64), call.numbers("coefficients")
    kernel, shift = call.numbers("kernel_params"), call.numbers("rho")
    form = (call.text("kernel_type", "LINEAR"), call.text("post_transform", "NONE"))
    if form != ("RBF", "NONE") or len(labels) != 2 or len(counts) != 2 or len(shift) != 1 or len(kernel) != 3:
        raise RefusedModelError(_FORM)
    vectors = call.numbers("support_vectors").astype(np.float64)
    if len(weights) != int(counts.sum()) or len(vectors) != len(weights) * rows.shape[1]:
        raise RefusedModelError(f"has {len(weights):,} weights of a machine for another number of rows")
    vectors = vectors.reshape(len(weights), rows.shape[1])
    call.room.take((len(rows), len(weights)))
    call.room.take((len(rows), 2))
    squares = (rows**2).sum(axis=1)[:, None] + (vectors**2).sum(axis=1) - 2 * rows @ vectors.T
    nearness = np.exp(-float(kernel[0]) * np.maximum(squares, 0))
    score = (nearness @ weights.astype(np.float64) + float(shift[0])).astype(np.float32)
    answer = np.column_stack([-score, score])
    return _chosen(answer, labels), answer


def _tree_classifier(call: Call) -> Outputs:
    labels = call.numbers("classlabels_int64s", np.int64)
    forest = forest_of(call, "class", len(labels))
    scores = forest.scores(_rows(call), call.room)
    if len(labels) == 2 and forest.targets == 1:  # of two classes, only the score of the second stands there
        is_share = call.text("post_transform", "NONE") == "NONE"
        scores = np.column_stack([1 - scores if is_share else -scores, scores])
    answer = _transformed(call, scores)
    return _chosen(answer, labels), answer


def _tree_regressor(call: Call) -> Outputs:
    if call.text("post_transform", "NONE") != "NONE" or call.text("aggregate_function", "SUM") != "SUM":
        raise RefusedModelError(_FORM)
    forest = forest_of(call, "target", call.whole("n_targets", 1))
    return (forest.scores(_rows(call), call.room),)


_LINEAR: Final = frozenset({"coefficients", "intercepts", "post_transform"})
_MACHINE: Final = frozenset(
    {
        "classlabels_ints",
        "coefficients",
        "kernel_params",
        "kernel_type",
        "post_transform",
        "rho",
        "support_vectors",
        "vectors_per_class",
    }
)
LEARNED: Final[dict[str, Any]] = {
    "ArrayFeatureExtractor": Operator(_extractor, inputs=(2, 2)),
    "LinearClassifier": Operator(_linear_classifier, _LINEAR | {"classlabels_ints", "multi_class"}),
    "LinearRegressor": Operator(_linear_regressor, _LINEAR | {"targets"}),
    "Normalizer": Operator(_normalizer, frozenset({"norm"})),
    "SVMClassifier": Operator(_machine, _MACHINE),
    "Scaler": Operator(_scaler, frozenset({"offset", "scale"})),
    "TreeEnsembleClassifier": Operator(_tree_classifier, CLASSIFIER_ATTRIBUTES),
    "TreeEnsembleRegressor": Operator(_tree_regressor, REGRESSOR_ATTRIBUTES),
}
