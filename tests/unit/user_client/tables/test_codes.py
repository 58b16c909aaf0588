"""Numbers that tables use for "not known", and that terms take as they stand, are found and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.table_schema import Schema
from user_client.tables import ColumnProfile, profile
from user_client.tables.codes import CODES, Ends, FarCode, far_codes

NUMERIC = {"kind": "numeric", "low": 0, "high": 100, "out_of_range": "clip"}
RANGE = {"kind": "range", "low": 0, "high": 100, "centre": 50}
DAYS = {"kind": "range", "low": 0, "high": 20000, "centre": 9000, "dates": "iso"}


def found_in(fields: list[Any], column: dict[str, Any], **schema: Any) -> ColumnProfile:
    content = {
        "columns": ({**column, "name": "dose"},),
        "label_column": {"name": "ill", "classes": ("no", "yes")},
        **schema,
    }
    table = pa.table({"dose": [str(one) for one in fields], "ill": ["no"] * len(fields)})
    (found,) = profile(table, Schema.model_validate(content))
    return found


def test_a_code_that_is_cut_off_at_the_range_is_found_as_the_table_writes_it() -> None:
    found = found_in(["-999.0", "-999", *range(0, 90, 3)], NUMERIC)
    assert found.codes == [FarCode(("-999", "-999.0"), 2)]
    assert (found.clipped, found.coded) == (2, 2)
    assert "999" not in str(found.to_json())


def test_a_code_within_the_range_of_the_terms_is_found_too() -> None:
    found = found_in([-999, *range(0, 90, 3)], {**RANGE, "low": -1000})
    assert (found.clipped, found.coded) == (0, 1)


def test_a_code_near_other_numbers_is_a_number() -> None:
    assert found_in([99, *range(0, 90, 3)], NUMERIC).codes == []


def test_what_the_terms_take_for_an_empty_field_is_no_code() -> None:
    column = {**RANGE, "missing": ("-999",), "empty": "centre"}
    found = found_in([-999, *range(0, 90, 3)], column)
    assert (found.codes, found.empty, found.imputed) == ([], 1, 1)


@pytest.mark.parametrize(
    ("others", "is_code"),
    [
        ([*range(44, 90)], True),  # a blood pressure
        ([one / 10 for one in range(182, 400)], True),  # a body mass index
        ([*range(1, 40)], False),  # a count
        ([*range(50, 1050, 50)], False),  # a dose
        ([114, 401, 594, 914, 991, 1055, 1086, 1151, 1173, 1409, 1424, 1455, 1471], False),  # a gain of some
        ([*range(44, 50)], False),  # too few to say
        ([-5, *range(44, 90)], False),
    ],
)
def test_a_zero_is_a_code_where_a_gap_lies_behind_it(others: list[float], is_code: bool) -> None:
    codes = [FarCode(("0",), 2)] if is_code else []
    assert found_in([0, 0, *others], RANGE).codes == codes
    assert found_in([0, 0, *others], NUMERIC).codes == []  # its codes would be those of every column


def test_a_day_that_stands_for_none_is_found() -> None:
    days = [f"2020-01-{day:02}" for day in range(1, 20)]
    assert found_in(["1900-01-01", *days], DAYS).codes == [FarCode(("1900-01-01",), 1)]


@pytest.mark.parametrize(
    ("column", "schema", "line"),
    [
        ({**RANGE, "empty": "centre"}, {}, 'missing = ["-999"] in this column'),
        (
            {**RANGE, "empty": "centre", "missing": ("n.d.",)},
            {},
            'missing = ["n.d.", "-999"] in this column',
        ),
        (RANGE, {}, 'missing = ["-999"] in this column, and empty = "centre" in this column'),
        (
            NUMERIC,
            {"missing": ("", "NA")},
            'missing = ["", "NA", "-999"] in table_schema, and impute = VALUE in this column',
        ),
    ],
)
def test_the_line_of_the_terms_keeps_what_is_there(
    column: dict[str, Any], schema: dict[str, Any], line: str
) -> None:
    assert found_in([-999, *range(0, 90, 3)], column, **schema).line == line


@pytest.mark.parametrize("distinct", [4, 12, 60])
@pytest.mark.parametrize("seed", range(20))
def test_reading_part_by_part_finds_what_reading_at_once_does(seed: int, distinct: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.choice([-999.0, 999.0, -9.0, 98.0, -30.0], 60)
    numbers = np.where(rng.random(60) < 0.08, numbers, rng.integers(0, distinct, 60) / 2)
    numbers[rng.random(60) < 0.1] = np.nan
    text = pa.chunked_array([pa.array([str(number) for number in numbers])])
    ends = Ends(CODES)
    for start in range(0, 60, 7):
        ends.add(numbers[start : start + 7], text.slice(start, 7).filter)
    expected = [
        FarCode((str(code),), int((numbers == code).sum()))
        for code in far_codes(np.unique(numbers[~np.isnan(numbers)]), CODES)
    ]
    assert ends.far() == expected
