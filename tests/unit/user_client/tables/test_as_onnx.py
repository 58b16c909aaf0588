"""The encoding in an ONNX file is the encoding of the protocol, to the last digit that counts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from protocol.table_schema import Schema
from tests.vectors.columns import DATES, ORDINAL, OTHERS
from tests.vectors.examples import CATEGORICAL, LEVELS, NUMERIC, RANGE, RANKS
from user_client.errors import TableError
from user_client.tables import encode_rows
from user_client.tables.as_onnx import ML, Graph, encode_columns
from user_client.tables.encode import numbers_of
from user_client.tables.fields import is_empty

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "encoded.json").read_text())
MISSING = ("", "NA", "-9")


def schema_of(column: dict[str, Any], missing: Any = MISSING) -> Schema:
    label = {"name": "y", "classes": ["no", "yes"]}
    content = {"columns": [column], "label_column": label, "missing": list(missing)}
    return Schema.model_validate(content, strict=False)


def features(schema: Schema, fields: list[str], since: Any = ()) -> np.ndarray[Any, Any]:
    """Return what the graph makes of the fields of one column, read as a program in the hospital would."""
    graph = Graph()
    name = encode_columns(graph, schema)
    output = helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["rows", schema.width])
    made = helper.make_graph(graph.nodes, "test", graph.inputs, [output], graph.constants)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(ML, 2)]
    file = helper.make_model(made, opset_imports=opsets, ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (column,) = schema.columns
    fields, missing = [field.strip() for field in fields], schema.missing_in(column)
    if hasattr(column, "levels"):
        values: Any = np.array(fields, dtype=object)
    elif getattr(column, "dates", None):
        values, _ = numbers_of(pa.table({column.name: fields, "admitted": since or fields}), column, missing)
    else:
        values = np.array([math.nan if field in missing else float(field) for field in fields])
    (found,) = session.run(None, {column.name: values.reshape(-1, 1)})
    return np.asarray(found)


@pytest.mark.parametrize("case", VECTORS, ids=[case["name"] for case in VECTORS])
def test_columns_are_encoded_as_the_vectors_say(case: dict[str, Any]) -> None:
    found = features(schema_of(case["column"], case["missing"]), case["fields"], case.get("since"))
    np.testing.assert_allclose(found, case["features"], rtol=0, atol=1e-12)


REFUSING = {"empty": "refuse", "missing_share": None}


@pytest.mark.parametrize(
    ("column", "refused"),
    [
        ({**NUMERIC, "impute": None}, ["", "NA", "-9"]),
        ({**NUMERIC, "out_of_range": "refuse"}, ["-1", "121"]),
        ({**RANKS, **REFUSING}, ["", "-9"]),
        ({**RANGE, **REFUSING}, ["NA", "-9"]),
        ({**LEVELS, **REFUSING}, ["", "NA", "east"]),
        (LEVELS, ["east"]),
        (CATEGORICAL, ["", "east"]),
        ({**CATEGORICAL, "impute": "south"}, ["east"]),
        ({**ORDINAL, **REFUSING}, ["", "NA", "lower"]),
        (ORDINAL, ["lower"]),
        ({**OTHERS, **REFUSING}, ["", "NA"]),
    ],
)
def test_what_is_refused_in_a_table_is_no_number_in_the_file(
    column: dict[str, Any], refused: list[str]
) -> None:
    schema = schema_of(column)
    for field in refused:
        with pytest.raises(TableError):
            encode_rows(pa.table({column["name"]: [field]}), schema)
        assert np.isnan(features(schema, [field])).any()


def test_a_code_for_empty_is_empty_as_a_number_too() -> None:
    schema = schema_of({**RANKS, "empty": "centre", "missing_share": 0.25})
    np.testing.assert_allclose(features(schema, ["-9", ""]), [[0, 0.75], [0, 0.75]], atol=1e-12)


def test_a_number_of_days_is_never_a_code_for_empty() -> None:
    schema = schema_of({**DATES, "quantiles": [-10.0, 0.0], "empty": "centre"})
    found = encode_rows(pa.table({"admitted": [-9.0, None]}), schema, dates_as_days=True)
    np.testing.assert_allclose(found, np.array([[-0.8], [0.0]]), atol=1e-12)
    np.testing.assert_allclose(features(schema, ["1969-12-23", ""]), found, atol=1e-12)


def test_what_is_not_finite_is_no_answer() -> None:
    assert np.isnan(features(schema_of(RANGE), ["inf", "-inf"])).all()


QUANTILES = st.lists(st.integers(-5, 5), min_size=2, max_size=7).map(sorted)


@given(QUANTILES, st.lists(st.floats(-7, 7) | st.sampled_from(range(-7, 8)), min_size=1, max_size=20))
def test_ranks_are_those_of_the_encoder(quantiles: list[int], values: list[float]) -> None:
    if quantiles[0] == quantiles[-1]:
        return
    schema = schema_of({**RANKS, "quantiles": [float(each) for each in quantiles]}, ("",))
    expected = encode_rows(pa.table({"rank": pa.array(values, pa.float64())}), schema)
    found = features(schema, [repr(float(value)) for value in values])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_the_missing_texts_of_a_table_are_those_of_the_file() -> None:
    texts = pa.chunked_array([["", "NA", "-9", "x"]])
    assert is_empty(texts, MISSING).tolist() == [True, True, True, False]


@pytest.mark.parametrize("kind", [CATEGORICAL, LEVELS, ORDINAL], ids=lambda kind: kind["kind"])
def test_a_level_that_is_a_whole_number_is_known_as_other_programs_write_it(kind: dict[str, Any]) -> None:
    """With an empty field beside them, whole numbers are written 1.0."""
    levels = ["0", "1", "2.0", "10", *kind["levels"]][: len(kind["levels"])]
    column = {**kind, "levels": levels, **({"impute": "1"} if kind is CATEGORICAL else {})}
    schema, fields = schema_of(column), ["1.0", "0.0", "2", "1", "0", "2.0"]
    fields = [field for field in fields if field.removesuffix(".0") in {x.removesuffix(".0") for x in levels}]
    expected = encode_rows(pa.table({schema.columns[0].name: fields}), schema)
    np.testing.assert_allclose(features(schema, fields), expected, rtol=0, atol=1e-12)


def test_a_whole_number_as_other_programs_write_it_is_neither_another_level_nor_another_code() -> None:
    """Where a column has a level for all others, 1.0 and -9.0 do not silently become it."""
    column = {**LEVELS, "levels": ["1", "2", "other"], "shares": [0.5, 0.25, 0.25], "other": "other"}
    schema = schema_of(column, ["", "-9"])
    written = ["1.0", "2", "-9.0", "3.0", "2.00", "2.000000", "-9.00"]
    meant = ["1", "2", "-9", "something else", "2", "2", "-9"]
    expected = encode_rows(pa.table({schema.columns[0].name: meant}), schema)
    np.testing.assert_array_equal(encode_rows(pa.table({schema.columns[0].name: written}), schema), expected)
    np.testing.assert_allclose(features(schema, written), expected, rtol=0, atol=1e-12)
