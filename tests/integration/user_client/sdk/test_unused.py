"""Columns that the terms do not use are listed, and those that predict the label are named, by a check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.terms import Terms
from tests.harness.in_process import HOSPITAL, LEAD
from user_client.sdk import draft_terms, with_sums
from user_client.sdk.terms import CheckedTable, check_table
from user_client.words import checked_in_words

PARTIES = [LEAD, HOSPITAL, "third"]


def table_of(seed: int, **others: Any) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((500, 2))
    ward = rng.choice(["icu", "normal"], 500)
    odds = x[:, 0] + 2.5 * (ward == "icu") - 1.2
    told = np.where(rng.random(500) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return {"x0": x[:, 0], "x1": x[:, 1], "ward": ward, "y": told, **others}


def terms_of(*, sums: bool = False) -> Terms:
    table = pa.table(table_of(0, ward=np.full(500, "normal")))
    drafted = draft_terms(table, label="y", parties=PARTIES, title="Wards")
    assert any(one.startswith("ward: has the same value everywhere") for one in drafted.remarks)
    content = (with_sums(drafted, table) if sums else drafted).content
    return Terms.model_validate(
        {**content, "consortium_id": "c0" * 16, "collaboration_id": "c1" * 16}, strict=False
    )


def checked(seed: int, *, sums: bool = False, **others: Any) -> tuple[CheckedTable, str]:
    terms = terms_of(sums=sums)
    found = check_table(terms, pa.table(table_of(seed, **others)))
    return found, checked_in_words(terms, found)


@pytest.mark.parametrize("sums", [False, True])
def test_a_column_that_is_constant_at_the_lead_is_named_where_it_predicts_the_label(sums: bool) -> None:
    found, words = checked(1, sums=sums)
    assert found.unused.columns == ("ward",)
    assert "warning: column 'ward', which the terms do not use, predicts the label by itself" in words
    assert "1 column of the table, which the terms do not use: ward" in words


def test_a_column_that_is_the_label_is_called_a_leak() -> None:
    label = table_of(1)["y"]
    _, words = checked(1, result=np.where(label == "yes", 7, 3))
    assert "column 'result', which the terms do not use, predicts the label nearly alone" in words
    assert "likely a leak" in words


@pytest.mark.parametrize("seed", range(20))
def test_columns_that_mean_nothing_are_listed_and_no_more(seed: int) -> None:
    rng = np.random.default_rng(seed + 100)
    noise: dict[str, Any] = {f"noise{i}": rng.standard_normal(500) for i in range(10)}
    names = np.array([f"p{i:04}" for i in rng.permutation(500)])
    found, words = checked(
        seed, **noise, patient=names, group=rng.integers(0, 40, 500), ward=np.full(500, "normal")
    )
    assert len(found.unused.columns) == 13
    assert not found.unused.telling
    assert "13 columns of the table, which the terms do not use: ward, noise0" in words


def test_a_table_that_has_what_the_terms_use_has_nothing_beside() -> None:
    table = {name: column for name, column in table_of(1).items() if name != "ward"}
    terms = terms_of()
    found = check_table(terms, pa.table(table))
    assert not found.unused.columns
    assert "do not use" not in checked_in_words(terms, found)


def test_empty_fields_that_go_with_the_label_and_another_unit_are_told_too() -> None:
    table = table_of(1)
    number = np.arange(500)
    empty = (table["y"] == "yes") & (number % 8 == 0)
    fields = pa.array([None if gone else value for gone, value in zip(empty, table["x1"], strict=True)])
    found, words = checked(1, x0=table["x0"] / 4, x1=fields)
    assert "warning: column 'x0': its values lie otherwise than in the terms" in words
    assert "warning: column 'x1': whether a field is empty goes with the label here" in words
    assert len(found.remarks) == 3
