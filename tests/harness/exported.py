"""The file of `odc export`, in plain onnxruntime beside what `odc predict` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.csv


def predicts_as_it_exports(member: Any, table: pa.Table, folder: Path) -> tuple[float, set[str]]:
    """Predict for a table with the classes no and yes, export, and fail if the two differ.

    Return the share of rows that are predicted right, and the columns that the exported file takes.
    """
    fresh, out, onnx = (folder / name for name in ("fresh.csv", "out.csv", "model.onnx"))
    pyarrow.csv.write_csv(table.drop_columns(["label"]), fresh)
    member.odc("predict", str(fresh), "--out", str(out))
    found = pyarrow.csv.read_csv(out)
    said = np.stack([found[f"probability_{each}"] for each in ("no", "yes")], axis=1)
    right = np.where(said[:, 1] > 0.5, "yes", "no") == np.array(table["label"].to_pylist())
    member.odc("export", "--out", str(onnx))
    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    given = {
        each.name: np.array(table[each.name].to_pylist(), np.float64)[:, None]
        for each in session.get_inputs()
    }
    answers = dict(zip([each.name for each in session.get_outputs()], session.run(None, given), strict=True))
    np.testing.assert_allclose(answers["probabilities"], said, rtol=0, atol=1e-5)
    return float(right.mean()), set(given)
