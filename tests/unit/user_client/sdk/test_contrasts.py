"""Each coefficient is of a change that a table can make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.labels import Label
from protocol.table_schema import Column, LevelsColumn, OrdinalColumn, RangeColumn, RanksColumn, Schema
from user_client.sdk.contrasts import changes_in
from user_client.tables import encode_rows

SHARES: dict[str, Any] = {"shares": (0.5, 0.3, 0.2), "weight": 0.7, "levels": ("a", "b", "c")}
MISSING: dict[str, Any] = {"empty": "centre", "missing_share": 0.1}


def schema_of(column: Column) -> Schema:
    return Schema(columns=(column,), label_column=Label(name="y", classes=("no", "yes")))


def encoded(column: Column, value: Any) -> np.ndarray:
    kind = pa.string() if isinstance(column, LevelsColumn | OrdinalColumn) else pa.float64()
    table = pa.table({column.name: pa.array([value], kind), "y": ["no"]})
    return np.asarray(encode_rows(table, schema_of(column))[0])


@pytest.mark.parametrize(
    ("column", "change", "reference"),
    [
        (LevelsColumn(name="x", **SHARES, **MISSING), "empty instead of a", "a"),
        (
            OrdinalColumn(name="x", levels=("lo", "mid", "hi"), centre=0.25, **MISSING),
            "empty instead of lo",
            "lo",
        ),
        (RanksColumn(name="x", quantiles=(0.0, 1.0, 4.0), **MISSING), "empty instead of the middle", 1.0),
        (RangeColumn(name="x", low=0.0, high=4.0, centre=1.5, **MISSING), "empty instead of the middle", 1.5),
        (
            RangeColumn(
                name="x", low=0.0, high=4.0, centre=1.5, empty="impute", impute=3.0, missing_share=0.1
            ),
            "empty instead of 3",
            3.0,
        ),
        (
            LevelsColumn(name="x", **SHARES, empty="impute", impute="b", missing_share=0.1),
            "empty instead of b",
            "b",
        ),
    ],
)
def test_an_empty_field_is_compared_with_what_is_named(column: Column, change: str, reference: Any) -> None:
    found = {told: moved for _, told, moved in changes_in(schema_of(column))}
    np.testing.assert_allclose(found[change], encoded(column, None) - encoded(column, reference), atol=1e-12)
