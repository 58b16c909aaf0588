"""Predictions: thresholds, intervals, and tables that come part by part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.errors import InputError
from tests.harness.in_process import COLUMNS, Consortium, rows
from user_client.custody.round_directory import MODEL_FILE
from user_client.errors import NotANumberError, NotPreparedError
from user_client.sdk import Round, UnfitRows
from user_client.sdk.terms import check_table

NUMBER: dict[str, Any] = {
    "terms_schema": 2,
    "hold_out": 0.25,
    "model": {"kind": "ridge"},
    "table_schema": {
        "columns": [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS],
        "label_column": {"kind": "number", "name": "y", "low": 0, "high": 100},
    },
}


def numbers(seed: int, count: int, low: float = 0, high: float = 100) -> dict[str, list[Any]]:
    """A table whose number is a line of the columns with noise of a standard deviation of 5."""
    table, rng = rows(seed, count), np.random.default_rng(seed)
    told = 50 + 5 * np.array(table["x0"]) + 5 * rng.standard_normal(count)
    return {**table, "y": np.clip(told, low, high).tolist()}


def of_numbers(consortium: Consortium, low: float = 0, high: float = 100) -> Round:
    label = {"kind": "number", "name": "y", "low": low, "high": high}
    consortium.until_anchored(**{**NUMBER, "table_schema": {**NUMBER["table_schema"], "label_column": label}})
    for party, seed in ((consortium.lead_round, 1), (consortium.hospital_round, 2)):
        party.prepare(pa.table(numbers(seed, 400, low, high)))
        party.contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    return consortium.hospital_round


@pytest.fixture
def ours(consortium: Consortium) -> Round:
    consortium.until_released()
    consortium.hospital_round.receive()
    return consortium.hospital_round


def test_a_class_is_predicted_from_its_threshold_on(ours: Round) -> None:
    table = pa.table(rows(9, 200))
    yes = ours.predict(table).probabilities[:, 1]
    for threshold in (0.0, 0.1, 0.5, 0.9, 1.0):
        found = ours.predict(table, thresholds={"yes": threshold}).labels
        assert found == ["yes" if each >= threshold else "no" for each in yes]


def test_if_each_class_has_a_threshold_and_none_is_reached_the_likeliest_is_taken(ours: Round) -> None:
    table = pa.table(rows(9, 200))
    assert ours.predict(table, thresholds={"yes": 1.0, "no": 1.0}).labels == ours.predict(table).labels


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"thresholds": {"maybe": 0.5}}, "one of no, yes"),
        ({"thresholds": {"yes": 1.5}}, "from 0 to 1, got 1.5"),
        ({"thresholds": {"yes": "0.5"}}, "from 0 to 1; got '0.5'"),
        ({"thresholds": 0.5}, "a mapping of names to probabilities"),
        ({"thresholds": {"yes": float("nan")}}, "from 0 to 1"),
        ({"coverage": 0.9}, "do not predict one"),
    ],
)
def test_options_that_mean_nothing_are_refused(ours: Round, options: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        ours.predict(pa.table(rows(9)), **options)


def test_parts_give_what_the_whole_table_gives(ours: Round) -> None:
    table = pa.table(rows(9, 100))
    whole = pa.table(ours.predict(table).columns())
    parts = [table.slice(0, 0), table.slice(0, 60), table.slice(60)]
    found = pa.concat_tables(ours.predictor().predict_parts(parts, keep=["x1"]))
    assert found.column_names == ["x1", *whole.column_names]
    assert found.column("prediction").to_pylist() == whole.column("prediction").to_pylist()
    for name in whole.column_names[1:]:
        np.testing.assert_allclose(found.column(name).to_numpy(), whole.column(name).to_numpy(), rtol=1e-6)


def test_many_small_parts_are_worked_on_together(ours: Round) -> None:
    table = pa.table(rows(9, 100))
    parts = [table.slice(0, 0), *(table.slice(start, 10) for start in range(0, 100, 10))]
    assert [part.num_rows for part in ours.predictor().predict_parts(parts)] == [0, 100]


def test_parts_may_have_a_column_as_another_type(ours: Round) -> None:
    """As chunks of a file are in pandas, one with whole numbers alone."""
    whole = pa.table({**rows(9, 30), "x1": [0.5] * 10 + [1.0] * 10 + [0.25] * 10})
    parts = [whole.slice(start, 10) for start in (0, 10, 20)]
    parts[1] = parts[1].set_column(parts[1].column_names.index("x1"), "x1", pa.array([1] * 10))
    found = pa.concat_tables(ours.predictor().predict_parts([whole.slice(0, 0), *parts]))
    assert found.column("prediction").to_pylist() == ours.predict(whole).labels


def test_an_error_names_the_row_of_the_whole_table(ours: Round) -> None:
    spoilt = pa.table({**rows(9, 40), "x1": ["0"] * 39 + ["a secret"]})
    with pytest.raises(NotANumberError, match="column 'x1', data row 140: expected a number") as caught:
        list(ours.predictor().predict_parts([pa.table(rows(9, 100)), spoilt]))
    assert (list(caught.value.rows), caught.value.hint) == ([140], NotANumberError.hint)


def test_rows_that_do_not_fit_may_have_no_prediction(ours: Round) -> None:
    first, second = rows(9, 100), rows(10, 40)
    spoilt = pa.table({**second, "x1": [str(value) for value in second["x1"][:39]] + ["a secret"]})
    spoilt = spoilt.set_column(0, "x0", pa.array([None, *second["x0"][1:39], None]))
    unfit = UnfitRows()
    parts = [pa.table(first).slice(0, 0), pa.table(first), spoilt]
    found = pa.concat_tables(ours.predictor().predict_parts(parts, keep=["x2"], unfit=unfit))
    whole = pa.table(ours.predict(pa.table({name: first[name] + second[name] for name in first})).columns())
    fitting = [number for number in range(140) if number not in (100, 139)]
    assert found.column("x2").to_pylist() == [str(value) for value in first["x2"] + second["x2"]]
    for name in whole.column_names:
        column = found.column(name)
        assert column.is_null().to_pylist() == [number not in fitting for number in range(140)]
        np.testing.assert_array_equal(
            column.take(pa.array(fitting)).to_numpy(), whole.column(name).take(pa.array(fitting)).to_numpy()
        )
    assert (len(unfit), unfit.counts) == (2, {"x0": 2})  # the last row is noted once
    assert unfit.in_words == "column 'x0' in 2 (data row 101, 140)"


def test_a_table_of_which_no_row_fits_is_refused(ours: Round) -> None:
    spoilt = pa.table({**rows(9, 40), "x1": ["a secret"] * 40})
    with pytest.raises(NotANumberError, match="column 'x1', data row 1: expected a number"):
        list(ours.predictor().predict_parts([spoilt.slice(0, 0), spoilt], unfit=UnfitRows()))


def test_a_predictor_needs_no_file_and_nobody_once_it_is_open(consortium: Consortium, ours: Round) -> None:
    predictor, table = ours.predictor(), pa.table(rows(9))
    expected = ours.predict(table).labels
    (ours.directory.path / MODEL_FILE).unlink()
    consortium.hospital.close()
    assert predictor.predict(table).labels == expected
    assert "secret" not in repr(predictor)


def test_there_is_no_predictor_before_the_downlink(consortium: Consortium) -> None:
    consortium.until_contributed()
    with pytest.raises(NotPreparedError, match="odc receive"):
        consortium.hospital_round.predictor()


def test_an_interval_holds_the_share_of_new_rows_that_it_names(consortium: Consortium) -> None:
    ours = of_numbers(consortium)
    ours.evaluate(pa.table(numbers(2, 400)))  # the 100 rows that were kept back
    new = numbers(3, 2000)
    truth = np.array(new["y"])
    for coverage in (0.5, 0.9):
        found = ours.predict(pa.table(new), coverage=coverage)
        assert found.interval is not None
        low, high = found.interval.T
        held = np.mean((low <= truth) & (truth <= high))
        # of 100 errors the quantile varies: three standard deviations of its share
        assert abs(held - coverage) < 3 * (coverage * (1 - coverage) / 100) ** 0.5 + 0.02
        assert (np.array(found.labels) >= low).all()
        assert low.min() >= 0
        assert high.max() <= 100


def test_a_prediction_beyond_the_range_lies_in_its_interval(consortium: Consortium) -> None:
    ours = of_numbers(consortium, 45, 55)
    ours.evaluate(pa.table(numbers(3, 100, 45, 55)))
    found = ours.predict(pa.table({**numbers(3, 400), "x0": np.linspace(-4, 4, 400)}), coverage=0.2)
    assert found.interval is not None
    predicted, (low, high) = np.array(found.labels), found.interval.T
    assert ((predicted < 45) | (predicted > 55)).any()
    assert ((low <= predicted) & (predicted <= high)).all()


def test_labels_beyond_the_range_are_scored_though_none_could_be_sent(consortium: Consortium) -> None:
    ours = of_numbers(consortium, 45, 55)
    new = numbers(3, 200)
    assert min(new["y"]) < 45
    assert max(new["y"]) > 55
    found = ours.evaluate(pa.table(new))
    assert found.rows == 200
    predicted = np.array(ours.predict(pa.table(new)).labels)
    truth = np.array(new["y"])
    r2 = 1 - np.sum((truth - predicted) ** 2) / np.sum((truth - truth.mean()) ** 2)
    assert found.together == pytest.approx(r2, abs=1e-4)
    assert [one.code for one in check_table(ours.terms, pa.table(new)).misfits] == ["label-outside"]


def test_an_open_predictor_takes_the_errors_of_a_later_evaluation(consortium: Consortium) -> None:
    ours, new = of_numbers(consortium), pa.table(numbers(3, 5))
    opened = ours.predictor()
    with pytest.raises(InputError, match="0 are known"):
        opened.predict(new, coverage=0.9)
    widths = []
    for count in (20, 30):
        ours.evaluate(pa.table(numbers(count, count)))
        found, expected = (each.predict(new, coverage=0.9).interval for each in (opened, ours.predictor()))
        assert found is not None
        np.testing.assert_array_equal(found, expected)
        widths.append(np.ptp(found))
    assert widths[0] != widths[1]


def test_an_interval_needs_errors_of_enough_rows(consortium: Consortium) -> None:
    ours = of_numbers(consortium)
    with pytest.raises(InputError, match="at least 9 rows that were not sent; 0 are known") as caught:
        ours.predict(pa.table(numbers(3, 5)), coverage=0.9)
    assert "odc evaluate" in str(caught.value.hint)
    ours.evaluate(pa.table(numbers(3, 9)))
    assert ours.predict(pa.table(numbers(3, 5)), coverage=0.9).interval is not None
    with pytest.raises(InputError, match="at least 19 rows that were not sent; 9 are known"):
        ours.predict(pa.table(numbers(3, 5)), coverage=0.95)
    with pytest.raises(InputError, match=r"an interval of 99\.99% needs"):
        ours.predict(pa.table(numbers(3, 5)), coverage=0.9999)
    with pytest.raises(InputError, match=r"coverage is a number between 0 and 1, such as 0\.9; got '0\.9'"):
        ours.predict(pa.table(numbers(3, 5)), coverage="0.9")  # type: ignore[arg-type]  # as of a form
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            ours.predict(pa.table(numbers(3, 5)), coverage=share)


@pytest.mark.parametrize("latent_dim", [2, 3])
def test_institutions_predict_the_same_of_a_row_where_nothing_of_it_is_dropped(
    latent_dim: int, consortium: Consortium
) -> None:
    consortium.until_released(latent_dim=latent_dim)
    told = []
    for ours in (consortium.lead_round, consortium.hospital_round):
        ours.receive()
        told.append(ours.predict(consortium.table(5)).probabilities)
    apart = float(np.abs(told[0] - told[1]).max())
    assert (apart < 1e-5) == (latent_dim == 3)
