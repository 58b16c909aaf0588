"""The reader takes what protobuf writes, and nothing else gets through it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.harness.models import exported, file_of, model, plain
from user_client.onnx_model.evaluation import Evaluation
from user_client.onnx_model.wire import MAX_PARTS, RefusedModelError, read

WHOLE = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False)


def with_attribute(value: object) -> bytes:
    return file_of([helper.make_node("Relu", ["rep"], ["probabilities"], value=value)])


@pytest.mark.parametrize("name", exported())
def test_what_is_read_is_what_protobuf_reads(name: str) -> None:
    file, _ = exported()[name]
    expected, found = onnx.load_from_string(file), read(file)
    assert [node.operator for node in found.nodes] == [
        (node.domain, node.op_type) for node in expected.graph.node
    ]
    for node, other in zip(found.nodes, expected.graph.node, strict=True):
        assert (list(node.inputs), list(node.outputs)) == (list(other.input), list(other.output))
        assert set(node.attributes) == {each.name for each in other.attribute}
        for each in other.attribute:
            mine = node.attributes[each.name]
            plain_value = mine.tolist() if isinstance(mine, np.ndarray) else mine
            assert plain_value == helper.get_attribute_value(each)
    for tensor in expected.graph.initializer:
        np.testing.assert_array_equal(found.constants[tensor.name], numpy_helper.to_array(tensor))


@given(st.lists(WHOLE, min_size=1, max_size=40))
def test_whole_numbers_come_through(numbers: list[int]) -> None:
    (node,) = read(with_attribute(numbers)).nodes
    found = node.attributes["value"]
    assert isinstance(found, np.ndarray)
    assert found.tolist() == numbers


@given(st.lists(FLOATS, min_size=1, max_size=40))
def test_floats_come_through(numbers: list[float]) -> None:
    (node,) = read(with_attribute(numbers)).nodes
    found = node.attributes["value"]
    assert isinstance(found, np.ndarray)
    assert found.tolist() == numbers


@given(st.lists(WHOLE, max_size=20), st.booleans())
def test_constants_come_through_packed_or_raw(numbers: list[int], is_raw: bool) -> None:
    values = np.array(numbers, np.int64)
    content = values.tobytes() if is_raw else values
    tensor = helper.make_tensor("c", TensorProto.INT64, [len(numbers)], content, raw=is_raw)
    file = model([helper.make_node("Relu", ["rep"], ["probabilities"])], c=tensor).SerializeToString()
    assert read(file).constants["c"].tolist() == numbers


@given(st.binary(max_size=200))
def test_any_bytes_are_a_model_or_refused(data: bytes) -> None:
    try:
        Evaluation(data)
    except RefusedModelError:
        return
    pytest.fail("random bytes are no model of ours")


@given(st.data())
def test_a_damaged_model_is_a_model_or_refused(data: st.DataObject) -> None:
    names = ["gradient-boosting of 2", "logistic of 3", "knn of 2", "svm of 2"]
    file, output = exported()[data.draw(st.sampled_from(names))]
    damaged = bytearray(file)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    try:
        Evaluation(bytes(damaged)).run(np.zeros((2, 5), np.float32), output)
    except RefusedModelError:
        return


def test_a_field_that_comes_twice_is_refused() -> None:
    """The second would win at one reader and be ignored by another."""
    with pytest.raises(RefusedModelError, match="field 1 of the model twice"):
        read(plain() + plain())


def test_an_unknown_field_is_refused() -> None:
    found = onnx.load_from_string(plain())
    helper.set_model_props(found, {"a": "b"})
    with pytest.raises(RefusedModelError, match="field 14 in the model"):
        read(found.SerializeToString())


def test_too_many_parts_are_refused() -> None:
    found = onnx.load_from_string(plain())
    node = helper.make_node("Relu", ["rep"], ["x"])
    found.graph.node.extend([node] * (MAX_PARTS + 1))
    with pytest.raises(RefusedModelError, match="more than 65,536 parts"):
        read(found.SerializeToString())


def test_half_a_number_and_numbers_of_two_kinds_are_refused() -> None:
    relu = helper.make_node("Relu", ["rep"], ["probabilities"])
    half = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[1], raw_data=b"abc")
    both = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[1], float_data=[1.0], int64_data=[1])
    for tensor, reason in ((half, "half a number"), (both, "not one list")):
        with pytest.raises(RefusedModelError, match=reason):
            read(model([relu], c=tensor).SerializeToString())
