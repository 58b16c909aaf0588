"""A model that names other files to read its numbers from does not get at the institution's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from protocol.errors import MalformedMessageError
from user_client.sdk.downlink import _run_model

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
    np.testing.assert_allclose(_run_model(model(inside), ROWS), [[0.1, 0.9], [0.8, 0.2]], rtol=1e-6)


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_model_cannot_read_a_file_of_ours(
    is_absolute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "basis.npy").write_bytes(np.full(4, 0.5, dtype=np.float32).tobytes())
    outside = onnx.TensorProto(name="secret", data_type=TensorProto.FLOAT, dims=[2, 2])
    outside.data_location = TensorProto.EXTERNAL
    place = str(tmp_path / "basis.npy") if is_absolute else "basis.npy"
    for key, value in {"location": place, "offset": "0", "length": "16"}.items():
        outside.external_data.add(key=key, value=value)
    with pytest.raises(MalformedMessageError, match="cannot be run"):
        _run_model(model(outside), ROWS)
