"""The fixed point of sums: no row is larger than it has room for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.sums import SumsTerms, exponent_of
from protocol.table_schema import (
    CategoricalColumn,
    LevelsColumn,
    NumericColumn,
    OrdinalColumn,
    RangeColumn,
    RanksColumn,
)
from tests.harness.schemas import schema
from user_client.tables import encode_rows

WIDE: dict[str, Any] = {"name": "x", "empty": "centre", "missing_share": 0.01}
COLUMNS = [
    NumericColumn(name="x", low=-1, high=3),
    CategoricalColumn(name="x", levels=("a", "b", "c")),
    RanksColumn(**WIDE, quantiles=(0.0, 1.0, 5.0)),
    RangeColumn(**WIDE, low=0, high=1, centre=0),
    RangeColumn(**WIDE, low=0, high=1, centre=1),
    LevelsColumn(**WIDE, levels=("a", "b", "c"), shares=(0.0, 0.5, 0.5), weight=1.0),
    LevelsColumn(**WIDE, levels=("a", "b", "c"), shares=(0.0, 0.0, 1.0), weight=0.5),
    OrdinalColumn(**WIDE, levels=("a", "b", "c"), centre=-1.0),
    OrdinalColumn(**WIDE, levels=("a", "b", "c"), centre=1.0),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.kind)
def test_no_row_is_larger_than_the_bound_of_its_columns(column: Any) -> None:
    made = schema(column)
    texts = ["a", "b", "c"] if hasattr(column, "levels") else ["-1e9", "0", "0.5", "1", "5", "1e9"]
    texts += [""] if getattr(column, "empty", "refuse") == "centre" else []
    if isinstance(column, NumericColumn):
        texts = ["-1", "0", "3"]
    rows = encode_rows(pa.table({"x": texts}), made)
    exponent = exponent_of(SumsTerms(max_rows=2, min_rows=2), made, 1)  # 62 less the bits of twice the bound
    assert max(1.0, float(np.square(rows).sum(axis=1).max())) * 2 <= 2 ** (62 - exponent)


def test_more_rows_or_institutions_leave_fewer_digits() -> None:
    made = schema(NumericColumn(name="x", low=0, high=1))
    exponents = [
        exponent_of(SumsTerms(max_rows=rows, min_rows=2), made, parties)
        for rows, parties in ((1000, 4), (2000, 4), (2000, 8))
    ]
    assert np.diff(exponents).tolist() == [-1, -1]


def test_random_features_take_room_as_well() -> None:
    made = schema(*(NumericColumn(name=f"x{i}", low=0, high=1) for i in range(2)))
    plain = exponent_of(SumsTerms(max_rows=1024, min_rows=2), made, 4)
    more = exponent_of(SumsTerms(max_rows=1024, min_rows=2, random_features=8, kernel_width=1), made, 4)
    assert (plain, more) == (62 - 13, 62 - 14)
    assert math.log2(2 * 1024 * 4) == 13
