"""Our evaluation of a model says what onnxruntime says, for every model an analyst exports."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper

from analyst_server.training import onnx_file
from analyst_server.training.models import fit
from tests.harness.models import WIDTH, exported, file_of, model, plain
from tests.harness.problems import MODELS, blobs
from tests.harness.tree import REPOSITORY
from user_client.onnx_model.evaluation import IR_VERSIONS, OPERATORS, OPSETS, Evaluation
from user_client.onnx_model.wire import RefusedModelError

ROWS = np.random.default_rng(0).standard_normal((500, WIDTH)).astype(np.float32)
NAMES = pytest.mark.parametrize("name", exported())
FORMS = {"RBF", "NONE", "LOGISTIC", "SOFTMAX", "LEAF", "ModelProto", "L1"}
TOLERANCE = 2e-6
"""Between two orders of adding up 32-bit floats."""


def by_onnxruntime(file: bytes, output: str, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run([output], {"rep": rows})[0])


@NAMES
def test_every_exported_model_has_the_predictions_of_onnxruntime(name: str) -> None:
    file, output = exported()[name]
    expected = by_onnxruntime(file, output, ROWS)
    found = Evaluation(file).run(ROWS, output)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE)
    np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))


@NAMES
def test_a_row_has_the_same_answer_alone(name: str) -> None:
    file, output = exported()[name]
    evaluation = Evaluation(file)
    alone = np.concatenate([evaluation.run(row[None, :], output) for row in ROWS[:5]])
    np.testing.assert_allclose(evaluation.run(ROWS, output)[:5], alone, atol=TOLERANCE)


@NAMES
def test_an_exported_model_is_within_the_profile(name: str) -> None:
    """And in the simplest sense: by the lists alone, with another reader than ours."""
    found = onnx.load_from_string(exported()[name][0])
    assert found.ir_version in IR_VERSIONS
    assert all(each.version in OPSETS[each.domain] for each in found.opset_import)
    assert all(node.op_type in OPERATORS[node.domain] for node in found.graph.node)


@pytest.mark.parametrize("kind", ["svm", "random-feature-svm", "random-forest", "averaged", "knn"])
@pytest.mark.parametrize("opset", [18, 21])
def test_models_of_older_converters_have_the_same_predictions(
    kind: str, opset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "OPSET", opset)
    rows, labels = blobs(3)
    file = onnx_file.export(fit(MODELS[kind], rows, labels, 3), WIDTH)
    expected = by_onnxruntime(file, "probabilities", ROWS)
    np.testing.assert_allclose(Evaluation(file).run(ROWS, "probabilities"), expected, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("operator", "domain"), [(name, domain) for domain, names in OPERATORS.items() for name in names]
)
def test_no_operator_fails_on_inputs_that_do_not_fit(operator: str, domain: str) -> None:
    """Whatever is wrong with a node, it is refused, and numpy's own errors do not come out."""
    least, most = OPERATORS[domain][operator].inputs
    for constant in (np.float32(1), np.array([-9]), np.ones((2, 0)), np.array([[2**62]]), np.ones((1, 1, 3))):
        for count in {least, min(most, 3)}:
            inputs = ["rep", *["c"] * (count - 1)]
            node = helper.make_node(operator, inputs, ["probabilities"], domain=domain)
            file = file_of([node], domains=[domain] if domain else [], c=constant)
            try:
                found = Evaluation(file).run(ROWS[:2], "probabilities")
            except RefusedModelError:
                continue
            assert len(found) == 2


def changed(**fields: object) -> bytes:
    found = onnx.load_from_string(plain())
    for name, value in fields.items():
        setattr(found, name, value)
    return bytes(found.SerializeToString())


def test_versions_outside_the_profile_are_refused() -> None:
    for version in (6, 11):
        with pytest.raises(RefusedModelError, match=f"IR version {version}"):
            Evaluation(changed(ir_version=version))
    for opset in (12, 23):
        found = onnx.load_from_string(plain())
        found.opset_import[0].version = opset
        with pytest.raises(RefusedModelError, match=f"opset {opset}"):
            Evaluation(found.SerializeToString())


def test_a_second_input_or_another_name_is_refused() -> None:
    found = onnx.load_from_string(plain())
    found.graph.input[0].name = "x"
    with pytest.raises(RefusedModelError, match="one input 'rep'"):
        Evaluation(found.SerializeToString())


def test_an_attribute_that_no_model_needs_is_refused() -> None:
    node = helper.make_node("Softmax", ["rep"], ["probabilities"], axis=1, odd=3)
    with pytest.raises(RefusedModelError, match="attributes that may not be set"):
        Evaluation(file_of([node]))


def test_a_value_is_named_once_and_before_it_is_used() -> None:
    relu = helper.make_node("Relu", ["rep"], ["probabilities"])
    with pytest.raises(RefusedModelError, match="names its output as another"):
        Evaluation(file_of([relu, relu]))
    with pytest.raises(RefusedModelError, match="no node before it makes"):
        Evaluation(file_of([helper.make_node("Relu", ["later"], ["probabilities"])]))


def test_an_answer_of_another_form_is_refused() -> None:
    for node in (
        helper.make_node("ReduceSum", ["rep"], ["probabilities"]),
        helper.make_node("Cast", ["rep"], ["probabilities"], to=onnx.TensorProto.DOUBLE),
    ):
        with pytest.raises(RefusedModelError, match="answers something else"):
            Evaluation(file_of([node])).run(ROWS, "probabilities")


def test_a_model_of_constants_alone_answers_no_row() -> None:
    found = model([helper.make_node("Identity", ["c"], ["probabilities"])], c=np.ones((2, 2), np.float32))
    with pytest.raises(RefusedModelError, match="answers something else"):
        Evaluation(found.SerializeToString()).run(ROWS, "probabilities")


def test_the_profile_of_the_protocol_names_every_operator_and_version() -> None:
    profile = (
        (REPOSITORY / "docs" / "protocol.md").read_text().split("is within this profile")[1].split("###")[0]
    )
    operators = {name for names in OPERATORS.values() for name in names}
    assert {each for each in re.findall(r"`([A-Z][A-Za-z]+)`", profile) if each not in FORMS} == operators
    for allowed in (IR_VERSIONS, *OPSETS.values()):
        assert f"{allowed[0]} to {allowed[-1]}" in profile


def test_a_forest_of_very_many_classes_needs_no_table_of_zeros() -> None:
    """A tree for each class: with a number for every node and class it would be refused as too large."""
    classes, trees = 3000, 6000
    branch = ["BRANCH_LEQ", "LEAF", "LEAF"] * trees
    each = np.arange(trees)
    forest = helper.make_node(
        "TreeEnsembleClassifier",
        ["rep"],
        ["label", "probabilities"],
        domain="ai.onnx.ml",
        nodes_treeids=np.repeat(each, 3).tolist(),
        nodes_nodeids=[0, 1, 2] * trees,
        nodes_featureids=np.repeat(each % WIDTH, 3).tolist(),
        nodes_modes=branch,
        nodes_truenodeids=[1, 0, 0] * trees,
        nodes_falsenodeids=[2, 0, 0] * trees,
        nodes_values=[0.25, 0.0, 0.0] * trees,
        class_treeids=np.repeat(each, 2).tolist(),
        class_nodeids=[1, 2] * trees,
        class_ids=np.repeat(each % classes, 2).tolist(),
        class_weights=np.linspace(-1, 1, 2 * trees).astype(np.float32).tolist(),
        classlabels_int64s=list(range(classes)),
        post_transform="SOFTMAX",
    )
    file = file_of([forest], domains=["ai.onnx.ml"])
    expected = by_onnxruntime(file, "probabilities", ROWS[:50])
    found = Evaluation(file).run(ROWS[:50], "probabilities")
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=1e-4)


def test_machines_of_a_hundred_classes_are_put_side_by_side() -> None:
    parts = [f"c{number}" for number in range(100)]
    nodes = [helper.make_node("MatMul", ["rep", "w"], [part]) for part in parts]
    nodes.append(helper.make_node("Concat", parts, ["probabilities"], axis=1))
    found = Evaluation(file_of(nodes, w=np.ones((WIDTH, 1), np.float32))).run(ROWS, "probabilities")
    assert found.shape == (len(ROWS), 100)
