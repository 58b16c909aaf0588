"""Coefficients by original column: those of the model on all rows, with intervals from one's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from analyst_server.training.models import fit_task
from analyst_server.training.ridge import Ridge
from analyst_server.training.tasks import Numbers
from protocol.errors import InputError
from protocol.labels import NumberLabel
from protocol.model_terms import RidgeTerms
from tests.harness.in_process import COLUMNS, Consortium
from tests.harness.nri import NRI
from user_client.errors import ConnectionFailedError
from user_client.sdk import Coefficients, Round
from user_client.sdk.coefficients import LEAST_RISK, covariance_of_weights, weights_of

TRUTH = np.array([1.0, -0.5, 0.0])
"""Of the log-odds, by unit of x0, x1 and x2."""


def told(seed: int, count: int = 300) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    data = np.clip(rng.standard_normal((count, 3)), -4, 4)
    yes = rng.random(count) < 1 / (1 + np.exp(-data @ TRUTH))
    ward = rng.choice(["a", "b", "c"], count)
    return {
        **{name: data[:, i].tolist() for i, name in enumerate(COLUMNS)},
        "ward": ward.tolist(),
        "grade": rng.choice(["low", "mid", "high"], count).tolist(),
        "y": np.where(yes, "yes", "no").tolist(),
    }


def played(consortium: Consortium, **terms: Any) -> Consortium:
    consortium.until_anchored(**{"model": {"kind": "logistic", "inverse_penalty": 1e6}, **terms})
    for party, seed in ((consortium.lead_round, 1), (consortium.hospital_round, 2)):
        party.prepare(pa.table(told(seed)))
        party.contribute()
    consortium.compute()
    for party in (consortium.lead_round, consortium.hospital_round):
        party.receive()
    return consortium


def by_change(found: Coefficients) -> dict[tuple[str, str], Any]:
    return {(each.column, each.change): each for each in found.coefficients}


def test_they_are_those_of_all_rows_in_the_units_of_the_columns(consortium: Consortium) -> None:
    played(consortium)
    tables = [told(1), told(2)]
    data = np.vstack([np.column_stack([table[name] for name in COLUMNS]) for table in tables])
    labels = np.concatenate([table["y"] for table in tables])
    central = LogisticRegression(C=1e6).fit(data, labels)
    chance = central.predict_proba(data)[:, 1]
    ones = np.column_stack([np.ones(len(data)), data])
    errors = np.sqrt(np.diag(np.linalg.inv((ones * (chance * (1 - chance))[:, None]).T @ ones)))[1:]
    for party, own in ((consortium.lead_round, tables[0]), (consortium.hospital_round, tables[1])):
        found = party.coefficients(pa.table(own))
        assert found.scale == "log-odds of y = yes"
        assert [(each.column, each.change) for each in found.coefficients] == [
            (name, "per unit") for name in COLUMNS
        ]
        for each, value, error in zip(found.coefficients, central.coef_[0], errors, strict=True):
            assert each.value == pytest.approx(value, abs=2e-3)
            assert each.error == pytest.approx(error, rel=0.15)  # from half of the rows
            assert each.low is not None
            assert each.high == pytest.approx(each.value + (each.value - each.low))


def test_each_of_three_classes_is_compared_with_the_first(consortium: Consortium) -> None:
    def with_classes(seed: int) -> dict[str, list[Any]]:
        table, rng = told(seed), np.random.default_rng(seed + 50)
        data = np.column_stack([table[name] for name in COLUMNS])
        scores = data @ np.array([[0.0, 1.0, -0.5], [0.0, -0.5, 0.5], [0.0, 0.0, 1.0]])
        drawn = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        return {**table, "y": np.array(["mild", "severe", "well"])[drawn].tolist()}

    columns = [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS]
    label = {"name": "y", "classes": ["mild", "severe", "well"]}
    inverse_penalty = 0.02  # strong: how sure a weight is depends on it
    consortium.until_anchored(
        model={"kind": "logistic", "inverse_penalty": inverse_penalty},
        table_schema={"columns": columns, "label_column": label},
    )
    tables = [with_classes(1), with_classes(2)]
    for party, table in zip((consortium.lead_round, consortium.hospital_round), tables, strict=True):
        party.prepare(pa.table(table))
        party.contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    found = consortium.hospital_round.coefficients(pa.table(tables[1]))
    assert found.scale == "log-odds of each y against mild"
    assert [(each.answer, each.column) for each in found.coefficients] == [
        (name, column) for name in ("severe", "well") for column in COLUMNS
    ]
    data = np.vstack([np.column_stack([table[name] for name in COLUMNS]) for table in tables])
    labels = np.concatenate([table["y"] for table in tables])
    scale = data.std(axis=0).mean()
    central = LogisticRegression(C=inverse_penalty, tol=1e-8).fit(data / scale, labels)
    expected = (central.coef_[1:] - central.coef_[0]) / scale
    values = np.array([each.value for each in found.coefficients]).reshape(2, 3)
    np.testing.assert_allclose(values, expected, atol=5e-3)
    drawn = spread_over_samples(central, data / scale) / scale
    errors = np.array([each.error for each in found.coefficients]).reshape(2, 3)
    np.testing.assert_allclose(errors, drawn, rtol=0.2)  # of 200 samples, and from half of the rows


def spread_over_samples(fitted: LogisticRegression, rows: np.ndarray) -> np.ndarray:
    """How much the weights vary if the classes of all rows are drawn anew from a model."""
    rng, found = np.random.default_rng(9), []
    shares = fitted.predict_proba(rows).cumsum(axis=1)
    for _ in range(200):
        labels = (rng.random((len(rows), 1)) > shares).sum(axis=1)
        again = LogisticRegression(C=fitted.C).fit(rows, labels)
        found.append(again.coef_[1:] - again.coef_[0])
    return np.asarray(np.std(found, axis=0))


def test_a_level_is_compared_with_the_first_and_a_rank_from_end_to_end(consortium: Consortium) -> None:
    columns: list[Any] = [
        {"kind": "ranks", "name": "x0", "quantiles": [-4.0, -1.0, 0.0, 1.0, 4.0]},
        {
            "kind": "range",
            "name": "x1",
            "low": -2,
            "high": 2,
            "centre": 0.5,
            "empty": "centre",
            "missing_share": 0.1,
        },
        {
            "kind": "levels",
            "name": "ward",
            "levels": ["a", "b", "c"],
            "shares": [0.3, 0.3, 0.4],
            "weight": 0.5,
        },
        {"kind": "ordinal", "name": "grade", "levels": ["low", "mid", "high"]},
    ]
    label = {"name": "y", "classes": ["no", "yes"]}
    played(
        consortium,
        terms_schema=2,
        latent_dim=7,
        anchor={"kind": "haar", "rows": 7},
        table_schema={"columns": columns, "label_column": label},
    )
    ours, table = consortium.hospital_round, told(2)
    answer = ours.coefficients(pa.table(table))
    assert "a level that few rows have" in " ".join(answer.notes)
    found = by_change(answer)
    assert list(found) == [
        ("x0", "from the lowest to the highest rank"),
        ("x1", "per unit"),
        ("x1", "empty instead of the middle"),
        ("ward", "b instead of a"),
        ("ward", "c instead of a"),
        ("grade", "high instead of low"),
    ]

    def log_odds(**changed: Any) -> float:
        row = {"x0": 0.0, "x1": 0.0, "ward": "a", "grade": "low", **changed}
        chance = ours.predict(pa.Table.from_pylist([row])).probabilities[0].astype(np.float64)
        return float(np.log(chance[1] / chance[0]))

    for key, difference in {
        ("x0", "from the lowest to the highest rank"): log_odds(x0=4.0) - log_odds(x0=-4.0),
        ("x1", "per unit"): log_odds(x1=1.5) - log_odds(x1=0.5),
        ("x1", "empty instead of the middle"): log_odds(x1=None) - log_odds(x1=0.5),
        ("ward", "b instead of a"): log_odds(ward="b") - log_odds(),
        ("ward", "c instead of a"): log_odds(ward="c") - log_odds(),
        ("grade", "high instead of low"): log_odds(grade="high") - log_odds(),
    }.items():
        assert found[key].value == pytest.approx(difference, abs=2e-4), key


@pytest.mark.parametrize("inverse_penalty", [1.0, 0.01])
def test_errors_of_a_number_are_the_spread_of_the_penalised_weights(inverse_penalty: float) -> None:
    """On the wire a number lies between -1 and 1, so that its errors are far smaller than 1."""
    terms: Any = SimpleNamespace(
        model=RidgeTerms(inverse_penalty=inverse_penalty),
        task="number",
        table_schema=SimpleNamespace(label_column=NumberLabel(name="y", low=-1, high=1)),
    )
    found, stated = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((200, 3)) * [1, 0.5, 0.1]
        labels = (rows @ [0.1, 0.05, -0.1] + 0.08 * rng.standard_normal(200)).clip(-1, 1)
        fitted = fit_task(Ridge(inverse_penalty=inverse_penalty), rows, labels, Numbers())

        def run(some: Any, _output: Any = None, fitted: Any = fitted) -> Any:
            return fitted.predictions(np.asarray(some, np.float64))

        model: Any = SimpleNamespace(run=run)
        found.append(run(np.eye(3))[:, 0] - run(np.zeros((1, 3)))[0, 0])
        (spread,) = covariance_of_weights(terms, model, rows, labels, found[-1][:, None], 200)
        stated.append(np.sqrt(np.diag(spread)))
    np.testing.assert_allclose(np.mean(stated, axis=0) / np.std(found, axis=0), 1, atol=0.2)


def test_a_number_has_coefficients_in_its_own_unit(consortium: Consortium) -> None:
    def with_number(table: dict[str, list[Any]]) -> pa.Table:
        rng = np.random.default_rng(len(table["y"]))
        return pa.table({**table, "y": 50 + 5 * np.array(table["x0"]) + rng.standard_normal(len(table["y"]))})

    label = {"kind": "number", "name": "y", "low": 0, "high": 100}
    columns = [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS]
    consortium.until_anchored(
        terms_schema=2,
        model={"kind": "ridge", "inverse_penalty": 1e6},
        table_schema={"columns": columns, "label_column": label},
    )
    for party, seed in ((consortium.lead_round, 1), (consortium.hospital_round, 2)):
        party.prepare(with_number(told(seed)))
        party.contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    found = consortium.hospital_round.coefficients(with_number(told(2)))
    assert found.scale == "y"
    assert found.coefficients[0].value == pytest.approx(5, abs=0.2)
    assert found.coefficients[0].error == pytest.approx(
        1 / 600**0.5, rel=0.15
    )  # noise of 1, 600 rows of variance 1


def test_what_the_reader_has_to_know_is_said(consortium: Consortium) -> None:
    played(consortium, terms_schema=2, latent_dim=2, dither=0.25)
    ours = consortium.hospital_round
    notes = " ".join(ours.coefficients(pa.table(told(2))).notes)
    for part in ("like those of this table", "2 of 3 directions", "rows with noise", "not what causes it"):
        assert part in notes
    few = ours.coefficients(pa.table(told(2, 20)))
    assert few.notes[0] == "no intervals: 20 rows tell too little of 2 directions; 30 would do"
    assert few.coefficients[0].error is None


def test_a_model_with_class_weights_has_coefficients_and_no_intervals(consortium: Consortium) -> None:
    played(consortium, terms_schema=2, model={"kind": "logistic", "class_weight": "balanced"})
    found = consortium.hospital_round.coefficients(pa.table(told(2)))
    assert found.notes[0].startswith("no intervals: rows that count by their class")
    assert found.coefficients[0].value == pytest.approx(1, abs=0.3)
    assert found.coefficients[0].error is None


def test_without_the_analyst_there_are_no_intervals(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(_: Round) -> Any:
        raise ConnectionFailedError("no route")

    played(consortium)
    monkeypatch.setattr(Round, "report", unreachable)
    found = consortium.hospital_round.coefficients(pa.table(told(2)))
    assert "cannot be reached" in found.notes[0]
    assert found.coefficients[0].low is None


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"model": {"kind": "mlp", "epochs": 1}}, "of the kind mlp has no coefficients"),
        (NRI, "h stays at the analyst"),
    ],
)
def test_a_model_that_is_not_linear_has_none(consortium: Consortium, terms: Any, why: str) -> None:
    played(consortium, **terms)
    with pytest.raises(InputError, match=why):
        consortium.hospital_round.coefficients(pa.table(told(2)))


def test_survival_has_log_hazards(consortium: Consortium) -> None:
    def with_times(seed: int) -> pa.Table:
        table, rng = told(seed), np.random.default_rng(seed + 100)
        times = rng.exponential(np.exp(-np.array(table["x0"])))
        ended = np.minimum(times, 3.0)
        return pa.table({**table, "y": ended, "died": np.where(times < 3.0, "yes", "no")})

    label = {
        "kind": "survival",
        "name": "y",
        "event": "died",
        "seen": "yes",
        "censored": "no",
        "horizon": 4.0,
    }
    columns = [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS]
    consortium.until_anchored(
        terms_schema=2,
        model={"kind": "cox", "inverse_penalty": 1e6},
        table_schema={"columns": columns, "label_column": {**label, "horizon": 4.0, "times": [1.0, 2.0]}},
    )
    for party, seed in ((consortium.lead_round, 1), (consortium.hospital_round, 2)):
        party.prepare(with_times(seed))
        party.contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    found = consortium.hospital_round.coefficients(with_times(2))
    assert found.scale == "log of the hazard of died = yes"
    first = found.coefficients[0]
    assert first.low is not None
    assert first.high is not None
    assert first.low < 1 < first.high  # the truth
    assert first.high - first.low < 0.5


@pytest.mark.parametrize("hazard", [1.0, 1e-2, 1e-4, 3e-6])
def test_weights_are_read_off_survival_or_refused_where_it_has_no_digits_left(hazard: float) -> None:
    weights = np.array([0.7, -0.3, 0.01])

    def run(rows: Any, _output: Any) -> Any:
        return np.exp(-hazard * np.exp(rows @ weights))[:, None].astype(np.float32)

    model: Any = SimpleNamespace(run=run)
    label = SimpleNamespace(model_output="survival")
    terms: Any = SimpleNamespace(task="survival", table_schema=SimpleNamespace(label_column=label))
    if hazard > LEAST_RISK:
        np.testing.assert_allclose(weights_of(model, terms, 3)[:, 0], weights, atol=2e-3)
    else:
        with pytest.raises(InputError, match="too few digits"):
            weights_of(model, terms, 3)


def test_without_intervals_nothing_is_said_of_intervals(consortium: Consortium) -> None:
    columns = [
        *({"kind": "numeric", "name": name, "low": -4, "high": 4} for name in COLUMNS),
        {"kind": "levels", "name": "ward", "levels": ["a", "b", "c"], "shares": [0.3, 0.3, 0.4]},
    ]
    label = {"name": "y", "classes": ["no", "yes"]}
    played(
        consortium,
        table_schema={"columns": columns, "label_column": label},
        latent_dim=5,
        dither=0.1,
        anchor={"kind": "haar", "rows": 6},
    )
    few = consortium.hospital_round.coefficients(pa.table(told(2, count=20)))
    assert few.notes[0].startswith("no intervals: ")
    assert not [note for note in few.notes[1:] if "interval" in note]
    assert "the penalty pulls the coefficient of a level that few rows have towards zero" in few.notes
    many = consortium.hospital_round.coefficients(pa.table(told(2)))
    assert len([note for note in many.notes if "interval" in note]) == 3


def test_what_our_rows_hardly_have_gets_no_interval_and_is_named(consortium: Consortium) -> None:
    played(consortium)
    own = told(1)
    own["x2"] = [0.0] * 295 + [1.0] * 5  # five rows that differ tell nothing of it
    found = consortium.lead_round.coefficients(pa.table(own))
    lows = {each.column: each.low for each in found.coefficients}
    assert lows["x2"] is None
    assert lows["x0"] is not None
    assert (
        "no interval where fewer than 10 rows of this table differ from the others: x2, per unit"
        in found.notes
    )


def test_rows_of_a_model_with_a_penalty_say_that_it_has_one(consortium: Consortium) -> None:
    found = played(consortium).lead_round.coefficients(pa.table(told(1)))
    assert "the model has a penalty, which draws coefficients towards zero" in found.notes
