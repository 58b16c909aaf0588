"""The lead drafts from its own rows, and corrects the draft so that it fits the other hospitals' tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from odc_demo.corrections import corrected_draft, task_of
from protocol.errors import InputError


def part(rows: int = 40, **columns: Any) -> pa.Table:
    base = {
        "age": [str(40 + index % 30) for index in range(rows)],
        "ward": [["1", "2"][index % 4 == 0] for index in range(rows)],
        "smoker": [["never", "former"][index % 2] for index in range(rows)],
        "label": [["no", "yes"][index % 3 == 0] for index in range(rows)],
    }
    return pa.table({**base, **columns})


def corrected(**tables: pa.Table) -> tuple[str, ...]:
    """Return the options of a draft by the lead, which has a table of its own or that of `part`."""
    return corrected_draft({"lead": part(), **tables}, "label", ()).options()


def test_tables_alike_need_no_correction() -> None:
    assert corrected(b=part(), c=part(8)) == ()


def test_what_only_others_have_becomes_options_of_the_draft() -> None:
    b = part(smoker=["never", "pipe"] * 20, label=["no", "unknown"] * 20)
    c = part(ward=["1", "east"] * 20, label=["dead", "yes"] * 20)
    assert corrected(b=b, c=c) == (
        *("--class", "unknown", "--class", "dead"),
        *("--other", "smoker", "--other", "ward"),
    )


@pytest.mark.parametrize(
    ("tables", "words", "fix"),
    [
        (
            {"b": part(label=["no", ""] * 20)},
            "b: column 'label', 20 data rows, the first is 2: the field is empty",
            "fill in the fields or drop the rows: a row without a label cannot train",
        ),
        (
            {"b": part(age=["40", "high"] * 20)},
            "b: column 'age', 20 data rows, the first is 2: expected a number",
            "correct the fields, or add the text that stands for an empty field to missing in the terms",
        ),
        (
            {"lead": part(smoker=[f"brand {index % 36}" for index in range(40)]), "b": part()},
            "b: column 'smoker', 40 data rows, the first is 1: expected one of",
            "column 'smoker' has 36 distinct texts, and too few of them are in many rows; leave it out with"
            " --exclude smoker",
        ),
    ],
)
def test_what_no_option_makes_room_for_is_told_with_what_to_do(tables: Any, words: str, fix: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        corrected(**tables)
    assert caught.value.hint == fix


def test_numbers_that_lie_outside_of_the_leads_range_widen_it() -> None:
    days = [index / 2 for index in range(40)]
    parts = {"lead": part(label=days), "b": part(label=[100.0, *days[1:]])}
    found = corrected_draft(parts, "label", (), "number").options()
    assert found == ("--task", "number", "--label-range=0.0:100.0")


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([str(index) for index in range(60)], "number"),
        ([*map(str, range(60)), ""], "number"),
        ([str(index) for index in range(40)] * 2, "classes"),
        ([f"code {index}" for index in range(60)], "classes"),
    ],
)
def test_a_label_of_many_numbers_is_a_number(values: list[str], task: str) -> None:
    assert task_of(pa.table({"label": values}), "label") == task
