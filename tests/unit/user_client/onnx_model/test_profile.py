"""The profile of ONNX in docs/protocol.md: tests/vectors/models.json, read and evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from user_client.onnx_model.evaluation import Evaluation
from user_client.onnx_model.wire import RefusedModelError

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "models.json").read_text())
REP = np.array(VECTORS["rep"], np.float32)


def cases(*, valid: bool) -> list[Any]:
    return [
        pytest.param(
            b"".join(bytes.fromhex(data) * times for data, times in case["parts"]), case, id=case["name"]
        )
        for case in VECTORS["models"]
        if (case["verdict"] == "valid") == valid
    ]


@pytest.mark.parametrize(("file", "case"), cases(valid=True))
def test_a_file_within_the_profile_answers_as_in_the_vectors(file: bytes, case: dict[str, Any]) -> None:
    model = Evaluation(file)
    np.testing.assert_allclose(model.run(REP, "probabilities"), case["probabilities"], rtol=0, atol=1e-6)
    for row, expected in zip(REP, case["probabilities"], strict=True):
        np.testing.assert_allclose(model.run(row[None], "probabilities"), [expected], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("file", "case"), cases(valid=False))
def test_a_file_outside_of_the_profile_is_refused(file: bytes, case: dict[str, Any]) -> None:
    with pytest.raises(RefusedModelError):
        Evaluation(file).run(REP, "probabilities")
