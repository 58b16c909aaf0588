from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InputError
from protocol.table_schema import Schema
from user_client.errors import MissingColumnError
from user_client.tables import draft_schema, encode_labels, encode_rows
from user_client.tables.draft_column import QUANTILES
from user_client.tables.draft_label import DraftedEvent
from user_client.tables.figures import MAX_DRAFT_LEVELS

LABELS = ["no", "yes"]


def with_label(**columns: Any) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({**columns, "y": [LABELS[index % 2] for index in range(rows)]})


def draft(values: Any, **options: Any) -> dict[str, Any]:
    """Return the draft of one column."""
    (column,) = draft_schema(with_label(x=values), "y", **options).content["columns"]
    return dict(column)


def encoded(values: Any, **options: Any) -> np.ndarray:
    """Return one column, encoded by its own draft."""
    table = with_label(x=values)
    schema = Schema.model_validate(draft_schema(table, "y", **options).content, strict=False)
    return encode_rows(table, schema)


class TestNumbers:
    def test_become_ranks_among_quantiles(self) -> None:
        found = draft(np.arange(1001.0))
        assert (found["kind"], len(found["quantiles"])) == ("ranks", QUANTILES)
        np.testing.assert_allclose(found["quantiles"][1:-1], np.arange(50, 1000, 50), atol=1)

    def test_of_any_distribution_are_spread_evenly(self) -> None:
        values = np.exp(3 * np.random.default_rng(0).standard_normal(4000))
        (column,) = encoded(values).T
        shares, _ = np.histogram(column, bins=10, range=(-1, 1))
        np.testing.assert_allclose(shares / len(values), 0.1, atol=0.02)

    @pytest.mark.parametrize("encoding", ["ranks", "ranges", "plain"])
    def test_never_show_the_value_of_an_extreme_row(self, encoding: Any) -> None:
        values = np.array([-987.6543, *np.linspace(0, 1, 200), 876.54321])
        column = draft(values, encoding=encoding)
        shown = column.get("quantiles") or [column["low"], column["high"]]
        assert min(shown) >= 0
        assert max(shown) <= 1

    def test_become_a_centred_place_in_a_range_of_quantiles(self) -> None:
        values = np.exp(np.random.default_rng(0).standard_normal(1000))
        found = draft(values, encoding="ranges")
        assert found["kind"] == "range"
        np.testing.assert_allclose([found["low"], found["high"]], np.quantile(values, [0.01, 0.99]), rtol=0.2)
        assert abs(encoded(values, encoding="ranges").mean()) < 0.02

    def test_can_have_the_form_of_the_papers(self) -> None:
        found = draft(np.arange(101.0), encoding="plain")
        assert found == {
            "kind": "numeric",
            "name": "x",
            "low": 2.0,
            "high": 98.0,
            "impute": 50.0,
            "out_of_range": "clip",
        }

    @pytest.mark.parametrize("empty", ["", "?", "NA", None, "nan", "-999"])
    def test_that_are_missing_count_as_the_centre(self, empty: str | None) -> None:
        values = [*map(str, range(99)), empty]
        assert draft(values, missing=["-999"])["empty"] == "centre"
        assert encoded(values, missing=["-999"])[-1] == 0

    def test_that_are_often_missing_get_a_feature_for_that(self) -> None:
        values = [None, *np.arange(9.0)] * 4
        assert draft(values)["missing_share"] == 0.1
        np.testing.assert_allclose(encoded(values)[:2, 1], [0.9, -0.1])

    @pytest.mark.parametrize("rare", [1, 3])
    def test_that_are_nearly_all_the_same_are_kept(self, rare: int) -> None:
        values = [0.0] * 997 + [5.0] * rare
        (column,) = encoded(values).T
        assert len(np.unique(column)) == 2

    def test_of_two_values_become_two_features_values_one_apart(self) -> None:
        values = [0] * 70 + [1] * 30
        np.testing.assert_allclose(np.diff(np.unique(encoded(values))), 1, atol=0.05)


class TestCategories:
    def test_are_centred_by_their_shares(self) -> None:
        values = ["b", "a", "b", ""] * 10
        assert draft(values) == {
            "kind": "levels",
            "name": "x",
            "levels": ["a", "b"],
            "shares": [0.333, 0.667],
            "weight": 0.866,  # so that its variance of 0.444 becomes a third
            "empty": "centre",
            "missing_share": 0.25,
        }

    def test_have_together_no_more_variance_than_ranks(self) -> None:
        values = [f"level {index}" for index in range(20)] * 50
        assert encoded(values).var(axis=0).sum() == pytest.approx(1 / 3, rel=0.01)

    def test_can_have_the_form_of_the_papers(self) -> None:
        found = draft(["b", "a", "b", ""], encoding="plain")
        assert found == {"kind": "categorical", "name": "x", "levels": ["a", "b"], "impute": "b"}

    def test_may_be_numbers_if_a_person_says_so(self) -> None:
        assert draft([3, 1, 2, 1], categories=["x"])["levels"] == ["1", "2", "3"]

    def test_with_words_among_numbers_list_the_numbers_first(self) -> None:
        assert draft(["10", "9", "other"])["levels"] == ["9", "10", "other"]

    def test_of_as_many_levels_as_allowed_are_drafted(self) -> None:
        values = [f"name {index}" for index in range(MAX_DRAFT_LEVELS)]
        assert len(draft(values)["levels"]) == MAX_DRAFT_LEVELS

    def test_in_an_order_become_one_centred_feature(self) -> None:
        values = ["mid", "low", "high", "low", ""] * 10
        found = draft(values, ordinals={"x": ["low", "mid", "high"]})
        assert found == {
            "kind": "ordinal",
            "name": "x",
            "levels": ["low", "mid", "high"],
            "centre": -0.25,
            "empty": "centre",
            "missing_share": 0.2,
        }
        features = encoded(values, ordinals={"x": ["low", "mid", "high"]})
        np.testing.assert_allclose(features[:5, 0], [0.25, -0.75, 1.25, -0.75, 0])

    def test_in_an_order_that_does_not_have_them_all_are_refused(self) -> None:
        with pytest.raises(InputError, match="1 texts that are none of the 3 levels of --ordinal x"):
            draft([3, 1, 2], ordinals={"x": ["1", "2", "4"]})


class TestOther:
    """One level takes what is rare, and what is not in the table."""

    MANY: ClassVar = [*["a"] * 150, *["b"] * 100, *[f"name {index}" for index in range(100)]]

    def test_takes_the_rare_texts_of_a_column_with_too_many(self) -> None:
        found = draft(self.MANY)
        assert (found["levels"], found["other"]) == (["a", "b", "other"], "other")
        assert found["shares"] == [0.429, 0.286, 0.286]
        assert encoded(self.MANY).shape == (350, 3)

    def test_is_named_with_its_share_and_no_text(self) -> None:
        (remark,) = draft_schema(with_label(x=self.MANY), "y").remarks
        assert "100 of its 102 texts count as 'other', in 28.6 % of the rows" in remark
        assert "name" not in remark

    def test_does_not_keep_a_column_where_most_rows_are_rare(self) -> None:
        for values in (self.MANY[160:], [f"name {index}" for index in range(100)]):
            with pytest.raises(InputError, match="--exclude x"):
                draft(values)

    def test_is_not_in_the_form_of_the_papers(self) -> None:
        with pytest.raises(InputError, match="--exclude x"):
            draft(self.MANY, encoding="plain")

    def test_is_drafted_where_a_person_asks(self) -> None:
        values = ["a", "b"] * 20 + ["c", "Other"]
        assert draft(values)["levels"] == ["Other", "a", "b", "c"]
        found = draft(values, others=["x"])
        assert (found["levels"], found["other"]) == (["a", "b", "Other"], "Other")
        assert draft(["a"] * 40, others=["x"])["shares"] == [1, 0]

    def test_keeps_the_most_frequent_levels(self) -> None:
        values = [f"{index:03}" for index in range(80) for _ in range(5 + index)]
        found = draft(values, others=["x"])
        assert found["levels"] == [*(f"{index:03}" for index in range(31, 80)), "other"]

    def test_is_proposed_for_rare_texts(self) -> None:
        (remark,) = draft_schema(with_label(x=[*["a", "a", "b", "b"] * 10, "c", "d", "e"]), "y").remarks
        assert "3 of its texts are in fewer than 5 rows" in remark
        assert "--other x" in remark

    @pytest.mark.parametrize("rare", [["c"] * 2 + ["d"] * 4, ["c", "d"]])
    def test_is_proposed_where_others_likely_have_texts_that_would_refuse_their_tables(
        self, rare: list[str]
    ) -> None:
        (remark,) = draft_schema(with_label(x=["a", "a", "b", "b"] * 10 + rare), "y").remarks
        assert "x: 2 of its texts are in fewer than 5 rows" in remark
        assert "texts that the draft lacks, and a table with one is refused" in remark

    @pytest.mark.parametrize("rare", [[], ["c"], ["c"] * 5 + ["d"] * 5])
    def test_is_not_proposed_where_that_is_unlikely(self, rare: list[str]) -> None:
        assert not draft_schema(with_label(x=["a", "a", "b", "b"] * 10 + rare), "y").remarks


class TestRemarks:
    def remarks(self, **columns: Any) -> list[str]:
        rows = len(next(iter(columns.values())))
        return draft_schema(with_label(other=np.sin(np.arange(rows)), **columns), "y").remarks

    @pytest.mark.parametrize("values", [[7] * 40, ["same"] * 40, [None] * 40, [""] * 40])
    def test_a_constant_column_is_left_out_and_named(self, values: Any) -> None:
        found = draft_schema(with_label(x=values, other=range(40)), "y")
        assert [column["name"] for column in found.content["columns"]] == ["other"]
        assert "x: has the same value everywhere" in found.remarks[0]

    @pytest.mark.parametrize("code", [-999, 9999, -1e0 * 99])
    def test_a_code_for_missing_is_named(self, code: float) -> None:
        (found,) = self.remarks(x=[*np.linspace(0, 20, 37), code, code, code])
        assert f"x: {code:g} is in 3 rows" in found
        assert f"--missing {code:g}" in found

    def test_a_number_at_the_end_of_its_range_is_no_code(self) -> None:
        assert not self.remarks(x=np.linspace(0, 99, 40))

    def test_whole_numbers_that_may_be_categories_are_named(self) -> None:
        (found,) = self.remarks(x=[1, 1, 2, 2, 3, 3, 4, 4] * 5)
        assert "--category x" in found

    def test_a_heavy_tail_is_named(self) -> None:
        (found,) = self.remarks(x=np.exp(3 * np.random.default_rng(0).standard_normal(400)))
        assert "x: has a heavy tail" in found

    @pytest.mark.parametrize("values", [[0.25, 0.75] * 20, ["a", "b"] * 20])
    def test_a_column_that_alone_predicts_the_label_is_named(self, values: Any) -> None:
        (found,) = self.remarks(x=values)
        assert "predicts the label alone (ROC-AUC 100.0 %)" in found
        assert "--exclude x" in found

    def test_an_ordinary_column_gets_none(self) -> None:
        rng = np.random.default_rng(0)
        assert not self.remarks(x=rng.standard_normal(400), c=rng.choice(["a", "b", "c"], 400))


def test_a_text_for_an_empty_field_of_one_column_is_a_value_in_the_others() -> None:
    values = [float(k % 10) for k in range(40)]
    table = with_label(smoker=values, visits=values, grade=["low", "n.a.", "high", "low"] * 10)
    own = {"smoker": ["9", "8"], "grade": ["n.a."]}
    found = draft_schema(table, "y", ordinals={"grade": ["low", "high"]}, missing_in=own)
    schema = Schema.model_validate(found.content, strict=False)
    smoker, visits, grade = found.content["columns"]
    assert [column.get("missing") for column in (smoker, visits, grade)] == [["9", "8"], None, ["n.a."]]
    assert (smoker["quantiles"][-1], visits["quantiles"][-1]) == (7, 9)
    assert [column.get("missing_share") for column in (smoker, visits, grade)] == [0.2, None, 0.25]
    encoded = encode_rows(table, schema)
    assert np.flatnonzero(encoded[:10, 1] > 0).tolist() == [8, 9]
    assert (encoded[:10, 0] == 0).sum() == 2


def test_texts_of_a_column_need_terms_that_can_name_them() -> None:
    table = with_label(x=np.arange(40.0))
    with pytest.raises(InputError, match="plain"):
        draft_schema(table, "y", encoding="plain", missing_in={"x": ["9"]})
    with pytest.raises(InputError, match="label"):
        draft_schema(table, "y", missing_in={"y": ["9"]})
    with pytest.raises(MissingColumnError):
        draft_schema(table, "y", missing_in={"z": ["9"]})


def test_an_excluded_column_is_left_out() -> None:
    found = draft_schema(with_label(name=["p", "q"], x=[1, 2]), "y", ["name"])
    assert [column["name"] for column in found.content["columns"]] == ["x"]


@pytest.mark.parametrize(
    "options", [{"exclude": ["z"]}, {"categories": ["z"]}, {"others": ["z"]}, {"ordinals": {"z": ["a", "b"]}}]
)
def test_a_column_that_is_not_in_the_table_is_an_error(options: Any) -> None:
    with pytest.raises(MissingColumnError, match="z"):
        draft_schema(with_label(x=[1, 2]), "y", **options)


def test_a_table_without_a_column_to_predict_from_is_refused() -> None:
    with pytest.raises(InputError, match="no column is left"):
        draft_schema(with_label(x=[1, 1]), "y")


def test_the_classes_are_the_labels_that_are_not_empty() -> None:
    found = draft_schema(pa.table({"x": [1, 2, 3], "y": ["2", "10", ""]}), "y").content
    assert found["label_column"] == {"name": "y", "classes": ["2", "10"]}


def test_a_label_of_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="has 1 distinct values"):
        draft_schema(pa.table({"x": [1, 2], "y": ["a", "a"]}), "y")


def test_a_missing_label_column_is_refused() -> None:
    with pytest.raises(MissingColumnError):
        draft_schema(pa.table({"x": [1]}), "y")


@pytest.mark.parametrize("encoding", ["ranks", "ranges", "plain"])
@given(
    numbers=st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=2, max_size=30),
    words=st.lists(st.sampled_from(["a", "b", "NA"]), min_size=30, max_size=30),
)
def test_a_draft_is_valid_and_fits_its_own_table(
    encoding: Any, numbers: list[float], words: list[str]
) -> None:
    rows = len(numbers)
    made = with_label(x=numbers, c=["a", "b", *words][:rows])
    schema = Schema.model_validate(draft_schema(made, "y", encoding=encoding).content, strict=False)
    features = encode_rows(made, schema)
    assert np.abs(features).max() <= 2
    assert len(encode_labels(made, schema)) == rows


# a number to predict


def of_numbers(values: list[Any], **options: Any) -> Any:
    made = pa.table({"x": list(range(len(values))), "y": values})
    return draft_schema(made, "y", task="number", **options)


def test_a_number_is_drafted_with_more_room_than_the_table_needs() -> None:
    found = of_numbers([25.0, 346.0, 100.0] * 30)
    assert found.content["label_column"] == {"kind": "number", "name": "y", "low": 0.0, "high": 510.0}
    assert any(remark.startswith("y: 0 to 510 is this table's range") for remark in found.remarks)
    below = of_numbers([-5.0, 5.0] * 30).content["label_column"]
    assert (below["low"], below["high"]) == (-10, 10)


def test_a_given_range_is_taken_and_has_to_hold_the_table() -> None:
    found = of_numbers([1, 2, 3] * 20, label_range=(0, 4))
    assert (found.content["label_column"]["low"], found.content["label_column"]["high"]) == (0, 4)
    assert not any("range" in remark for remark in found.remarks)
    with pytest.raises(InputError, match="numbers outside of 0 to 2"):
        of_numbers([1, 2, 3] * 20, label_range=(0, 2))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["1", "two", "3"] * 20, "texts that are no numbers"),
        ([1, 1, None] * 20, "the same number everywhere"),
        ([None] * 20, "is empty"),
    ],
)
def test_a_column_that_is_no_number_to_predict_is_refused(values: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        of_numbers(values)


def test_many_classes_that_are_numbers_hint_at_the_task() -> None:
    with pytest.raises(InputError, match="--task number"):
        draft_schema(pa.table({"x": range(60), "y": range(60)}), "y")


def test_a_column_that_leaks_a_number_is_named() -> None:
    found = of_numbers([float(value) for value in range(100)])
    assert any("predicts the label alone" in remark for remark in found.remarks)


# survival


def of_survival(until: list[Any], died: list[Any], seen: str = "1", times: Any = ()) -> Any:
    made = pa.table({"x": list(range(len(until))), "t": until, "died": died})
    return draft_schema(made, "t", task="survival", event=DraftedEvent("died", seen, times))


def test_survival_is_drafted_with_the_quartiles_of_its_events() -> None:
    found = of_survival([float(day) for day in range(1, 101)], [1, 0] * 50)
    assert found.content["label_column"] == {
        "kind": "survival",
        "name": "t",
        "event": "died",
        "seen": "1",
        "censored": "0",
        "horizon": 100.0,
        "times": [26.0, 50.0, 74.0],
    }
    assert [column["name"] for column in found.content["columns"]] == ["x"]
    assert any("survival is predicted at 26.0, 50.0, 74.0" in remark for remark in found.remarks)
    spelt = of_survival([float(day) for day in range(1, 101)], ["1.0", "0.0"] * 50)
    assert (spelt.content["label_column"]["seen"], spelt.content["label_column"]["censored"]) == (
        "1.0",
        "0.0",
    )
    chosen = of_survival([float(day) for day in range(1, 101)], [1, 0] * 50, times=(90, 10))
    assert chosen.content["label_column"]["times"] == [10, 90]


@pytest.mark.parametrize(
    ("until", "died", "seen", "times", "words"),
    [
        ([-1.0, 2] * 20, [1, 0] * 20, "1", (), "no times"),
        (["soon", "2"] * 20, [1, 0] * 20, "1", (), "no times"),
        ([1.0, 2] * 20, [1, 0] * 20, "yes", (), "says 0 or 1: one of them has to stand for the event"),
        ([1.0, 2] * 20, [1, 1] * 20, "1", (), "has 1 distinct values"),
        ([1.0, 2] * 20, [1] * 4 + [0] * 36, "1", (), "seen in 4 rows after a time above 0"),
        ([1.0, 2] * 20, [1, 0] * 20, "1", (5,), "not beyond the longest observation, about 2"),
    ],
)
def test_columns_that_are_no_survival_are_refused(
    until: list[Any], died: list[Any], seen: str, times: Any, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        of_survival(until, died, seen, times)


def test_no_event_is_lost_at_the_horizon() -> None:
    label = of_survival([104.0, 8.64] * 50, [1, 0] * 50).content["label_column"]
    assert label["horizon"] == 110
    assert label["times"] == [100] or max(label["times"]) <= 110


@pytest.mark.parametrize(
    ("until", "words"),
    [([0.0] * 40, "seen in 0 rows after a time above 0"), ([math.inf, 1.0] * 20, "no times")],
)
def test_times_that_cannot_be_drafted_are_refused(until: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        of_survival(until, [1, 0] * 20)


def test_a_column_that_leaks_a_time_is_named() -> None:
    rng = np.random.default_rng(0)
    until = rng.exponential(100, 400).round(1) + 0.1
    made = pa.table(
        {"x": 2 * until, "z": rng.standard_normal(400), "t": until, "died": rng.integers(0, 2, 400)}
    )
    found = draft_schema(made, "t", task="survival", event=DraftedEvent("died", "1"))
    assert [remark.split(":")[0] for remark in found.remarks if "predicts the label alone" in remark] == ["x"]


def test_a_leak_of_numbers_with_a_ceiling_is_named() -> None:
    values = [min(float(value), 30.0) for value in range(100)]
    made = pa.table({"x": [2 * value for value in values], "y": values})
    found = draft_schema(made, "y", task="number")
    assert any("predicts the label alone" in remark for remark in found.remarks)
