"""Whole tables mean the same to every reader: those of tests/vectors/numbers.json, read and encoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.table_schema import Schema
from user_client.errors import TableError
from user_client.tables import encode_labels, encode_rows, read_table

CASES = json.loads((Path(__file__).parents[3] / "vectors" / "numbers.json").read_text())["tables"]


def as_file(directory: Path, case: dict[str, Any]) -> tuple[Path, Schema]:
    path = directory / "rows.csv"
    path.write_bytes(case["text"].encode())
    return path, Schema.model_validate(case["schema"], strict=False)


def encoded(path: Path, schema: Schema) -> tuple[NDArray[Any], NDArray[Any]]:
    table = read_table(path)
    return encode_rows(table, schema), encode_labels(table, schema)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES if "text" in case])
def test_a_table_is_the_matrix_in_the_vectors(case: dict[str, Any], tmp_path: Path) -> None:
    path, schema = as_file(tmp_path, case)
    if case["verdict"] != "valid":
        with pytest.raises(TableError):
            encoded(path, schema)
        return
    matrix, labels = encoded(path, schema)
    np.testing.assert_allclose(matrix, case["matrix"], rtol=0, atol=1e-12)
    assert (labels.tolist(), labels.dtype.str[1:]) == (case["labels"], case["dtype"])
