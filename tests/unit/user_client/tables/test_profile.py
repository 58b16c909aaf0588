"""The profile of a table counts its values, and keeps few of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from protocol.labels import Label
from protocol.table_schema import RangeColumn, Schema
from tests.harness.peaks import peak_bytes
from user_client.tables.profile import MOST_DISTINCT, profile

COLUMNS = 30
SCHEMA = Schema(
    columns=tuple(
        RangeColumn(name=f"x{k}", low=-9, high=9, centre=0, empty="centre") for k in range(COLUMNS)
    ),
    label_column=Label(name="y", classes=("no", "yes")),
    missing=("NA", ""),
)


def table_of(fields: list[str | None]) -> pa.Table:
    return pa.table({f"x{k}": pa.array(fields, pa.string()) for k in range(COLUMNS)})


@pytest.mark.parametrize(
    ("fields", "distinct"),
    [
        (["1", "2", " 1", "NA", None, "NA", ""], 2),
        ([str(number / 2000) for number in range(MOST_DISTINCT - 1)] * 3, MOST_DISTINCT - 1),
        ([str(number / 2000) for number in range(MOST_DISTINCT + 5)], MOST_DISTINCT),
        (["3"] + [str(number / 20_000) for number in range(15 * MOST_DISTINCT)], MOST_DISTINCT),
    ],
    ids=["empty", "just below", "just above", "many"],
)
def test_different_values_are_counted_up_to_a_bound(fields: list[str | None], distinct: int) -> None:
    assert {column.distinct for column in profile(table_of(fields), SCHEMA)} == {distinct}


def test_the_values_of_a_table_are_not_kept_as_objects() -> None:
    values = np.random.default_rng(0).standard_normal(3 * MOST_DISTINCT).round(5).clip(-9, 9).astype(str)
    table = table_of(values.tolist())
    # ten thousand strings of each column are 25 MB
    assert peak_bytes(lambda: profile(table, SCHEMA)) < 8 * 2**20
