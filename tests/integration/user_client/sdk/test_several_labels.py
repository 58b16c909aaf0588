"""A round of several labels: coefficients, scores, what members are shown, tables without labels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from analyst_server.services import latecomers
from analyst_server.services.report import for_operator
from protocol.errors import InputError
from tests.harness.in_process import COLUMNS, HOSPITAL, Consortium, draft
from user_client.sdk import Round
from user_client.service.content import ModelAnswer, answers

LABELS = ("ill", "fell")
WEIGHTS = np.array([[1.0, -0.5, 0.0], [0.0, 0.8, 1.2]]).T
TERMS: dict[str, Any] = {
    "terms_schema": 2,
    "table_schema": {
        "columns": draft()["table_schema"]["columns"],
        "label_column": {
            "kind": "multilabel",
            "labels": [
                {"name": "ill", "absent": "0", "present": "1"},
                {"name": "fell", "absent": "never", "present": "once"},
            ],
        },
    },
    "model": {"kind": "logistic", "inverse_penalty": 1e6},
    "hold_out": 0.25,
    "returns_scores": True,
}


def table(seed: int, count: int = 300, *, fell: bool = True) -> pa.Table:
    rng = np.random.default_rng(seed)
    data = np.clip(rng.standard_normal((count, 3)), -4, 4)
    has = rng.random((count, 2)) < 1 / (1 + np.exp(-data @ WEIGHTS))
    columns = {name: data[:, i] for i, name in enumerate(COLUMNS)}
    return pa.table(
        {**columns, "ill": has[:, 0].astype(int), "fell": np.where(has[:, 1] & fell, "once", "never")}
    )


def played(consortium: Consortium, *, fell: bool = True, **terms: Any) -> Round:
    consortium.until_anchored(**{**TERMS, **terms})
    for party, given in (
        (consortium.lead_round, table(1)),
        (consortium.hospital_round, table(2, fell=fell)),
    ):
        party.prepare(given)
        party.contribute()
    consortium.compute()
    for party in (consortium.lead_round, consortium.hospital_round):
        party.receive()
    return consortium.hospital_round


def test_every_label_has_coefficients(consortium: Consortium) -> None:
    ours = played(consortium, hold_out=0.0)
    found = ours.coefficients(table(2))
    assert found.scale == "log-odds of each of ill = 1, fell = once"
    whole = pa.concat_tables([table(1), table(2)])
    data = np.column_stack([whole.column(name).to_numpy() for name in COLUMNS])
    for name, present in zip(LABELS, (1, "once"), strict=True):
        has = np.array(whole.column(name).to_pylist()) == present
        central = LogisticRegression(C=1e6).fit(data, has)
        chance = central.predict_proba(data)[:, 1]
        ones = np.column_stack([np.ones(len(data)), data])
        errors = np.sqrt(np.diag(np.linalg.inv((ones * (chance * (1 - chance))[:, None]).T @ ones)))[1:]
        mine = [each for each in found.coefficients if each.answer == name]
        assert [each.column for each in mine] == list(COLUMNS)
        np.testing.assert_allclose([each.value for each in mine], central.coef_[0], atol=2e-3)
        np.testing.assert_allclose([float(each.error or 0) for each in mine], errors, rtol=0.15)


def test_a_label_that_our_rows_do_not_have_is_learnt_from_the_others(consortium: Consortium) -> None:
    ours = played(consortium, fell=False)
    found = ours.evaluate(table(9))
    alone, together = (found.by_label["fell"][name] for name in ("alone", "together"))
    assert alone == 0.5, "a model of rows without it says the same of every row"
    assert together is not None
    assert together > 0.75
    assert ours.evaluation == found


def test_scores_of_each_label_stay_here_and_the_mean_may_be_sent(consortium: Consortium) -> None:
    ours = played(consortium)
    found = ours.evaluate(table(2), send=True)
    assert found.kept_back
    scores = [found.by_label[name]["together"] for name in LABELS]
    assert found.together == pytest.approx(np.mean(scores))  # type: ignore[arg-type]  # both have a score
    (shown,) = consortium.lead_round.report()["member_scores"]
    assert set(shown) == {"party", "received_at", *found.score}
    assert json.loads(json.dumps(found.to_json()))["by_label"] == found.by_label


def test_a_label_that_one_party_alone_can_score_is_not_shown_to_members(consortium: Consortium) -> None:
    played(consortium, fell=False)
    shown = consortium.lead_round.report()["results"]
    assert shown is not None
    within: Any = shown["judgement"]["within"]
    assert set(within["labels"]) == {"ill"}
    assert within["by_party"] == {}
    for estimate in (within, shown["judgement"]["across"], shown["judgement"]["headline"]):
        known = {*(estimate or {})}
        assert not {"roc_auc", "pr_auc"} & known, "with the score of ill, the mean would tell that of fell"
    assert not {"roc_auc", "pr_auc"} & {*(shown["hold_out_scores"] or {})}
    whole: Any = for_operator(consortium.analyst, consortium.id)["results"]
    assert set(whole["judgement"]["within"]["labels"]) == {"ill", "fell"}
    assert "roc_auc" in whole["judgement"]["within"]


def test_a_table_without_labels_is_predicted_and_served(consortium: Consortium) -> None:
    ours = played(consortium)
    predictor = ours.predictor()
    found = predictor.predict(table(9, 20).drop_columns(list(LABELS)))
    assert found.names == LABELS
    assert set(found.labels[0]) == set(LABELS)
    answer = answers(found)[0]
    assert answer.prediction == found.labels[0]
    assert list(answer.probabilities or {}) == list(LABELS)
    about = ModelAnswer.of(predictor.terms, predictor.schema, predictor.kind)
    assert (about.task, about.labels, about.classes) == ("multilabel", ["ill", "fell"], None)
    wary = predictor.predict(table(9, 200), thresholds={"fell": 1e-6})  # what every row reaches
    assert {row["fell"] for row in wary.labels} == {"once"}
    with pytest.raises(InputError, match="a threshold is for one of ill, fell"):
        predictor.predict(table(9, 20), thresholds={"never": 0.5})
    with pytest.raises(InputError, match="an interval is for a number"):
        predictor.predict(table(9, 20), coverage=0.9)


def test_a_late_consumer_predicts_every_label(consortium: Consortium) -> None:
    consortium.until_anchored(**TERMS, late_consumers=[HOSPITAL])
    consortium.lead_round.prepare(table(1))
    consortium.lead_round.contribute()
    consortium.compute()
    late = consortium.hospital_round
    late.prepare(table(2).drop_columns(list(LABELS)))
    late.contribute()
    uplink = latecomers.claim(consortium.analyst, "worker", 10)
    assert uplink is not None
    latecomers.compute(consortium.analyst, uplink, "worker")
    late.receive()
    consortium.lead_round.receive()
    mine, theirs = (party.predict(table(9)) for party in (late, consortium.lead_round))
    np.testing.assert_allclose(mine.probabilities, theirs.probabilities, atol=1e-4)
