"""Models as ONNX files: every kind that an analyst exports, and others that no honest one would send."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from analyst_server.training.discriminant import SumsDiscriminant, fit_by_class
from analyst_server.training.from_sums import SumsRidge, fit_total
from analyst_server.training.models import FittedModel, fit, fit_task
from analyst_server.training.onnx_file import export
from analyst_server.training.private import PrivateModel, PrivateTraining
from analyst_server.training.tasks import Classes, Numbers, Several, Survival
from tests.harness.problems import (
    MODELS,
    MODELS_OF_LABELS,
    MODELS_OF_NUMBERS,
    MODELS_OF_SURVIVAL,
    WEIGHTED,
    blobs,
    numbers,
    sets_of_labels,
    survivals,
)

WIDTH: Final = 5
"""Numbers of a row of all these problems."""


@cache
def exported() -> dict[str, tuple[bytes, str]]:
    """Return a file of every kind that an analyst exports, by a name, with its output."""
    return {name: (export(fitted, WIDTH), fitted.task.output) for name, fitted in _fitted()}


def _fitted() -> Iterator[tuple[str, FittedModel]]:
    for classes in (2, 3):
        rows, labels = blobs(classes)
        for kind, model in MODELS.items():
            yield f"{kind} of {classes}", fit(model, rows, labels, classes)
        for hidden_units in (0, 8):
            training = PrivateTraining(epsilon=5.0, delta=1e-5, steps=3)
            private = PrivateModel(training=training, features=WIDTH, hidden_units=hidden_units)
            yield f"private {hidden_units} of {classes}", fit(private, rows, labels, classes)
        z = np.hstack([np.ones((len(rows), 1)), rows.astype(np.float64)])
        total = _total(z, np.eye(classes)[labels])
        yield f"sums of {classes}", fit_total(SumsRidge(), total, WIDTH, Classes(classes))
        by_class = np.stack([z[labels == each].T @ z[labels == each] for each in range(classes)])
        yield f"sums by class of {classes}", fit_by_class(SumsDiscriminant(), by_class)
    for kind, model in WEIGHTED.items():
        yield f"{kind} with weights", fit(model, *blobs(3), 3)
    rows, targets = numbers()
    for kind, model in MODELS_OF_NUMBERS.items():
        yield f"{kind} of numbers", fit_task(model, rows, targets, Numbers())
    z = np.hstack([np.ones((len(rows), 1)), rows.astype(np.float64)])
    yield "sums of numbers", fit_total(SumsRidge(), _total(z, targets[:, None]), WIDTH, Numbers())
    for kind, model in MODELS_OF_SURVIVAL.items():
        yield f"{kind} of survival", fit_task(model, *survivals(), Survival((0.1, 0.4)))
    for kind, model in MODELS_OF_LABELS.items():
        yield f"{kind} of labels", fit_task(model, *sets_of_labels(), Several(("a", "b", "c")))


def _total(z: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.hstack([z, targets])
    return np.asarray(whole.T @ whole)


def model(
    nodes: Sequence[onnx.NodeProto], *, width: int = WIDTH, domains: Sequence[str] = (), **constants: Any
) -> onnx.ModelProto:
    """Return a model of these nodes from ``rep`` to ``probabilities``."""
    kept = [
        each if isinstance(each, onnx.TensorProto) else numpy_helper.from_array(np.asarray(each), name)
        for name, each in constants.items()
    ]
    graph = helper.make_graph(
        nodes,
        "odc",
        [helper.make_tensor_value_info("rep", TensorProto.FLOAT, [None, width])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2])],
        kept,
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def file_of(nodes: Sequence[onnx.NodeProto], **others: Any) -> bytes:
    """Return the file of such a model."""
    return bytes(model(nodes, **others).SerializeToString())


def plain() -> bytes:
    """Return an honest model of two classes: a softmax of two numbers of a row."""
    nodes = [
        helper.make_node("MatMul", ["rep", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    return file_of(nodes, w=np.eye(WIDTH, 2, dtype=np.float32))


def circle() -> bytes:
    """Return a model of one tree whose first node leads to itself."""
    lists: dict[str, Any] = {
        "nodes_treeids": [0, 0],
        "nodes_nodeids": [0, 1],
        "nodes_featureids": [0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF"],
        "nodes_truenodeids": [0, 0],
        "nodes_falsenodeids": [1, 0],
        "nodes_values": [0.0, 0.0],
        "class_treeids": [0],
        "class_nodeids": [1],
        "class_ids": [0],
        "class_weights": [1.0],
        "classlabels_int64s": [0, 1],
        "post_transform": "NONE",
    }
    tree = helper.make_node(
        "TreeEnsembleClassifier", ["rep"], ["label", "probabilities"], domain="ai.onnx.ml", **lists
    )
    return file_of([tree], domains=["ai.onnx.ml"])


def hostile() -> dict[str, bytes]:
    """Return models that no honest analyst sends, by what they try."""
    node, half = helper.make_node, np.full((1, 2), 0.5, np.float32)
    answer = node("MatMul", ["rep", "w"], ["probabilities"])
    w = np.eye(WIDTH, 2, dtype=np.float32)
    large = node("ConstantOfShape", ["shape"], ["much"])
    empty = helper.make_graph([], "inner", [], [])
    inner = helper.make_graph(
        [node("Identity", ["on_in"], ["on_out"])],
        "forever",
        [helper.make_tensor_value_info(name, kind, []) for name, kind in (("turn", 7), ("on_in", 9))],
        [helper.make_tensor_value_info("on_out", TensorProto.BOOL, [])],
    )
    outside = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[WIDTH, 2])
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="basis.npy")
    absent = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**31, 2**31])
    long_ones = np.ones((2**14, 1), np.float32)
    function = model([node("Steal", ["rep"], ["probabilities"], domain="odc")], domains=["odc"])
    function.functions.append(helper.make_function("odc", "Steal", ["x"], ["y"], [], []))
    return {
        "asks for 4 GB by a shape": file_of([large, answer], shape=np.array([2**30]), w=w),
        "turns in a loop for ever": file_of(
            [node("Loop", ["", "", "on"], ["still"], body=inner), answer], on=np.array([1]), w=w
        ),
        "has a graph in a condition": file_of(
            [node("If", ["on"], ["still"], then_branch=empty, else_branch=empty), answer],
            on=np.array([1]),
            w=w,
        ),
        "runs an operator of another domain": file_of(
            [node("Inverse", ["rep"], ["probabilities"], domain="com.microsoft")], domains=["com.microsoft"]
        ),
        "has a function of its own": bytes(function.SerializeToString()),
        "reads our file": file_of([answer], w=outside),
        "promises numbers that are not there": file_of([answer], w=absent),
        "makes much of little": file_of(
            [
                node("MatMul", ["long", "across"], ["square"]),
                node("ReduceMax", ["square"], ["most"], keepdims=0),
                node("Add", ["half", "most"], ["probabilities"]),
            ],
            long=long_ones,
            across=long_ones.T.copy(),
            half=half,
        ),
        "makes much of each row": file_of(
            [
                node("Unsqueeze", ["rep", "last"], ["column"]),
                node("Mul", ["column", "across"], ["wide"]),
                node("MatMul", ["across", "long"], ["count"]),
                node("MatMul", ["long", "wide"], ["square"]),
                node("ReduceMax", ["square"], ["probabilities"], keepdims=0),
            ],
            last=np.array([2]),
            long=long_ones,
            across=long_ones.T.copy(),
        ),
        "goes round in a tree": circle(),
        "has no output of that name": file_of([node("MatMul", ["rep", "w"], ["others"])], w=w),
        "is no ONNX file": b"\x80\x04pickle",
        "is empty": b"",
        "ends in the middle": plain()[:-9],
    }
