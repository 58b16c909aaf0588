"""The profile of a table counts its values, and keeps few of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from protocol.labels import Label
from protocol.table_schema import LevelsColumn, RangeColumn, Schema
from tests.harness.peaks import peak_bytes
from user_client.tables.profile import MOST_DISTINCT, profile, strange_columns, strangeness

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


STRANGE = Schema(
    columns=(
        RangeColumn(name="hb", low=5, high=20, centre=12, empty="centre"),
        LevelsColumn(
            name="icd",
            levels=("C23.1", "C29.0", "C50", "C61", "other"),
            shares=(0.3, 0.3, 0.2, 0.1, 0.1),
            other="other",
            empty="centre",
        ),
    ),
    label_column=Label(name="y", classes=("no", "yes")),
    missing=("",),
)
CODES = ["C23.1", "C29.0", "C50", "C61"]


def said_of(hb: list[str], icd: list[str]) -> list[str]:
    table = pa.table({"hb": hb, "icd": icd})
    found = profile(table, STRANGE)
    said = [strangeness(one, column) for one, column in zip(found, STRANGE.columns, strict=True)]
    assert strange_columns(table, STRANGE) == [words for words in said if words is not None]
    return strange_columns(table, STRANGE)


def test_another_unit_and_codes_written_in_another_way_are_told() -> None:
    hb, icd = said_of(["159", "137", "", "14"] * 10, ["C231", "C290", "other", "C50"] * 10)
    assert hb.startswith(
        "column 'hb': 20 of 30 values lie outside of the range in the terms, 5 to 20, and count as its nearer"
    )
    assert icd == (
        "column 'icd': 20 of 40 texts are none of the levels in the terms (C23.1, C29.0, C50, ...) and count"
        " as other: look at how they are written"
    )


@pytest.mark.parametrize("beyond", [0, 10])
def test_some_fields_beyond_the_terms_are_usual(beyond: int) -> None:
    """A quarter of the numbers, and of the texts a quarter more than the lead's own table has."""
    hb, icd = ["99"] * beyond, ["Z99"] * beyond
    assert said_of(hb + ["12"] * (40 - beyond), icd + CODES * 7 + ["other"] * (12 - beyond)) == []


def test_a_few_rows_are_not_judged() -> None:
    """As of the one patient that a prediction is for."""
    assert said_of(["99"] * 18 + ["12"], ["Z99"] * 19) == []
    assert said_of(["99"] * 4, ["Z99"] * 4) == []


def test_of_few_rows_it_is_told_if_all_values_are_outside() -> None:
    (hb,) = said_of(["99"] * 5 + [""], ["C50"] * 6)
    assert hb.startswith("column 'hb': 5 of 5 values lie outside of the range")


def test_a_column_most_of_which_is_other_at_the_lead_is_not_told() -> None:
    (icd,) = [column for column in STRANGE.columns if isinstance(column, LevelsColumn)]
    rare = icd.model_copy(update={"shares": (0.1, 0.02, 0.02, 0.01, 0.85)})
    schema = STRANGE.model_copy(update={"columns": (rare,)})
    assert strange_columns(pa.table({"icd": ["Z99"] * 40}), schema) == []


@pytest.mark.parametrize(
    ("empty", "missing_share", "is_said"),
    [(100, None, True), (91, 0.05, True), (89, None, False), (100, 0.8, False), (0, None, False)],
)
def test_a_column_that_is_nearly_empty_here_is_named_unless_the_terms_expect_it(
    empty: int, missing_share: float | None, is_said: bool
) -> None:
    column = RangeColumn(name="crp", low=0, high=9, centre=4, empty="centre", missing_share=missing_share)
    schema = STRANGE.model_copy(update={"columns": (column,)})
    table = pa.table({"crp": pa.array([None] * empty + [3.5] * (100 - empty), pa.float64())})
    (found,) = profile(table, schema)
    words = strangeness(found, column)
    assert strange_columns(table, schema) == ([words] if words else [])
    assert (words is not None) is is_said
    if words:
        assert words.startswith(f"column 'crp': {empty} of 100 fields are empty")
        assert "[[absent_columns]]" in words


def test_of_few_fields_none_is_named_though_all_are_empty() -> None:
    table = pa.table({"hb": pa.array([None] * 19, pa.float64()), "icd": ["C50"] * 19})
    assert strange_columns(table, STRANGE) == []
