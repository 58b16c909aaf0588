"""Dates are found in a table, and become days that say no more of a person than they must."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.errors import InputError
from protocol.table_schema import Schema
from user_client.errors import MissingColumnError, NotADateError
from user_client.tables import draft_schema, encode_rows

ROWS = 200
RNG = np.random.default_rng(0)
CAME = [dt.date(2019, 1, 1) + dt.timedelta(days=int(day)) for day in RNG.integers(0, 700, ROWS)]
LEFT = [
    came + dt.timedelta(days=int(stay)) for came, stay in zip(CAME, RNG.integers(0, 20, ROWS), strict=True)
]
BORN = [dt.date(1950, 1, 1) + dt.timedelta(days=int(day)) for day in RNG.integers(0, 9000, ROWS)]


def table(**columns: Any) -> pa.Table:
    label = np.random.default_rng(1).permutation(np.repeat(["no", "yes"], ROWS // 2))
    return pa.table({"born": BORN, "came": CAME, "left": LEFT, **columns, "y": label})


def written(days: list[dt.date], how: str) -> list[str]:
    return [day.strftime(how) for day in days]


def drafted(made: pa.Table, **options: Any) -> dict[str, dict[str, Any]]:
    content = draft_schema(made, "y", **options).content
    Schema.model_validate(content, strict=False)
    return {column["name"]: column for column in content["columns"]}


@pytest.mark.parametrize(
    ("how", "dates"),
    [
        ("%Y-%m-%d", "iso"),
        ("%Y-%m-%dT%H:%M:%S", "iso"),
        ("%d.%m.%Y", "dd.mm.yyyy"),
        ("%m/%d/%Y", "mm/dd/yyyy"),
    ],
)
def test_dates_become_ranks_of_days_however_they_are_written(how: str, dates: str) -> None:
    found = drafted(table(x=written(CAME, how)))
    assert found["x"]["dates"] == dates
    assert found["x"]["quantiles"] == found["came"]["quantiles"]
    assert (found["x"]["kind"], found["came"]["dates"]) == ("ranks", "iso")


@pytest.mark.parametrize("encoding", ["ranges", "plain"])
def test_dates_become_a_range_of_days_where_numbers_are_no_ranks(encoding: Any) -> None:
    column = drafted(table(), encoding=encoding)["came"]
    assert (column["kind"], column["dates"]) == ("range", "iso")
    assert 17897 <= column["low"] < column["high"] <= 17897 + 700


def test_a_duration_becomes_days_between_two_dates() -> None:
    column = drafted(table(), durations={"left": "came"}, exclude=["came"])["left"]
    assert (column["dates"], column["since"]) == ("iso", "came")
    assert 0 <= column["quantiles"][0] < column["quantiles"][-1] <= 20


def test_what_is_drafted_encodes_the_table_evenly() -> None:
    made = table(x=["", *written(CAME, "%d.%m.%Y")[1:]])
    content = draft_schema(made, "y", durations={"left": "came", "came": "born"}).content
    features = encode_rows(made, Schema.model_validate(content, strict=False))
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=0.15)
    np.testing.assert_allclose(features.std(axis=0), 3**-0.5, atol=0.1)
    assert features[0, 3] == 0


def test_how_dates_are_written_can_be_said() -> None:
    column = drafted(table(x=written(CAME, "%Y%m%d")), dates={"x": "yyyymmdd"})["x"]
    assert (column["dates"], column["quantiles"]) == ("yyyymmdd", drafted(table())["came"]["quantiles"])
    for way, dates in (("%d%m%Y", "ddmmyyyy"), ("%m%d%Y", "mmddyyyy")):
        again = drafted(table(x=written(CAME, way)), dates={"x": dates})["x"]
        assert (again["dates"], again["quantiles"]) == (dates, column["quantiles"])


def test_dates_that_are_names_of_categories_stay_texts() -> None:
    assert drafted(table(x=["2019-01-01", "2019-07-01"] * 100), categories=["x"])["x"]["kind"] == "levels"


def test_dates_that_are_all_the_same_are_left_out() -> None:
    assert "x" not in drafted(table(x=["2020-01-01"] * ROWS))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"durations": {"came": "came"}}, InputError, "since itself"),
        ({"durations": {"came": "gone"}}, MissingColumnError, "gone"),
        ({"durations": {"x": "came"}}, InputError, "--date x=FORMAT"),
        ({"dates": {"x": "iso"}}, NotADateError, "column 'x', data row 1"),
        ({"dates": {"gone": "iso"}}, MissingColumnError, "gone"),
    ],
)
def test_what_is_said_of_dates_has_to_fit(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        draft_schema(table(x=["a", "b"] * 100), "y", **options)


class TestRemarks:
    def remarks(self, made: pa.Table, name: str, **options: Any) -> list[str]:
        found = draft_schema(made, "y", **options).remarks
        return [remark for remark in found if remark.startswith(f"{name}: ")]

    def test_propose_the_duration_since_the_nearest_earlier_date(self) -> None:
        (found,) = self.remarks(table(), "left")
        assert "can recognise the row" in found
        assert "--duration left=came" in found

    def test_propose_to_leave_out_a_date_that_is_since_nothing(self) -> None:
        (found,) = self.remarks(table(), "born")
        assert "--exclude born" in found

    def test_ask_for_nothing_more_of_a_duration(self) -> None:
        assert not self.remarks(table(), "left", durations={"left": "came"})

    def test_name_both_ways_in_which_dates_may_be_written(self) -> None:
        days = [day.replace(day=day.day % 12 + 1) for day in CAME]
        first, _ = self.remarks(table(x=written(days, "%m/%d/%Y")), "x")
        assert "--date x=mm/dd/yyyy" in first

    def test_name_numbers_that_look_like_dates(self) -> None:
        found = self.remarks(table(x=[int(day) for day in written(CAME, "%Y%m%d")]), "x")
        assert any("--date x=yyyymmdd" in remark for remark in found)

    @pytest.mark.parametrize(("way", "dates"), [("%d%m%Y", "ddmmyyyy"), ("%m%d%Y", "mmddyyyy")])
    @pytest.mark.parametrize("kind", [str, int])
    def test_name_numbers_that_look_like_dates_the_other_way_round(
        self, way: str, dates: str, kind: type
    ) -> None:
        made = table(x=[kind(day) for day in written(CAME, way)])
        found = self.remarks(made, "x")
        assert any(f"--date x={dates}" in remark for remark in found)
        assert not any("leading zeros" in remark for remark in found)

    def test_do_not_take_every_number_for_a_date(self) -> None:
        made = table(x=[1_010_001 + number for number in range(len(CAME))])  # 1 January of the year 1
        assert not any("look like dates" in remark for remark in self.remarks(made, "x"))

    def test_name_a_date_that_tables_use_for_unknown(self) -> None:
        days = written(CAME, "%d.%m.%Y")
        made = table(x=["01.01.1900", "01.01.1900", *days[2:]])
        found = self.remarks(made, "x")
        assert any("1900-01-01 is in 2 rows" in remark for remark in found)
        assert not any("1900" in remark for remark in self.remarks(made, "x", missing=["01.01.1900"]))

    def test_name_a_date_that_predicts_the_label_alone(self) -> None:
        made = table().drop_columns(["y"]).append_column("y", pa.array([day.year == 2019 for day in CAME]))
        assert any("predicts the label alone" in remark for remark in self.remarks(made, "came"))

    def test_name_two_dates_whose_difference_predicts_the_label(self) -> None:
        stay = [(left - came).days for came, left in zip(CAME, LEFT, strict=True)]
        made = table().drop_columns(["y"]).append_column("y", pa.array(stay))
        found = draft_schema(made, "y", task="number").remarks
        (pair,) = [remark for remark in found if "days between them" in remark]
        assert pair.startswith("came and left: the days between them predict the label (ROC-AUC 100.0 %)")
        assert "--exclude came or --exclude left" in pair
        assert not any("--duration left=came" in remark for remark in found)  # that would be the label
        assert any("--duration left=came" in remark for remark in draft_schema(table(), "y").remarks)
