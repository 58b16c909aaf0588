"""Drafts of columns whose empty fields count as a value, and of logarithms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.errors import InputError
from protocol.table_schema import Schema
from user_client.errors import MissingColumnError
from user_client.tables import draft_schema, encode_rows
from user_client.tables.dictionary import Dictionary, draft_from_dictionary

LABELS = ["no", "yes"]
DAYS = ["2020-01-01", "2020-02-01", None, "2020-03-01"]


def table_of(**columns: Any) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({**columns, "y": [LABELS[index % 2] for index in range(rows)]})


def drafted(values: Any, **options: Any) -> dict[str, Any]:
    (column,) = draft_schema(table_of(x=values), "y", **options).content["columns"]
    return dict(column)


def encoded(values: Any, table: Any = None, **options: Any) -> np.ndarray:
    """Return fields by the draft of other values of their column, or of their own."""
    content = draft_schema(table_of(x=values), "y", **options).content
    return encode_rows(
        table_of(x=values if table is None else table), Schema.model_validate(content, strict=False)
    )


class TestImputed:
    @pytest.mark.parametrize("encoding", ["ranks", "ranges", "plain"])
    @pytest.mark.parametrize("missing", [None, "-9"])
    def test_an_empty_field_is_encoded_as_the_value(self, encoding: Any, missing: str | None) -> None:
        values = [str(number) for number in range(100)]
        options: dict[str, Any] = {"encoding": encoding, "imputes": {"x": "20"}, "missing": ["-9"]}
        empty, twenty = encoded([*values, missing], [missing, "20"], **options)
        assert empty[0] == twenty[0]
        assert encoded([*values, missing], ["50", "20"], **options)[0, 0] != twenty[0]

    def test_one_more_feature_tells_an_empty_field_where_many_are(self) -> None:
        column = drafted([*range(90), *[None] * 10], imputes={"x": "3"})
        assert (column["empty"], column["impute"], column["missing_share"]) == ("impute", 3.0, 0.1)
        assert "missing_share" not in drafted([*range(99), None], imputes={"x": "3"})

    @pytest.mark.parametrize("encoding", ["ranks", "ranges"])
    def test_features_are_about_zero_in_the_mean_however_many_are_empty(self, encoding: Any) -> None:
        values = [*np.linspace(0, 1, 50).tolist(), *[None] * 50]
        features = encoded(values, encoding=encoding, imputes={"x": "0"})
        np.testing.assert_allclose(features.mean(axis=0), 0, atol=0.03)

    @pytest.mark.parametrize("encoding", ["ranks", "plain"])
    def test_a_level_takes_empty_fields(self, encoding: Any) -> None:
        values = ["a", "b", None, "b", "a", "b"]
        found = encoded(values, encoding=encoding, imputes={"x": "a"})
        np.testing.assert_array_equal(found[2, :2], found[0, :2])

    def test_a_level_that_no_row_has_becomes_one_where_fields_are_empty(self) -> None:
        assert drafted(["a", "b", None], imputes={"x": "unknown"})["levels"] == ["a", "b", "unknown"]

    def test_a_level_in_an_order_takes_empty_fields(self) -> None:
        options: dict[str, Any] = {"ordinals": {"x": ["low", "mid", "high"]}, "imputes": {"x": "low"}}
        found = encoded(["low", "mid", None, "high"], **options)
        assert found[2, 0] == found[0, 0]

    def test_a_rare_text_counts_as_the_level_for_such_texts(self) -> None:
        values = ["a"] * 20 + ["b"] * 20 + ["rare", None]
        assert drafted(values, others=["x"], imputes={"x": "rare"})["impute"] == "other"

    def test_a_date_and_a_duration_take_days(self) -> None:
        assert drafted(DAYS, imputes={"x": "2020-01-15"})["impute"] == 18276
        table = table_of(born=["2019-12-31"] * 4, x=DAYS)
        content = draft_schema(table, "y", durations={"x": "born"}, imputes={"x": "30"}).content
        (column,) = (one for one in content["columns"] if one["name"] == "x")
        assert column["impute"] == 30

    def test_a_number_beyond_the_ends_counts_as_the_nearer_end_and_is_named(self) -> None:
        values, options = (
            [*np.linspace(0, 1, 400).tolist(), None],
            {"encoding": "ranges", "imputes": {"x": "50"}},
        )
        column = drafted(values, **options)
        assert column["impute"] == column["high"]
        remarks = draft_schema(table_of(x=values), "y", **options).remarks  # type: ignore[arg-type]
        assert any("50 lies beyond the range" in remark for remark in remarks)

    def test_fields_that_are_filled_may_make_a_column_that_there_was_not(self) -> None:
        values = [*(f"rare {number}" for number in range(60)), *[None] * 140]
        assert drafted(values, others=["x"], imputes={"x": "none"})["levels"] == ["none", "other"]
        assert drafted([2.0, 0.0, None], imputes={"x": "1"}, logarithms=["x"])["scale"] == "logarithm"

    def test_codes_of_numbers_are_empty_however_they_are_written(self) -> None:
        values = [*np.linspace(50, 60, 50).tolist(), -999.0, -999.0]
        assert drafted(values, missing=["-999"], imputes={"x": "55"})["quantiles"][0] > 40

    def test_a_level_in_an_order_that_reads_as_empty_is_a_level(self) -> None:
        values = ["None"] * 8 + ["some"] * 11 + [""]
        column = drafted(values, ordinals={"x": ["None", "some"]}, imputes={"x": "None"})
        assert column["missing_share"] == 0.05

    def test_a_text_of_one_column_alone_is_an_empty_field_there(self) -> None:
        values = ["1", "2", "3", "4", "99"] * 5
        column = drafted(values, imputes={"x": "2"}, missing_in={"x": ["99"]})
        assert (column["impute"], column["missing"], column["missing_share"]) == (2, ["99"], 0.2)

    def test_columns_in_arrow_types_take_a_value(self) -> None:
        assert drafted(pa.array([1.5, None, 2.5, 3.5]), imputes={"x": "2"})["impute"] == 2
        assert drafted(pa.array(["a", None, "b"]).dictionary_encode(), imputes={"x": "b"})["impute"] == "b"

    @pytest.mark.parametrize(
        ("values", "options", "words"),
        [
            ([1, 2, 3], {"imputes": {"x": "low"}}, "can only count as a number"),
            (DAYS[:2], {"imputes": {"x": "soon"}}, "can only count as a date written as iso"),
            (["a", "b"], {"imputes": {"x": "c"}}, "one of its levels"),
            ([1, 2, None], {"imputes": {"x": "few"}}, "can only count as a number"),
        ],
    )
    def test_a_value_that_is_none_of_the_column_is_refused(
        self, values: Any, options: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(InputError, match=words):
            drafted(values, **options)

    def test_a_level_that_stands_for_nothing_but_an_empty_field_has_no_feature_beside_it(self) -> None:
        column = drafted(["yes", None] * 10, imputes={"x": " no "})
        assert (column["levels"], column["impute"]) == (["no", "yes"], "no")
        assert "missing_share" not in column

    def test_of_a_duration_either_date_may_be_empty(self) -> None:
        days = [f"2020-01-{day:02}" for day in range(2, 22)]
        table = table_of(born=["2020-01-01", None] * 10, x=days)
        options: dict[str, Any] = {"durations": {"x": "born"}, "imputes": {"x": "3"}, "exclude": ["born"]}
        content = draft_schema(table, "y", **options).content
        (column,) = content["columns"]
        assert column["missing_share"] == 0.5
        features = encode_rows(table, Schema.model_validate(content, strict=False))
        np.testing.assert_allclose(features.mean(axis=0), 0, atol=0.05)

    def test_dates_that_a_file_stores_as_such_take_a_value_as_others_write_it(self) -> None:
        days = pa.array([18000, None, 18100, 18200], pa.date32())
        column = drafted(days, dates={"x": "dd.mm.yyyy"}, imputes={"x": "01.05.2019"})
        assert (column["dates"], column["impute"]) == ("dd.mm.yyyy", 18017)

    @pytest.mark.parametrize(
        "options", [{"imputes": {"x": "None"}}, {"imputes": {"x": "9"}, "missing": ["9"]}]
    )
    def test_a_text_that_stands_for_an_empty_field_is_no_value(self, options: dict[str, Any]) -> None:
        with pytest.raises(InputError, match="stands for an empty field itself"):
            drafted(["1", "2", None], **options)

    @pytest.mark.parametrize("option", [{"imputes": {"y": "no"}}, {"logarithms": ["y"]}])
    def test_a_column_that_is_no_feature_is_refused(self, option: dict[str, Any]) -> None:
        with pytest.raises(InputError, match="column 'y' is no feature"):
            drafted([1, 2, 3], **option)

    @pytest.mark.parametrize("options", [{"imputes": {"z": "1"}}, {"logarithms": ["z"]}])
    def test_a_column_that_is_not_there_is_named(self, options: dict[str, Any]) -> None:
        with pytest.raises(MissingColumnError, match="'z'"):
            drafted([1, 2, 3], **options)


class TestLogarithms:
    VALUES: Any = (1.7 ** np.linspace(0, 20, 200)).tolist()

    def test_every_doubling_is_the_same_step(self) -> None:
        found = encoded(self.VALUES, [4.0, 8.0, 16.0, 32.0], logarithms=["x"])
        np.testing.assert_allclose(np.diff(found[:, 0]), np.diff(found[:, 0])[0], rtol=1e-9)

    def test_features_are_about_zero_in_the_mean(self) -> None:
        assert abs(encoded(self.VALUES, logarithms=["x"]).mean()) < 0.02

    @pytest.mark.parametrize("low", [1e-9, 1e-3, 1.0, 1e9])
    @pytest.mark.parametrize("width", [1.01, 1.1, 1e6])
    def test_ends_are_above_zero_and_apart(self, low: float, width: float) -> None:
        column = drafted((low * width ** np.linspace(0, 1, 50)).tolist(), logarithms=["x"])
        assert 0 < column["low"] <= column["centre"] <= column["high"]
        assert column["low"] < column["high"]

    def test_a_number_that_is_not_above_zero_counts_as_the_lowest_and_is_named(self) -> None:
        values = [0.0, *self.VALUES[:99]]
        assert encoded(values, [0.0, -3.0], logarithms=["x"])[0] == encoded(values, [1e-9], logarithms=["x"])
        (remark,) = (
            remark
            for remark in draft_schema(table_of(x=values), "y", logarithms=["x"]).remarks
            if "above 0" in remark
        )
        assert "1.0 % of its numbers" in remark

    def test_a_duration_has_logarithms(self) -> None:
        days = [f"2020-01-{day:02}" for day in range(2, 30)]
        table = table_of(born=["2020-01-01"] * len(days), x=days)
        content = draft_schema(
            table, "y", durations={"x": "born"}, logarithms=["x"], exclude=["born"]
        ).content
        (column,) = content["columns"]
        assert (column["scale"], column["since"]) == ("logarithm", "born")
        Schema.model_validate(content, strict=False)

    def test_empty_fields_may_count_as_a_value(self) -> None:
        found = encoded([*self.VALUES, None], [None, 2.0], logarithms=["x"], imputes={"x": "2"})
        assert found[0, 0] == found[1, 0]

    @pytest.mark.parametrize(
        ("values", "options", "words"),
        [
            (["a", "b"], {}, "holds no numbers"),
            ([-1.0, 0.0, -2.0], {}, "no two numbers above 0"),
            ([1.0, 1.0001, 1.0002], {}, "too close together"),
            (DAYS, {}, "holds dates"),
            ([1.0, 2.0], {"encoding": "plain"}, "--encoding plain"),
        ],
    )
    def test_a_column_without_logarithms_is_refused(
        self, values: Any, options: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(InputError, match=words):
            drafted(values, logarithms=["x"], **options)


class TestDictionary:
    def read(self, tmp_path: Path, *lines: str) -> list[dict[str, Any]]:
        path = tmp_path / "dictionary.csv"
        path.write_text("name,type,low,high,levels,scale,impute,since\n" + "\n".join(lines))
        content = draft_from_dictionary(Dictionary.read(path), "y").content
        Schema.model_validate(content, strict=False)
        return list(content["columns"])

    def test_says_both(self, tmp_path: Path) -> None:
        lines = [
            "y,category,,,no|yes,,,",
            "crp,number,0.5,200,,logarithm,2,",
            "smoker,category,,,no|yes,,no,",
            "seen,date,2020-01-01,2021-01-01,,,2020-07-01,",
            "stay,date,0,60,,,3,seen",
        ]
        crp, smoker, seen, stay = self.read(tmp_path, *lines)
        assert (crp["scale"], crp["impute"], crp["empty"]) == ("logarithm", 2.0, "impute")
        assert crp["centre"] == pytest.approx(math.sqrt(100), rel=0.05)
        assert (smoker["impute"], seen["impute"], stay["impute"]) == ("no", 18444, 3.0)

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("x,number,0,9,,logarithm,,", "above 0"),
            ("x,number,0,9,,root,,", "scale"),
            ("x,number,0,9,,,much,", "can only count as a number"),
            ("x,category,,,a|b,,c,", "one of its levels"),
        ],
    )
    def test_what_cannot_be_is_refused(self, line: str, words: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=words):
            self.read(tmp_path, "y,category,,,no|yes,,,", line)
