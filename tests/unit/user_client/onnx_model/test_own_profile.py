"""Maps of an institution's own as ONNX files: those that we write, and what else they may consist of."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from user_client.onnx_model.evaluation import Evaluation
from user_client.onnx_model.process import Model
from user_client.onnx_model.profiles import OF_AN_INSTITUTION
from user_client.onnx_model.wire import RefusedModelError
from user_client.onnx_model.writing import cosine_map, kernel_map
from user_client.secret.nonlinear import inverse_root

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((30, 3)).astype(np.float32)
WEIGHTS, SHIFT = RNG.standard_normal((3, 4)).astype(np.float32), RNG.standard_normal(4).astype(np.float32)


def runtime(file: bytes, rows: np.ndarray = ROWS) -> np.ndarray:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (name,) = (each.name for each in session.get_inputs())
    return np.asarray(session.run(None, {name: rows})[0])


def evaluated(file: bytes, rows: np.ndarray = ROWS) -> np.ndarray:
    return Evaluation(file, profile=OF_AN_INSTITUTION).run(rows, "")


def network(nodes: list[Any], outputs: tuple[str, ...] = ("y",)) -> bytes:
    constants = [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(SHIFT, "b")]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in outputs]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])]
    graph = helper.make_graph(nodes, "encoder", given, made, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def layer(**attributes: Any) -> Any:
    return helper.make_node("Gemm", ["x", "w", "b"], ["h"], **attributes)


def test_cosines_are_those_of_numpy_and_of_another_runtime() -> None:
    frequencies, phases = RNG.standard_normal((7, 3)), RNG.uniform(0, 6, 7)
    file = cosine_map(frequencies, phases)
    onnx.checker.check_model(file)
    expected = np.sqrt(2 / 7) * np.cos(ROWS.astype(np.float64) @ frequencies.T + phases)
    np.testing.assert_allclose(evaluated(file), expected, atol=1e-7)
    np.testing.assert_allclose(runtime(file), expected, atol=1e-7)


def test_a_kernel_is_that_of_numpy_and_of_another_runtime() -> None:
    landmarks = RNG.standard_normal((12, 3))
    root = inverse_root(landmarks, 1.2)
    file = kernel_map(landmarks, root, 1.2)
    onnx.checker.check_model(file)
    squares = np.square(ROWS.astype(np.float64)[:, None] - landmarks).sum(axis=2)
    expected = np.exp(-squares / (2 * 1.2**2)) @ root
    np.testing.assert_allclose(evaluated(file), expected, atol=1e-6)
    np.testing.assert_allclose(runtime(file), expected, atol=1e-6)
    assert np.linalg.norm(expected, axis=1).max() <= 1 + 1e-6


@pytest.mark.parametrize("rows", [1, 7, 30])
def test_a_row_is_mapped_alike_whatever_stands_beside_it(rows: int) -> None:
    file = cosine_map(RNG.standard_normal((64, 3)), RNG.uniform(0, 6, 64))
    np.testing.assert_allclose(evaluated(file, ROWS[:rows]), evaluated(file)[:rows], atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Tanh", {}),
        ("Sigmoid", {}),
        ("Relu", {}),
        ("Elu", {"alpha": 0.7}),
        ("LeakyRelu", {"alpha": 0.2}),
        ("LeakyRelu", {}),
        ("Softplus", {}),
        ("Sin", {}),
        ("Neg", {}),
    ],
)
def test_a_layer_of_a_network_is_that_of_another_runtime(operator: str, attributes: dict[str, Any]) -> None:
    file = network([layer(alpha=0.5, beta=2.0), helper.make_node(operator, ["h"], ["y"], **attributes)])
    np.testing.assert_allclose(evaluated(file), runtime(file), atol=1e-6)


def test_a_root_is_that_of_another_runtime() -> None:
    nodes = [layer(), helper.make_node("Mul", ["h", "h"], ["s"]), helper.make_node("Sqrt", ["s"], ["y"])]
    np.testing.assert_allclose(evaluated(network(nodes)), runtime(network(nodes)), atol=1e-6)


def test_weights_may_be_turned_over() -> None:
    turned = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("Gemm", ["x", "t"], ["y"], transB=1),
    ]
    np.testing.assert_allclose(evaluated(network(turned)), ROWS @ WEIGHTS, atol=1e-6)


@pytest.mark.parametrize(
    ("nodes", "outputs", "says"),
    [
        ([layer(), helper.make_node("Erf", ["h"], ["y"])], ("y",), "an operator that may not run: 'Erf'"),
        ([layer(), helper.make_node("Tanh", ["h"], ["y"])], ("y", "h"), "has 2 outputs, and one is needed"),
        ([helper.make_node("Gemm", ["x", "b"], ["y"])], ("y",), "what are no matrices of 32-bit floats"),
        ([helper.make_node("Gemm", ["x", "w"], ["y"], alpha=2)], ("y",), "that is no decimal number"),
    ],
)
def test_a_file_that_is_no_map_is_refused_in_words(
    nodes: list[Any], outputs: tuple[str, ...], says: str
) -> None:
    with pytest.raises(RefusedModelError, match=says):
        evaluated(network(nodes, outputs))


def test_a_model_of_a_round_may_not_consist_of_these() -> None:
    with pytest.raises(RefusedModelError, match="one input 'rep'"):
        Evaluation(network([layer()]))
    renamed = onnx.load_from_string(network([helper.make_node("Elu", ["x"], ["y"], alpha=0.5)]))
    renamed.graph.input[0].name = renamed.graph.node[0].input[0] = "rep"
    with pytest.raises(RefusedModelError, match="may not run: 'Elu'"):
        Evaluation(renamed.SerializeToString())
    renamed.graph.node[0].op_type = "Softmax"
    renamed.graph.node[0].attribute[0].name = "axis"
    with pytest.raises(RefusedModelError, match="attributes that may not be set"):
        Evaluation(renamed.SerializeToString())


def test_the_process_that_evaluates_knows_which_profile_a_file_has() -> None:
    file = network([layer(), helper.make_node("Tanh", ["h"], ["y"])])
    found = Model(file, profile=OF_AN_INSTITUTION).run(ROWS, "")
    np.testing.assert_allclose(found, np.tanh(ROWS @ WEIGHTS + SHIFT), atol=1e-6)
