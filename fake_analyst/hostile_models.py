"""Models that no honest analyst sends: outside the profile of section 9, some without end or bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fake_analyst.honest import LATENT_DIM

CLASSES: Final = 2
_W: Final = np.eye(LATENT_DIM, CLASSES, dtype=np.float32)


def _file(nodes: Sequence[onnx.NodeProto], *, domains: Sequence[str] = (), **constants: Any) -> bytes:
    """Return the file of a model of these nodes, from ``rep`` to ``probabilities``."""
    kept = [
        each if isinstance(each, onnx.TensorProto) else numpy_helper.from_array(np.asarray(each), name)
        for name, each in constants.items()
    ]
    graph = helper.make_graph(
        nodes,
        "odc",
        [helper.make_tensor_value_info("rep", TensorProto.FLOAT, [None, LATENT_DIM])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, CLASSES])],
        kept,
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def plain() -> bytes:
    """Return a model within the profile: a softmax of two numbers of a row."""
    scores = helper.make_node("MatMul", ["rep", "w"], ["scores"])
    return _file([scores, helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1)], w=_W)


def _answer() -> onnx.NodeProto:
    return helper.make_node("MatMul", ["rep", "w"], ["probabilities"])


def _of_another_domain() -> bytes:
    node = helper.make_node("Inverse", ["rep"], ["probabilities"], domain="com.microsoft")
    return _file([node], domains=["com.microsoft"])


def _endless() -> bytes:
    inner = helper.make_graph(
        [helper.make_node("Identity", ["on_in"], ["on_out"])],
        "forever",
        [helper.make_tensor_value_info(name, kind, []) for name, kind in (("turn", 7), ("on_in", 9))],
        [helper.make_tensor_value_info("on_out", TensorProto.BOOL, [])],
    )
    loop = helper.make_node("Loop", ["", "", "on"], ["still"], body=inner)
    return _file([loop, _answer()], on=np.array([1]), w=_W)


def _of_four_gigabytes() -> bytes:
    much = helper.make_node("ConstantOfShape", ["shape"], ["much"])
    return _file([much, _answer()], shape=np.array([2**30]), w=_W)


def _of_a_file() -> bytes:
    outside = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[LATENT_DIM, CLASSES])
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="identity.key")
    return _file([_answer()], w=outside)


def _of_much_within() -> bytes:
    """Return one of allowed operators alone, which multiply little into much: 2 GB of each row."""
    long = np.ones((2**14, 1), np.float32)
    nodes = [
        helper.make_node("MatMul", ["long", "across"], ["square"]),
        helper.make_node("ReduceMax", ["square"], ["most"], keepdims=0),
        helper.make_node("Add", ["half", "most"], ["probabilities"]),
    ]
    return _file(nodes, long=long, across=long.T.copy(), half=np.full((1, CLASSES), 0.5, np.float32))


MODELS: Final[tuple[tuple[str, str, Callable[[], bytes]], ...]] = (
    ("of-another-domain", "releases a model with an operator of another domain", _of_another_domain),
    ("without-end", "releases a model with a loop that never ends", _endless),
    ("of-four-gigabytes", "releases 200 bytes of a model that asks for four gigabytes", _of_four_gigabytes),
    ("of-a-file", "releases a model whose numbers are in a file of the client", _of_a_file),
    ("of-much", "releases a model of allowed operators that asks for a gigabyte", _of_much_within),
    ("of-no-model", "releases bytes that are no ONNX file", lambda: b"\x80\x04pickle"),
)
