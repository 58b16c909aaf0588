"""Values that lie otherwise than the terms' are a question, as are empty fields that go with the label."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from protocol.table_schema import Schema
from user_client.tables.compared import distance, remarks_on_distances, remarks_on_empty
from user_client.tables.draft import draft_schema
from user_client.tables.profile import profile

COLUMNS = ("crp", "k", "hb", "age", "visits")


def table_of(seed: int, rows: int = 600) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "crp": np.exp(1.3 * rng.standard_normal(rows) + 1.5).round(2),
        "k": rng.normal(4, 0.5, rows).round(1),
        "hb": rng.normal(14, 2, rows).round(1),
        "age": rng.integers(18, 95, rows).astype(float),
        "visits": rng.poisson(1, rows).astype(float),
        "y": np.where(np.arange(rows) % 2, "yes", "no"),
    }


def schema_of(seed: int = 1000) -> Schema:
    return Schema.model_validate(draft_schema(pa.table(table_of(seed)), "y").content, strict=False)


def said_of(table: dict[str, np.ndarray]) -> list[str]:
    schema = schema_of()
    return remarks_on_distances(profile(pa.table(table), schema), schema)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rows", [25, 100, 600])
def test_other_rows_of_the_same_kind_are_no_question(seed: int, rows: int) -> None:
    assert said_of(table_of(seed, rows)) == []


@pytest.mark.parametrize("seed", range(3))
def test_another_unit_inside_the_range_is_a_question(seed: int) -> None:
    table = table_of(seed)
    (said,) = said_of({**table, "crp": (table["crp"] / 2.5).round(2)})
    assert said.startswith("column 'crp': its values lie otherwise than in the terms")
    assert "below the terms' middle one" in said
    assert said.endswith("or are only the patients others?")
    (said,) = said_of({**table, "crp": np.log10(table["crp"] + 1)})
    assert said.startswith("column 'crp'")


def test_a_column_mostly_beyond_the_range_is_named_once_by_the_other_sentence() -> None:
    table = table_of(0)
    assert said_of({**table, "hb": table["hb"] * 10}) == []


def test_the_rounding_of_the_terms_moves_no_value_of_a_column_of_few() -> None:
    sexes = np.where(np.arange(600) % 2, 0.0506801187, -0.0446416365)
    table = {"sex": sexes, "y": table_of(0)["y"]}
    schema = Schema.model_validate(draft_schema(pa.table(table), "y").content, strict=False)
    assert remarks_on_distances(profile(pa.table(table), schema), schema) == []
    other = {**table, "sex": np.where(np.arange(600) % 10, sexes.min(), sexes.max())}
    assert len(remarks_on_distances(profile(pa.table(other), schema), schema)) == 1


def test_many_columns_are_one_question() -> None:
    table = table_of(0)
    (said,) = said_of({**table, **{name: np.median(table[name]) + 0 * table[name] for name in COLUMNS}})
    assert said.startswith("5 of 5 columns of numbers lie otherwise than in the terms, most of all '")


def test_the_largest_difference_between_the_shares_is_the_distance() -> None:
    schema, table = schema_of(), table_of(5)
    quantiles = np.array(schema.columns[0].quantiles[1:-1])  # type: ignore[union-attr]
    values = table["crp"] / 3
    found = profile(pa.table({**table, "crp": values}), schema)[0]
    shares = (values[:, None] <= quantiles).mean(axis=0) - np.arange(1, 20) / 20
    assert distance(found, schema.columns[0]) == pytest.approx(np.abs(shares).max(), abs=0.01)


def empty_for(rows: np.ndarray) -> list[str]:
    table = table_of(0)
    fields = pa.array([None if gone else value for gone, value in zip(rows, table["k"], strict=True)])
    schema, groups = schema_of(), [table["y"] == "yes"]
    found = profile(pa.table({**table, "k": fields}), schema, groups)
    return remarks_on_empty(found, schema, [int(groups[0].sum())], len(rows))


def test_empty_fields_that_go_with_the_label_are_named_where_the_terms_have_no_feature() -> None:
    number = np.arange(600)
    (said,) = empty_for((number % 2 == 1) & (number < 60))
    assert said.startswith("column 'k': whether a field is empty goes with the label here (30 of 600 are)")
    assert "missing_share" in said
    assert empty_for(number < 60) == []
    assert empty_for(number < 0) == []
