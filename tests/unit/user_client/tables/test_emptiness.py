"""Empty fields that go with the label get a feature, however few they are, and those by chance none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.table_schema import Schema
from user_client.tables.draft import draft_schema
from user_client.tables.draft_label import DraftedEvent
from user_client.tables.emptiness import BY_CHANCE, are_wholly_empty, goes_with, marked_rows

ROWS = 600


def table_of(seed: int, *, told: bool, texts: bool = False) -> pa.Table:
    """About 4 % of the fields are empty; of those with the label, which a tenth has, many more if told."""
    rng = np.random.default_rng(seed)
    ill = rng.random(ROWS) < 0.1
    empty = rng.random(ROWS) < (np.where(ill, 0.4, 0.003) if told else 0.04)
    values = rng.choice(["a", "b"], ROWS) if texts else np.round(rng.standard_normal(ROWS), 2)
    known = pa.array([None if gone else value for gone, value in zip(empty, values.tolist(), strict=True)])
    days = rng.exponential(100, ROWS).round(1) + 1
    return pa.table({"lab": known, "days": days, "ill": np.where(ill, "yes", "no")})


def drafted(table: pa.Table, **options: Any) -> tuple[dict[str, Any], list[str]]:
    found = draft_schema(table, "ill", ["days"], **options)
    (column,) = found.content["columns"]
    return column, [one for one in found.remarks if "whether one is goes with the label" in one]


def test_rows_without_any_filled_field_are_told_from_those_with_one() -> None:
    columns = tuple({"kind": "numeric", "name": name, "low": 0, "high": 9} for name in ("a", "b"))
    label = {"name": "y", "classes": ("no", "yes")}
    schema = Schema.model_validate({"columns": columns, "label_column": label, "missing": ("", "n.d.")})
    table = pa.table({"a": ["1", "", "n.d.", None], "b": [None, "2", "", "n.d."], "y": [""] * 4})
    assert are_wholly_empty(table, schema).tolist() == [False, False, True, True]
    assert are_wholly_empty(table.slice(0, 0), schema).tolist() == []


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_few_empty_fields_that_go_with_the_label_get_a_feature(seed: int, texts: bool) -> None:
    column, said = drafted(table_of(seed, told=True, texts=texts))
    assert 0.02 < column["missing_share"] < 0.07
    assert len(said) == (column["missing_share"] < 0.05)


@pytest.mark.parametrize("seed", range(30))
def test_those_by_chance_get_none(seed: int) -> None:
    column, said = drafted(table_of(seed, told=False))
    assert column.get("missing_share", 1) >= 0.05
    assert not said


def test_an_imputed_field_is_told_too() -> None:
    column, _ = drafted(table_of(0, told=True), imputes={"lab": "0"})
    assert "missing_share" in column


def test_of_survival_the_event_counts() -> None:
    found = draft_schema(
        table_of(0, told=True), "days", task="survival", event=DraftedEvent("ill", "yes")
    ).content
    assert "missing_share" in found["columns"][0]


@pytest.mark.parametrize(
    ("both", "marked", "empty", "rows"), [(20, 60, 24, 600), (0, 300, 40, 600), (6, 10, 10, 300)]
)
def test_the_chance_is_that_of_the_hypergeometric_distribution(
    both: int, marked: int, empty: int, rows: int
) -> None:
    counts = range(max(0, marked + empty - rows), min(marked, empty) + 1)
    of_each = {
        count: math.comb(marked, count) * math.comb(rows - marked, empty - count) / math.comb(rows, empty)
        for count in counts
    }
    above = both * rows >= marked * empty
    tail = sum(p for count, p in of_each.items() if (count >= both if above else count <= both))
    assert goes_with(both, marked, empty, rows) == (2 * tail < BY_CHANCE)


def test_a_few_fields_or_rows_of_a_class_say_nothing() -> None:
    assert goes_with(10, 50, 10, 600)
    assert not goes_with(9, 50, 9, 600)
    assert not goes_with(9, 9, 50, 600)
    assert not goes_with(400, 400, 600, 600)


def test_the_rows_that_are_marked_follow_the_task() -> None:
    assert [one.tolist() for one in marked_rows(np.array([0, 1, 1]), "classes")] == [[True, False, False]]
    assert len(marked_rows(np.array([0, 1, 2]), "classes")) == 3
    assert [one.tolist() for one in marked_rows(np.array([-1.0, 0.5]), "survival")] == [[False, True]]
    assert [one.tolist() for one in marked_rows(np.array([1.0, 2, 3]), "number")] == [[False, False, True]]
    assert marked_rows(np.array([], float), "number") == []
    assert [one.tolist() for one in marked_rows(np.array([1, 3], np.uint8), "multilabel")] == [
        [True, True],
        [False, True],
    ]
