"""The scores of a report: headline or sentence, both estimates, and the parties' own for the analyst."""

from __future__ import annotations

from typing import Any

import pytest

from analyst_server.pages.scores import score_lines, score_parts
from analyst_server.services.report_answers import Results


def interval(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.02, "high": mean + 0.02}


def estimate(mean: float, **by_party: float) -> dict[str, Any]:
    scores = {party: {"rows": 30, "roc_auc": own, "accuracy": own / 2} for party, own in by_party.items()}
    return {"roc_auc": interval(mean), "accuracy": interval(mean / 2), "by_party": scores}


def results(**changed: Any) -> Results:
    judgement = {
        "within": estimate(0.84, a=0.9, b=0.8),
        "across": estimate(0.8, b=0.7, c=0.6),
        "headline": {"roc_auc": interval(0.84), "accuracy": interval(0.42)},
        "why_none": None,
        "notes": [],
        **changed,
    }
    whole: Any = {"hold_out_scores": None, "judgement": judgement}
    found: Results = whole
    return found


def test_a_headline_and_both_estimates_have_their_intervals() -> None:
    assert score_lines(results(across=None))[:3] == [
        "a member's new rows score ROC-AUC 84.0 (82.0 to 86.0), accuracy 42.0 (40.0 to 44.0)",
        "  rows held out inside the parties   ROC-AUC 84.0 (82.0 to 86.0), accuracy 42.0 (40.0 to 44.0)",
        "  whole parties held out             not scored",
    ]


def test_without_a_headline_one_sentence_says_why() -> None:
    found = results(headline=None, why_none="the rows are too few")
    assert score_lines(found)[0] == "no score of the model can be trusted: the rows are too few"
    assert "<p>no score of the model can be trusted: the rows are too few.</p>" in score_parts(found)


def test_a_private_model_has_one_line_more() -> None:
    found = results(headline=None, why_none="the model is private")
    assert not any("epsilon" in line for line in score_lines(found))
    found["model_privacy"] = {
        "epsilon": 3.0,
        "delta": 1e-5,
        "steps": 100,
        "sampling_rate": 0.25,
        "clip": 1.0,
        "noise_multiplier": 5.04,
    }
    line = (
        "the model is differentially private towards those who get it: epsilon 3, delta 1e-05, by 100 steps"
        " of gradient descent with a noise multiplier of 5.04, each on 25.0% of the rows"
    )
    assert line in score_lines(found)
    assert f"<p>{line}.</p>" in score_parts(found)


def test_every_candidate_of_a_choice_has_its_line() -> None:
    found = results()
    assert not any("chosen" in line for line in score_lines(found))
    scored: Any = {"mean": 0.842, "spread": 0.0134, "folds": 5, "why_none": None}
    none: Any = {"mean": None, "spread": None, "folds": 0, "parameters": None}
    choice: Any = {
        "chosen": "logistic",
        "rule": "the best",
        "folds": "5 parties",
        "metric": "roc_auc",
        "scored_parties": 5,
        "candidates": [
            {"name": "logistic", "parameters": 1234, **scored},
            {"name": "mlp, epochs 7", "why_none": "the time was over", **none},
        ],
    }
    found["choice"] = choice
    lines = [
        "the model is logistic, chosen of 2: the best; compared on: 5 parties",
        "  logistic: ROC-AUC 84.2, spread 1.3 over 5 folds, 1,234 parameters (chosen)",
        "  mlp, epochs 7: the time was over",
    ]
    assert score_lines(found)[-3:] == lines
    assert [f"<p>{line.strip()}.</p>" for line in lines] == [
        part for part in score_parts(found) if "logistic" in part or "mlp" in part
    ]


def test_every_party_that_was_scored_has_its_line_for_the_analyst() -> None:
    assert [" ".join(line.split()) for line in score_lines(results())[3:]] == [
        "a within ROC-AUC 90.0, accuracy 45.0, 30 rows; across not scored",
        "b within ROC-AUC 80.0, accuracy 40.0, 30 rows; across ROC-AUC 70.0, accuracy 35.0, 30 rows",
        "c within not scored; across ROC-AUC 60.0, accuracy 30.0, 30 rows",
    ]


def test_the_calibration_has_its_means_and_its_tables() -> None:
    bins = [
        {"rows": 60, "predicted": 0.11, "observed": 0.22},
        {"rows": 40, "predicted": 0.6, "observed": 0.5},
    ]
    table: Any = {"bins": bins, "ece": 0.106, "ece_by_chance": 0.034}
    found = estimate(0.84, a=0.9, b=0.8)
    found |= {"ece": interval(0.1), "calibration_slope": None, "calibration_intercept": interval(0.3)}
    found["calibration"] = table
    own = {"ece": 0.07, "calibration_slope": 1.25, "calibration_intercept": None, "calibration": table}
    found["by_party"]["a"] |= own
    found["by_party"]["b"] |= dict.fromkeys(own)
    shown = results(within=found, across=None)
    assert [" ".join(line.split()) for line in score_lines(shown)[5:]] == [
        "rows held out inside the parties calibration error 0.100 (0.080 to 0.120),"
        " calibration intercept 0.300 (0.280 to 0.320)",
        "calibration error of all 100 scored rows together 0.106; probabilities that are right would have"
        " about 0.034 on as many",
        "predicted (observed) share: 0.110 (0.220), 0.600 (0.500)",
    ]
    page = "".join(score_parts(shown))
    for words in (
        "0.300 (0.280 to 0.320)",
        "calibration error of all 100 scored rows together 0.106",
        "<td>60</td><td>0.110</td><td>0.220</td>",
        "a, within",
        "<td>0.070</td><td>1.250</td><td></td><td>0.034</td><td>0.110 (0.220), 0.600 (0.500)</td>",
    ):
        assert words in page
    assert "b, within" not in page
    for_member = results(within={**found, "by_party": {}, "calibration": None}, across=None)
    assert not any("0.110" in line for line in [*score_lines(for_member), *score_parts(for_member)])


def test_the_page_says_what_the_lines_say() -> None:
    page = "".join(score_parts(results(notes=["the rows of c could not be held out: too few"])))
    for words in ("84.0 (82.0 to 86.0)", "90.0", "45.0", "the rows of c could not be held out: too few."):
        assert words in page


@pytest.mark.parametrize("part", [score_lines, score_parts])
def test_a_member_sees_no_table_of_parties(part: Any) -> None:
    shown = "\n".join(part(results(within=estimate(0.84), across=estimate(0.8))))
    assert "84.0" in shown
    assert "own rows" not in shown
    assert "30 rows" not in shown
