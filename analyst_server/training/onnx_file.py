"""A fitted model as ONNX: safe to load, runs anywhere, no pickle."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import onnx
import onnx.compose
import onnxruntime
from skl2onnx import __max_supported_opset__, to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.pipeline import Pipeline

from analyst_server.training.models import FittedModel
from analyst_server.training.tasks import Classes, Matrix, Several, Task

PARITY_TOLERANCE = 1e-4
"""Largest difference in a prediction: float32 rounding through a few hundred units is 1e-6."""
ERRORS_ALONE = 3
"""What onnxruntime logs: it warns of parts of a model that are there and not used."""
_NO_MEMORY: Final = ("std::bad_alloc", "Failed to allocate memory", "Cannot allocate memory")
"""As it loads a file, as it answers, and where a thread of its own gets no stack."""
OPSET = min(22, __max_supported_opset__)
"""Whatever a newer converter could write: institutions run the operators of docs/protocol.md alone."""
BATCH_ROWS = 8192
"""Rows that are predicted at once."""


def export(fitted: FittedModel, latent_dim: int) -> bytes:
    """Return the ONNX file of a fitted model: input ``rep`` (n, l).

    Its outputs are ``label`` and ``probabilities`` for classes, ``value`` (n, 1) for numbers, ``survival``
    (n, k), and ``probabilities`` (n, k) for several labels.
    """
    fitted.model.prepare_export()
    protos = [_converted(each, latent_dim, fitted.task) for each in fitted.pipelines]
    if isinstance(fitted.task, Several):
        return bytes(_side_by_side(protos).SerializeToString())
    (proto,) = protos
    if not isinstance(fitted.task, Classes):
        _append_scale(proto.graph, fitted)
    return bytes(proto.SerializeToString())


def _converted(pipeline: Pipeline, latent_dim: int, task: Task) -> onnx.ModelProto:
    with warnings.catch_warnings():
        # the converter asks an SVM for an attribute that scikit-learn gives up; we set no `probability`
        warnings.filterwarnings("ignore", "Attribute `prob", FutureWarning)
        proto: onnx.ModelProto = to_onnx(
            pipeline,
            initial_types=[("rep", FloatTensorType([None, latent_dim]))],
            options={"zipmap": False} if isinstance(task, Classes | Several) else None,
            target_opset=OPSET,
        )
    return proto


def _side_by_side(protos: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """Return one model of several of two classes: their probabilities of the second, (n, k)."""
    whole, columns = onnx.ModelProto(), []
    whole.CopyFrom(protos[0])
    graph = whole.graph
    for repeated in (graph.node, graph.initializer, graph.output, graph.value_info):
        del repeated[:]
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "second_class"))
    for number, proto in enumerate(protos):
        own = onnx.compose.add_prefix_graph(proto.graph, f"{number}_", rename_inputs=False)
        graph.node.extend(own.node)
        graph.initializer.extend(own.initializer)
        columns.append(f"{number}_second")
        graph.node.append(
            onnx.helper.make_node(
                "Gather",
                [f"{number}_probabilities", "second_class"],
                [columns[-1]],
                f"{number}_second",
                axis=1,
            )
        )
    graph.node.append(onnx.helper.make_node("Concat", columns, ["probabilities"], "probabilities", axis=1))
    shape: list[str | int | None] = ["rows", len(protos)]
    graph.output.append(onnx.helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, shape))
    return whole


def _append_scale(graph: Any, fitted: FittedModel) -> None:
    """Have the graph undo the scale of the labels, and name its output."""
    (found,) = graph.output
    for name, number in (("label_scale", fitted.label_scale), ("label_shift", fitted.label_shift)):
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([number], np.float32), name))
    output = fitted.task.output
    graph.node.append(onnx.helper.make_node("Mul", [found.name, "label_scale"], ["of_one_unit"]))
    graph.node.append(onnx.helper.make_node("Add", ["of_one_unit", "label_shift"], [output]))
    found.name = output


def checked_file(fitted: FittedModel, probes: Matrix) -> tuple[bytes, float]:
    """Return the ONNX file of a model, and how far its predictions are from the model's on some rows (n, l).

    Raises `ValueError` if that is more than `PARITY_TOLERANCE`.
    """
    onnx_file = export(fitted, probes.shape[1])
    gap = parity_gap(fitted, onnx_file, probes)
    if not gap <= PARITY_TOLERANCE:
        raise ValueError(f"the ONNX file differs from the trained model by {gap:.1e} in a prediction")
    return onnx_file, gap


def parity_gap(fitted: FittedModel, onnx_file: bytes, aligned_rep: Matrix) -> float:
    """Return the largest difference of a prediction between a fitted model and its ONNX file.

    That is a class probability, or a number from -1 to 1.
    """
    gap = 0.0
    for batch, found in _in_batches(onnx_file, fitted.task.output, aligned_rep):
        difference = np.abs(found - fitted.predictions(batch))
        gap = max(gap, float(np.where(np.isnan(difference), np.inf, difference).max()))
    return gap


def predict(onnx_file: bytes, output: str, aligned_rep: Matrix) -> Matrix:
    """Return what an ONNX file says of the rows of an aligned representation, in float32."""
    return np.concatenate([found for _, found in _in_batches(onnx_file, output, aligned_rep)])


def _in_batches(onnx_file: bytes, output: str, aligned_rep: Matrix) -> Iterator[tuple[Matrix, Matrix]]:
    """Yield some rows at a time, as float32, and what the file says of them."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ALONE
    with _memory_errors():
        session = onnxruntime.InferenceSession(onnx_file, options, providers=["CPUExecutionProvider"])
    for start in range(0, len(aligned_rep), BATCH_ROWS):
        batch = np.asarray(aligned_rep[start : start + BATCH_ROWS], dtype=np.float32)
        with _memory_errors():
            (found,) = session.run([output], {"rep": batch})
        yield batch, found


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Raise `MemoryError` where onnxruntime says in the text of another error that it gets no memory."""
    try:
        yield
    except Exception as error:
        if any(sign in str(error) for sign in _NO_MEMORY):
            raise MemoryError("onnxruntime") from error
        raise
