"""Dates are the same numbers of days everywhere, and what is none is refused by its row."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.table_schema import RanksColumn
from tests.harness.schemas import SECRET, schema
from user_client.errors import MissingColumnError, NotADateError, TableError
from user_client.tables import encode_rows
from user_client.tables.dates import DATE_FORMATS, dates_in
from user_client.tables.encode import numbers_of
from user_client.tables.states import column_states

HOUR = dt.timedelta(hours=1)


def column(dates: Any = "iso", since: str | None = None, **changed: Any) -> RanksColumn:
    given = {"quantiles": (0.0, 100.0), "empty": "centre", **changed}
    return RanksColumn(name="left", dates=dates, since=since, **given)


def days(values: Any, dates: Any = "iso", missing: Any = ("",)) -> list[float]:
    numbers, _ = numbers_of(pa.table({"left": values}), column(dates), missing)
    return list(numbers)


@given(st.dates(), st.times(), st.sampled_from(DATE_FORMATS))
def test_a_day_and_a_time_are_those_of_the_calendar(day: dt.date, time: dt.time, dates: Any) -> None:
    written = dates if dates != "iso" else "yyyy-mm-dd"
    for part, digits in (("yyyy", f"{day.year:04}"), ("mm", f"{day.month:02}"), ("dd", f"{day.day:02}")):
        written = written.replace(part, digits)
    since = dt.datetime.combine(day, time) - dt.datetime(1970, 1, 1)
    (found,) = days([f"{written}T{time.isoformat()}"], dates)
    assert found == float(since // dt.timedelta(microseconds=1)) / 86_400_000_000


@pytest.mark.parametrize(
    "kind",
    [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")],
    ids=str,
)
def test_days_of_any_type_are_the_same(kind: pa.DataType) -> None:
    values = pa.array([dt.date(1969, 12, 31), None, dt.date(2020, 2, 29)]).cast(kind)
    np.testing.assert_array_equal(days(values), [-1, np.nan, 18321])
    np.testing.assert_array_equal(days(values, missing=("", "1969-12-31")), [np.nan, np.nan, 18321])


def test_a_time_with_a_zone_is_taken_in_utc() -> None:
    berlin = dt.timezone(HOUR)
    values = pa.array([dt.datetime(1970, 1, 2, tzinfo=berlin)], pa.timestamp("us", "Europe/Berlin"))
    assert days(values) == days(["1970-01-02T00:00+01:00"]) == [23 / 24]


@pytest.mark.parametrize(
    "text",
    [
        "2021-02-29", "2020-13-01", "2020-00-01", "2020-01-00", "0000-01-01", "2020-1-1", "20-01-01",
        "2020-01-01 24:00", "2020-01-01 12:60", "2020-01-01 12", "2020-01-01 12:00:60", "2020-01-01 1:00",
        "2020-01-01 12:00:00.", "2020-01-01 12:00+1:00", "2020-01-01 12:00+24:00", "2020-01", "01.02.2020",
        "18262", "\u0662\u0660\u0662\u0660-01-01", SECRET,
    ],
)  # fmt: skip
def test_what_is_no_date_is_refused_by_its_row_and_not_shown(text: str) -> None:
    with pytest.raises(
        NotADateError, match="column 'left', data row 2: expected a date written as iso"
    ) as caught:
        days(["2020-01-01", text])
    assert text not in str(caught.value.to_problem())


def test_numbers_that_are_written_as_dates_are_dates() -> None:
    assert days(pa.array([19700102, None]), "yyyymmdd")[0] == 1
    assert days(pa.array([2011970, None]), "ddmmyyyy")[0] == 1  # the zero before it is lost
    assert days(pa.array([1021970, None]), "mmddyyyy")[0] == 1


@pytest.mark.parametrize("text", ["32012020", "01132020", "112020", "010120200", "01 012020", "01012020 24"])
def test_digits_that_are_no_date_are_refused(text: str) -> None:
    with pytest.raises(NotADateError, match="written as ddmmyyyy"):
        days([text], "ddmmyyyy")


class TestDurations:
    TABLE = pa.table(
        {"left": ["1970-01-05", "", "1970-01-03"], "came": ["1970-01-01 12:00", "1970-01-01", None]}
    )

    def test_are_empty_if_one_of_the_dates_is(self) -> None:
        numbers, empty = numbers_of(self.TABLE, column(since="came"), ("",))
        assert numbers[0] == 3.5
        assert empty.tolist() == [False, True, True]

    def test_name_the_column_that_cannot_be_read(self) -> None:
        with pytest.raises(MissingColumnError, match="born"):
            numbers_of(self.TABLE, column(since="born"), ("",))
        made = self.TABLE.append_column("born", pa.array(["", "1.1.1950", ""]))
        with pytest.raises(NotADateError, match="column 'born', data row 2"):
            numbers_of(made, column(since="born"), ("",))

    def test_do_not_depend_on_how_the_file_stores_days(self) -> None:
        terms = schema(column(since="came"))
        stored = pa.table(
            {
                "left": pa.array([dt.date(1970, 1, 5), None, dt.date(1970, 1, 3)]),
                "came": pa.array([dt.datetime(1970, 1, 1, 12), dt.datetime(1970, 1, 1), None]),
            }
        )
        np.testing.assert_array_equal(encode_rows(stored, terms), encode_rows(self.TABLE, terms))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2020-01-01", "2020-01-02 12:00"], ["iso"]),
        (["01/02/2020", "13/02/2020"], ["dd/mm/yyyy"]),
        (["01/02/2020", "02/13/2020"], ["mm/dd/yyyy"]),
        (["01/02/2020", "02/03/2020"], ["dd/mm/yyyy", "mm/dd/yyyy"]),
        (["20200101"], []),
        (["2020-01-01", "unknown"], []),
        ([], []),
    ],
)
def test_how_dates_are_written_is_found_out(texts: list[str], expected: list[str]) -> None:
    assert dates_in(texts) == expected


def test_days_and_parts_of_them_are_what_an_attacker_tries() -> None:
    whole = pa.table({"left": ["1970-01-01", "1970-01-05", "1970-01-12"], "came": ["1970-01-01"] * 3})
    assert len(column_states(whole, schema(column()))[0]) == 101
    assert len(column_states(whole, schema(column(since="came")))[0]) == 101
    hours = pa.table({"left": ["1970-01-01 06:00", "1970-01-01 07:00"]})
    assert len(column_states(hours, schema(column(quantiles=(0.25, 10.25))))[0]) == 241


def test_a_column_that_holds_no_text_is_refused() -> None:
    with pytest.raises(TableError):
        days(pa.array([[1], [2]]))
