"""Odd fields mean the same to every reader: tests/vectors/odd_inputs.json, run through our encoder."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from protocol.table_schema import Schema
from tests.vectors.examples import NUMERIC
from user_client.errors import EmptyFieldError, NotANumberError, TableError, UnknownLevelError
from user_client.tables import encode_labels, encode_rows
from user_client.tables.fields import as_text, read_numbers

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "odd_inputs.json").read_text())
ERRORS: Final[dict[str, tuple[type[TableError], ...]]] = {
    "refused": (NotANumberError, UnknownLevelError),
    "empty": (EmptyFieldError,),
}
WIDE: Final = {**NUMERIC, "low": -1024.0, "high": 1024.0, "impute": None, "out_of_range": "clip"}


def cases(name: str) -> list[Any]:
    return [pytest.param(case, id=str(number)) for number, case in enumerate(VECTORS[name])]


def schema_of(case: dict[str, Any], classes: list[str] | None = None) -> Schema:
    label = {"name": "y", "classes": classes or ["no", "yes"]}
    return Schema.model_validate(
        {"columns": [WIDE], "label_column": label, "missing": case["missing"]}, strict=False
    )


@pytest.mark.parametrize("neighbour", ["1", " 1", "\u00a01"], ids=ascii)
@pytest.mark.parametrize("case", cases("numbers"))
def test_a_field_is_the_number_in_the_vectors_whatever_stands_beside_it(
    case: dict[str, Any], neighbour: str
) -> None:
    column = pa.table({WIDE["name"]: [neighbour, case["field"]]})
    expected = case["number"]
    if isinstance(expected, str):
        with pytest.raises(ERRORS[expected]) as caught:
            encode_rows(column, schema_of(case))
        assert "row 2" in caught.value.detail
        return
    numbers, empty = read_numbers(column.column(0), "age", case["missing"])
    assert (numbers[1], math.copysign(1, numbers[1])) == (expected, math.copysign(1, expected))
    assert not empty.any()
    feature = min(max(expected, -1024.0), 1024.0) / 1024
    np.testing.assert_allclose(encode_rows(column, schema_of(case))[1], [feature], rtol=0, atol=1e-15)


@pytest.mark.parametrize("case", cases("levels"))
def test_a_field_is_the_level_in_the_vectors(case: dict[str, Any]) -> None:
    column = pa.table({"y": [case["field"]]})
    if isinstance(case["level"], str):
        with pytest.raises(ERRORS[case["level"]]):
            encode_labels(column, schema_of(case, case["levels"]))
    else:
        assert encode_labels(column, schema_of(case, case["levels"])).tolist() == [case["level"]]


ARROW: Final[dict[str, tuple[pa.DataType, Callable[[Any], Any]]]] = {
    "integer": (pa.int64(), int),
    "float": (pa.float64(), float),
    "boolean": (pa.bool_(), bool),
    "date": (pa.date32(), dt.date.fromisoformat),
    "time in seconds": (pa.timestamp("s"), dt.datetime.fromisoformat),
    "time in microseconds": (pa.timestamp("us"), dt.datetime.fromisoformat),
    "time in milliseconds of UTC": (pa.timestamp("ms", "UTC"), dt.datetime.fromisoformat),
    "decimal of two places": (pa.decimal128(10, 2), decimal.Decimal),
    "text": (pa.string(), str),
}


@pytest.mark.parametrize("case", cases("typed"))
def test_a_value_of_a_type_is_the_text_in_the_vectors(case: dict[str, Any]) -> None:
    kind, read = ARROW[case["type"]]
    value = None if case["value"] is None else read(case["value"])
    assert as_text(pa.chunked_array([pa.array([value], kind)])).to_pylist() == [case["text"]]


def test_a_nan_of_any_type_is_empty() -> None:
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        assert as_text(pa.chunked_array([pa.array([math.nan, 1.0], kind)])).to_pylist() == [None, "1"]
