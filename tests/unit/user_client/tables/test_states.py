from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.table_schema import Schema
from user_client.tables import draft_schema, encode_rows
from user_client.tables.states import MOST_STATES, column_states

TABLE = pa.table(
    {
        "age": [31, 45, 52, 60, 77, 38, 49, 66, 71, 58],
        "pressure": ["120", "135", "140", "", "155", "110", "", "125", "180", "145"],
        "score": [0.5, 1.25, 2.0, 0.75, 1.5, 3.0, 2.25, 0.25, 1.0, 2.5],
        "exact": list(np.sqrt(np.arange(2.0, 12))),
        "sex": ["f", "m", "f", "f", "m", "m", "f", "m", "f", "m"],
        "pain": ["no", "some", "", "much", "no", "some", "no", "", "much", "no"],
        "label": ["yes", "no"] * 5,
    }
)


def schema(encoding: Any) -> Schema:
    return Schema.model_validate(draft_schema(TABLE, "label", encoding=encoding).content, strict=False)


@pytest.mark.parametrize("encoding", ["ranks", "ranges", "plain"])
def test_every_row_of_the_table_is_among_the_states(encoding: Any) -> None:
    terms = schema(encoding)
    encoded, start = encode_rows(TABLE, terms), 0
    for column, states in zip(terms.columns, column_states(TABLE, terms), strict=True):
        part = encoded[:, start : start + column.width]
        start += column.width
        if column.name == "exact":
            assert states.shape == (0, column.width)
            continue
        gaps = np.abs(part[:, None] - states[None]).max(axis=2).min(axis=1)
        np.testing.assert_allclose(gaps, 0, atol=1e-9)


def test_rows_of_dates_of_other_texts_and_of_an_order_are_among_the_states() -> None:
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=7 * day) for day in range(40)]
    made = pa.table(
        {
            "came": pa.array(days, mask=np.arange(40) % 10 == 0),
            "left": [day + dt.timedelta(days=index % 5) for index, day in enumerate(days)],
            "code": [*["a", "b"] * 16, *(f"only {index}" for index in range(8))],
            "grade": ["low", "mid", "high", None] * 10,
            "label": ["yes", "no"] * 20,
        }
    )
    drafted = draft_schema(
        made, "label", durations={"left": "came"}, ordinals={"grade": ["low", "mid", "high"]}, others=["code"]
    )
    terms = Schema.model_validate(drafted.content, strict=False)
    encoded, start, counts = encode_rows(made, terms), 0, []
    for column, states in zip(terms.columns, column_states(made, terms), strict=True):
        part = encoded[:, start : start + column.width]
        start += column.width
        gaps = np.abs(part[:, None] - states[None]).max(axis=2).min(axis=1)
        np.testing.assert_allclose(gaps, 0, atol=1e-9)
        counts.append(len(states))
    assert counts[1:] == [5 + 1, 3, 3 + 1]  # with one for empty fields
    assert counts[0] < 50  # weeks, not days


def test_numbers_are_as_precise_as_in_the_table() -> None:
    found = dict(zip(TABLE.column_names, column_states(TABLE, schema("ranges")), strict=False))
    # in steps of five between two ends that are not, and one state for empty fields
    steps = np.unique(np.diff(np.unique(found["pressure"][:, 0])).round(6))
    assert len(found["pressure"]) < 20
    assert len(steps) <= 5
    assert len(found["sex"]) == 2
    assert len(found["pain"]) == 4


def test_more_values_than_can_be_tried_are_real_numbers() -> None:
    table = pa.table({"dose": [0.0, 0.001, MOST_STATES / 100], "label": ["a", "b", "a"]})
    column = {"kind": "range", "name": "dose", "low": 0.0, "high": MOST_STATES / 100, "centre": 1.0}
    content = {"columns": [column], "label_column": {"name": "label", "classes": ["a", "b"]}}
    assert column_states(table, Schema.model_validate(content, strict=False))[0].shape == (0, 1)
