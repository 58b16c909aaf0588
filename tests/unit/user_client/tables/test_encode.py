from __future__ import annotations

import json
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.labels import SHORTEST_TIME, NumberLabel, SurvivalLabel
from protocol.table_schema import Schema
from tests.harness.schemas import SECRET, category, number, schema, table
from tests.vectors.examples import LEVELS, RANGE, RANKS
from user_client.errors import (
    EmptyFieldError,
    LabelOutsideError,
    MissingColumnError,
    NegativeTimeError,
    NotANumberError,
    OutOfRangeError,
    TableError,
    UnknownLevelError,
)
from user_client.tables import (
    GROUPS,
    decode_numbers,
    encode_labels,
    encode_rows,
    strata,
    text_of,
    with_labels,
)

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "encoded.json").read_text())


@pytest.mark.parametrize("case", VECTORS, ids=[case["name"] for case in VECTORS])
def test_columns_are_encoded_as_the_protocol_says(case: dict[str, Any]) -> None:
    content = {
        "columns": [case["column"]],
        "label_column": {"name": "y", "classes": ["no", "yes"]},
        "missing": case["missing"],
    }
    table = pa.table({case["column"]["name"]: case["fields"]})
    if "since" in case:
        table = table.append_column(case["column"]["since"], pa.array(case["since"]))
    found = encode_rows(table, Schema.model_validate(content, strict=False))
    np.testing.assert_allclose(found, case["features"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [RANKS, RANGE, LEVELS], ids=lambda kind: kind["kind"])
def test_an_empty_field_is_refused_unless_it_counts_as_the_centre(kind: dict[str, Any]) -> None:
    column = {**kind, "empty": "refuse", "missing_share": None}
    content = {"columns": [column], "label_column": {"name": "y", "classes": ["no", "yes"]}}
    first = "north" if kind is LEVELS else "1"
    with pytest.raises(EmptyFieldError) as caught:
        encode_rows(pa.table({kind["name"]: [first, ""]}), Schema.model_validate(content, strict=False))
    assert "row 2" in caught.value.detail


# numbers


def test_a_range_becomes_minus_one_to_one() -> None:
    found = encode_rows(table(age=[0, 2.5, 5, 10]), schema(number()))
    np.testing.assert_array_equal(found, [[-1], [-0.5], [0], [1]])


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["0", "5", "10"]),
        pa.array([" 0", "5.0 ", "1e1"]),
        pa.array([0, 5, 10], pa.int8()),
        pa.array([0, 5, 10], pa.uint64()),
        pa.array([0, 5, 10], pa.float32()),
        pa.array(["0", "5", "10"], pa.large_string()),
        pa.array([0, 5, 10], pa.decimal128(10, 2)),
        pa.array(["0", "5", "10"]).dictionary_encode(),
        pa.array([0.0, 5.0, 10.0]).dictionary_encode(),
        pa.chunked_array([["0"], [], ["5", "10"]]),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_of_any_type_are_the_same(values: Any) -> None:
    np.testing.assert_array_equal(encode_rows(table(age=values), schema(number())), [[-1], [0], [1]])


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["5", "", "5"]),
        pa.array(["5", " NA ", "5"]),
        pa.array(["5", None, "5"]),
        pa.array([5, None, 5]),
        pa.array([5.0, float("nan"), 5.0]),
        pa.array([5.0, None, 5.0]),
        pa.array(["5", "NA", "5"]).dictionary_encode(),
        pa.array(["5", None, "5"]).dictionary_encode(),
    ],
    ids=str,
)
def test_an_empty_number_is_imputed_or_refused_by_its_row(values: Any) -> None:
    found = encode_rows(table(age=values), schema(number(impute=10)))
    np.testing.assert_array_equal(found, [[0], [1], [0]])
    with pytest.raises(EmptyFieldError, match="column 'age', data row 2"):
        encode_rows(table(age=values), schema(number()))


def test_a_column_of_nulls_is_empty() -> None:
    values = pa.nulls(2)
    np.testing.assert_array_equal(encode_rows(table(age=values), schema(number(impute=0))), [[-1], [-1]])


def test_a_text_among_numbers_is_refused_by_its_row() -> None:
    with pytest.raises(NotANumberError, match="column 'age', data row 3") as caught:
        encode_rows(table(age=["5", "", SECRET]), schema(number(impute=5)))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", ["nan", "NaN"])
def test_a_written_nan_that_the_terms_do_not_name_is_no_number(text: str) -> None:
    with pytest.raises(NotANumberError, match="row 1"):
        encode_rows(table(age=[text]), schema(number(impute=5)))


@pytest.mark.parametrize("value", ["inf", "-Infinity", "1e999", "1_000", float("inf"), float("-inf")])
@pytest.mark.parametrize("out_of_range", ["refuse", "clip"])
def test_what_is_not_finite_is_no_number_even_where_numbers_are_clipped(
    value: Any, out_of_range: str
) -> None:
    with pytest.raises(NotANumberError, match="column 'age', data row 1"):
        encode_rows(table(age=[value]), schema(number(out_of_range=out_of_range)))


@pytest.mark.parametrize("values", [["5", "-9"], [5, -9], [5.0, -9.0]], ids=["text", "integer", "float"])
def test_a_missing_code_that_is_a_number_means_empty_in_any_column(values: Any) -> None:
    found = encode_rows(table(age=values), schema(number(low=-20, impute=0), missing=("", "-9")))
    np.testing.assert_allclose(found, [[2 / 3], [1 / 3]], rtol=1e-15)


@pytest.mark.parametrize("value", [-0.001, 10.001, -1e300])
def test_a_number_out_of_its_range_is_refused_by_its_row(value: float) -> None:
    with pytest.raises(OutOfRangeError, match="column 'age', data row 2: expected a number from 0 to 10"):
        encode_rows(table(age=[5, value]), schema(number()))


def test_a_label_out_of_its_range_is_refused_by_its_row_unless_it_is_only_scored() -> None:
    numbered = schema(number()).model_copy(update={"label_column": NumberLabel(name="cost", low=0, high=400)})
    costs = pa.table({"age": [5, 5], "cost": [200, 500]})
    with pytest.raises(LabelOutsideError, match="column 'cost', data row 2: expected a number from 0 to 400"):
        encode_labels(costs, numbered)
    np.testing.assert_allclose(encode_labels(costs, numbered, in_range=False), [0, 1.5])


@pytest.mark.parametrize(("value", "expected"), [(-5, -1), (15, 1), (5, 0)])
def test_a_number_out_of_its_range_can_be_clipped(value: float, expected: float) -> None:
    found = encode_rows(table(age=[value]), schema(number(out_of_range="clip")))
    assert found[0, 0] == expected


def test_the_value_that_is_out_of_range_is_not_shown() -> None:
    with pytest.raises(OutOfRangeError) as caught:
        encode_rows(table(age=["4711"]), schema(number()))
    assert "4711" not in str(caught.value.to_problem())


def test_the_widest_range_a_schema_allows_is_mapped() -> None:
    bound = sys.float_info.max / 2
    found = encode_rows(table(age=[-bound, 0, bound]), schema(number(low=-bound, high=bound)))
    np.testing.assert_array_equal(found, [[-1], [0], [1]])


@given(
    bounds=st.tuples(
        st.floats(-1e300, 1e300, allow_nan=False), st.floats(-1e300, 1e300, allow_nan=False)
    ).filter(lambda pair: pair[0] < pair[1]),
    share=st.floats(0, 1),
)
def test_numbers_in_range_are_encoded_between_minus_one_and_one(
    bounds: tuple[float, float], share: float
) -> None:
    low, high = bounds
    value = min(max(low + share * (high - low), low), high)
    found = encode_rows(table(age=[value]), schema(number(low=low, high=high)))
    assert -1 <= found[0, 0] <= 1


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_text_and_numbers_are_encoded_alike(values: list[float]) -> None:
    wide = schema(number(low=-1, high=1))
    as_text = encode_rows(table(age=list(map(repr, values))), wide)
    np.testing.assert_array_equal(as_text, encode_rows(table(age=values), wide))


# categories


def test_a_category_becomes_one_feature_for_each_level_in_the_order_of_the_terms() -> None:
    found = encode_rows(table(ward=["b", "a", "c"]), schema(category()))
    np.testing.assert_array_equal(found, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (pa.array(["a", " b ", "c"]), ("a", "b", "c")),
        (pa.array(["a", "b", "c"]).dictionary_encode(), ("a", "b", "c")),
        (pa.array(["a", "b", "c"], pa.large_string()), ("a", "b", "c")),
        (pa.array([1, 2, 3]), ("1", "2", "3")),
        (pa.array([1.0, 2.0, 3.0]), ("1", "2", "3")),
        (pa.chunked_array([["a"], [], ["b", "c"]]), ("a", "b", "c")),
    ],
    ids=lambda item: str(getattr(item, "type", "")),
)
def test_categories_of_any_type_are_the_same(values: Any, levels: tuple[str, ...]) -> None:
    found = encode_rows(table(ward=values), schema(category(levels=levels)))
    np.testing.assert_array_equal(found, np.eye(3))


@pytest.mark.parametrize("values", [["a", ""], ["a", "NA"], ["a", None]], ids=str)
def test_an_empty_category_is_imputed_or_refused_by_its_row(values: list[Any]) -> None:
    found = encode_rows(table(ward=values), schema(category(impute="c")))
    np.testing.assert_array_equal(found[1], [0, 0, 1])
    with pytest.raises(EmptyFieldError, match="column 'ward', data row 2"):
        encode_rows(table(ward=values), schema(category()))


@pytest.mark.parametrize("impute", [None, "a"])
def test_an_unknown_level_is_refused_by_its_row_and_not_shown(impute: str | None) -> None:
    with pytest.raises(UnknownLevelError, match="column 'ward', data row 3") as caught:
        encode_rows(table(ward=["a", "", SECRET]), schema(category(impute=impute)))
    assert SECRET not in str(caught.value.to_problem())


def test_a_level_may_be_a_text_that_means_missing_elsewhere() -> None:
    found = encode_rows(table(ward=["NA", "a"]), schema(category(levels=("a", "NA"))))
    np.testing.assert_array_equal(found, [[0, 1], [1, 0]])


# whole tables


def test_features_are_in_the_order_of_the_terms_not_of_the_table() -> None:
    columns = schema(category("ward"), number("age"))
    found = encode_rows(table(age=["10"], ward=["c"]), columns)
    np.testing.assert_array_equal(found, [[0, 0, 1, 1]])


def test_columns_the_terms_do_not_name_are_left_out() -> None:
    found = encode_rows(table(name=[SECRET], age=["5"], y=["no"]), schema())
    np.testing.assert_array_equal(found, [[0]])


def test_a_column_that_is_missing_is_refused_by_name() -> None:
    with pytest.raises(MissingColumnError, match="column 'age' is not in the table"):
        encode_rows(table(weight=["5"]), schema())


def test_a_column_that_occurs_twice_is_refused_by_name() -> None:
    twice = pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"])], names=["age", "age"])
    with pytest.raises(TableError, match="column 'age' is in the table more than once"):
        encode_rows(twice, schema())


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.null()], ids=str)
def test_a_table_without_rows_has_no_rows_and_all_features(kind: pa.DataType) -> None:
    empty = table(age=pa.array([], kind), ward=pa.array([], kind), y=pa.array([], kind))
    columns = schema(number(impute=5), category(impute="a"))
    assert encode_rows(empty, columns).shape == (0, 4)
    assert encode_labels(empty, columns).shape == (0,)


# labels


def test_labels_are_numbered_in_the_order_of_the_terms() -> None:
    found = encode_labels(table(y=["yes", " no", "yes"]), schema())
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [1, 0, 1])


@pytest.mark.parametrize("value", ["", None, "NA"])
def test_an_empty_label_is_refused_by_its_row(value: str | None) -> None:
    with pytest.raises(EmptyFieldError, match="column 'y', data row 2"):
        encode_labels(table(y=["no", value]), schema())


def test_an_unknown_label_is_refused_by_its_row_and_not_shown() -> None:
    with pytest.raises(
        UnknownLevelError, match="column 'y', data row 2: expected one of the 2 levels"
    ) as caught:
        encode_labels(table(y=["no", SECRET]), schema())
    assert SECRET not in str(caught.value.to_problem())


def test_a_missing_label_column_is_refused_by_name() -> None:
    with pytest.raises(MissingColumnError, match="'y'"):
        encode_labels(table(age=[1]), schema())


# numbers to predict


def schema_of_a_number(low: float = 10, high: float = 30) -> Schema:
    return Schema(
        columns=schema().columns, label_column=NumberLabel(name="y", low=low, high=high), missing=("NA",)
    )


def test_a_number_to_predict_becomes_minus_one_to_one_and_back() -> None:
    label = schema_of_a_number().label_column
    assert isinstance(label, NumberLabel)
    found = encode_labels(table(y=["10", " 15", "30"]), schema_of_a_number())
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [-1, -0.5, 1])
    np.testing.assert_array_equal(decode_numbers(found, label), [10, 15, 30])


@pytest.mark.parametrize(
    ("value", "error"),
    [(9.9, LabelOutsideError), (31, LabelOutsideError), (None, EmptyFieldError), ("NA", EmptyFieldError)],
)
def test_a_number_that_cannot_be_a_label_is_refused_by_its_row(value: Any, error: type[TableError]) -> None:
    values = [11, value] if value != "NA" else ["11", "NA"]
    with pytest.raises(error, match="column 'y', data row 2") as caught:
        encode_labels(table(y=values), schema_of_a_number())
    assert "9.9" not in str(caught.value.to_problem())


def test_strata_are_classes_or_quarters() -> None:
    np.testing.assert_array_equal(strata(np.array([1, 0, 2], np.uint8), "classes"), [1, 0, 2])
    groups = strata(np.linspace(-1, 1, 100, dtype=np.float32), "number")
    assert np.bincount(groups).tolist() == [25] * GROUPS["number"]
    assert len(strata(np.empty(0, np.float32), "number")) == 0
    assert strata(np.array([0.5, -0.5], np.float32), "survival").tolist() == [1, 0]


# survival


def schema_of_survival() -> Schema:
    label = SurvivalLabel(name="y", event="died", seen="1", censored="0", horizon=200, times=(50, 100))
    return Schema(columns=schema().columns, label_column=label, missing=("NA",))


def test_a_time_is_negative_without_the_event_and_cut_off_at_the_horizon() -> None:
    made = table(y=[50, 100, 200, 400, 0, 0], died=[1, 0, 1, 1, 1, 0])
    found = encode_labels(made, schema_of_survival())
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [0.25, -0.5, 1, -1, SHORTEST_TIME, -SHORTEST_TIME])


@pytest.mark.parametrize(
    ("time", "died", "error", "column"),
    [
        (-1, 1, NegativeTimeError, "y"),
        (None, 1, EmptyFieldError, "y"),
        (5, None, EmptyFieldError, "died"),
        (5, 2, UnknownLevelError, "died"),
    ],
)
def test_survival_that_cannot_be_a_label_is_refused_by_its_row(
    time: Any, died: Any, error: type[TableError], column: str
) -> None:
    with pytest.raises(error, match=f"column '{column}', data row 2"):
        encode_labels(table(y=[10, time], died=[1, died]), schema_of_survival())


def test_rows_without_a_time_or_an_end_have_no_label() -> None:
    made = table(y=[1, None, 3, 4], died=[1, 1, None, 0])
    assert with_labels(made, schema_of_survival()).num_rows == 2


@pytest.mark.parametrize("written", ["1", "1.0", "1.000"])
def test_a_whole_number_is_the_same_class_however_it_is_written(written: str) -> None:
    content = {
        "columns": [{"kind": "numeric", "name": "age", "low": 0, "high": 9}],
        "label_column": {"name": "y", "classes": ["0", "1"]},
    }
    columns = Schema.model_validate(content, strict=False)
    rows = pa.table({"age": [1, 2], "y": ["0", written]})
    assert encode_labels(rows, columns).tolist() == [0, 1]
    with pytest.raises(UnknownLevelError, match=r"row 1: expected one of the 2 levels in the terms: 0, 1$"):
        encode_labels(pa.table({"age": [1], "y": ["1.5"]}), columns)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([12.0, None, math.nan, 2.5]), ["12", None, None, "2.5"]),
        (
            pa.array([1e15 + 1, 9e15, -1e15, 1e17]),
            ["1000000000000001", "9000000000000000", "-1" + "0" * 15, "1e+17"],
        ),
        (pa.array([12.0, 2.5], pa.float32()), ["12", "2.5"]),
        (pa.array([math.inf, -0.0]), ["inf", "0"]),
        (pa.array([Decimal("12.00"), Decimal("2.50")]), ["12", "2.50"]),
        (pa.array(["12.0", "007"]), ["12.0", "007"]),
    ],
)
def test_a_whole_number_has_the_text_of_its_digits(values: pa.Array, text: list[str | None]) -> None:
    assert text_of(pa.table({"patient": values}), "patient").to_pylist() == text
