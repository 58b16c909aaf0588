"""A model that names other files to read its numbers from does not get at the institution's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from protocol.errors import MalformedMessageError
from tests.harness.attacks import got
from user_client.sdk.predictor import Model

ROWS = np.zeros((2, 3), dtype=np.float32)


def model(numbers: onnx.TensorProto) -> bytes:
    """A model whose probabilities are the given numbers, whatever it is asked."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["secret"], ["probabilities"])],
        "hostile",
        [helper.make_tensor_value_info("rep", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [2, 2])],
        [numbers],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def test_a_model_without_other_files_runs() -> None:
    inside = helper.make_tensor("secret", TensorProto.FLOAT, [2, 2], [0.1, 0.9, 0.8, 0.2])
    np.testing.assert_allclose(Model(model(inside)).run(ROWS), [[0.1, 0.9], [0.8, 0.2]], rtol=1e-6)


def reading(place: Path) -> bytes:
    """A model whose probabilities are the numbers in a file."""
    outside = onnx.TensorProto(name="secret", data_type=TensorProto.FLOAT, dims=[2, 2])
    outside.data_location = TensorProto.EXTERNAL
    for key, value in {"location": str(place), "offset": "0", "length": "16"}.items():
        outside.external_data.add(key=key, value=value)
    return model(outside)


@pytest.fixture
def basis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file where a model would look that is run without more ado."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "basis.npy"
    path.write_bytes(np.full(4, 0.5, dtype=np.float32).tobytes())
    return path


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_model_cannot_read_a_file_of_ours(is_absolute: bool, basis: Path) -> None:
    with pytest.raises(MalformedMessageError, match="cannot be run"):
        Model(reading(basis if is_absolute else Path(basis.name))).run(ROWS)
    got("hostile model", numbers_read=0)


def test_a_model_reads_our_file_if_it_is_run_beside_it(basis: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutation: the directory the model may look into is the one that holds the basis."""

    class LooksAround(onnxruntime.SessionOptions):  # type: ignore[misc]  # the runtime has no types
        def add_session_config_entry(self, key: str, _value: str) -> None:
            super().add_session_config_entry(key, str(basis.parent))

    monkeypatch.setattr(onnxruntime, "SessionOptions", LooksAround)
    read = Model(reading(Path(basis.name))).run(ROWS)
    got("hostile model, run beside the basis", numbers_read=int((read == 0.5).sum()))
    np.testing.assert_array_equal(read, np.full((2, 2), 0.5))
