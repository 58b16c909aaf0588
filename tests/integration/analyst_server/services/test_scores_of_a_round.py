"""The scores of a round, from the uplinks to what the analyst and a member are shown."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from analyst_server.compute.trained import scores_as_json
from analyst_server.pages.report import report_page, report_text
from analyst_server.services import report
from analyst_server.services.analyst import find
from analyst_server.training import judging
from analyst_server.training.groups import Grouping
from analyst_server.training.logistic import Logistic
from analyst_server.training.tasks import Classes
from protocol.messages import PrivacyRecord
from tests.harness.computing import claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_uplink

ROWS = 300
FIGURES = ("roc_auc", "pr_auc", "accuracy", "brier", "ece", "calibration_slope", "calibration_intercept")


def released(world: World, privacy: PrivacyRecord | None = None, **labels: Any) -> World:
    """Release a round of two parties; ``lead`` and ``hospital`` replace their labels."""
    world.until_anchored()
    shape = world.terms.anchor.rows, world.terms.latent_dim
    anchor_rep = np.linalg.qr(np.random.default_rng(9).standard_normal(shape))[0].astype("<f4")
    for party, seed in ((LEAD, 0), (HOSPITAL, 1)):
        arrays = {"anchor_rep": anchor_rep}  # of one basis, so that a party can be judged by the other's rows
        if party.split("-")[0] in labels:
            arrays["labels"] = labels[party.split("-")[0]].astype("<u1")
        world.send(
            make_uplink(
                world.terms, party, rows=ROWS, seed=seed, arrays=arrays, privacy=privacy or PrivacyRecord()
            )
        )
    claim(world)
    finish(world)
    return world


def shown(world: World) -> tuple[Any, Any]:
    """Return what the analyst and what a member is shown."""
    for_analyst: Any = report.for_operator(world.analyst, world.id)
    for_member: Any = report.for_member(world.analyst, identity(HOSPITAL), world.id)
    return for_analyst, for_member


def test_a_headline_with_both_estimates_and_every_party(world: World) -> None:
    for_analyst, _ = shown(released(world))
    found = for_analyst["results"]["judgement"]
    assert found["why_none"] is None
    for way in ("within", "across"):
        assert set(found[way]["by_party"]) == {LEAD, HOSPITAL}
        assert 0.9 < found[way]["roc_auc"]["mean"] <= found[way]["roc_auc"]["high"]
    names = [name for name in FIGURES if found["within"][name] is not None]
    assert set(FIGURES) - set(names) <= {"calibration_slope"}  # classes that hardly overlap have none
    assert found["headline"] == {name: found["within"][name] for name in names}
    assert for_analyst["results"]["hold_out_scores"] == {
        name: interval["mean"] for name, interval in found["headline"].items()
    }
    assert "a member's new rows score ROC-AUC 9" in report_text(for_analyst)
    assert "Each party&#39;s own rows" in report_page(for_analyst)


@pytest.mark.parametrize(
    "privacy", [PrivacyRecord(dither=0.5), PrivacyRecord(epsilon=1.0, delta=1e-6, clip=1.0)]
)
def test_rows_with_noise_get_estimates_and_no_headline(world: World, privacy: PrivacyRecord) -> None:
    for found in shown(released(world, privacy)):
        assert found["results"]["hold_out_scores"] is None
        assert found["results"]["judgement"]["within"] is not None
        assert "the rows were sent with noise" in report_text(found)
        assert "the rows were sent with noise" in report_page(found)


def test_a_member_is_shown_the_means_and_no_partys_scores(world: World) -> None:
    for_analyst, for_member = (found["results"]["judgement"] for found in shown(released(world)))
    assert for_member["headline"] == for_analyst["headline"]
    for way in ("within", "across"):
        assert for_member[way] == {**for_analyst[way], "by_party": {}, "calibration": None}


def test_the_mean_of_one_party_is_not_shown_to_a_member(world: World) -> None:
    """It would be that party's score."""
    for_analyst, for_member = shown(released(world, hospital=np.zeros(ROWS)))
    assert list(for_analyst["results"]["judgement"]["within"]["by_party"]) == [LEAD]
    found = for_member["results"]["judgement"]
    assert (found["within"], found["headline"], for_member["results"]["hold_out_scores"]) == (
        None,
        None,
        None,
    )
    assert "only one party could be scored" in report_text(for_member)


@pytest.mark.parametrize(("scored", "is_shown"), [((400, 400, 400), True), ((400, 8, 400), False)])
def test_one_model_for_all_is_shown_where_it_differs_for_several_parties(
    world: World, scored: tuple[int, ...], is_shown: bool
) -> None:
    """Two means of the same parties that differ for one of them alone would tell its own score."""
    sizes = np.array(scored)
    senders = np.repeat([0, 1, 2], sizes)
    labels = np.concatenate(
        [np.arange(size) < share * size for size, share in zip(sizes, (0.2, 0.2, 0.7), strict=True)]
    )
    rows = np.random.default_rng(0).normal(size=(len(labels), 3)) + 0.4 * (2 * labels[:, None] - 1)
    judged = judging.judge(
        Logistic(), rows, labels.astype(np.int64), Classes(2), senders, list("abc"), grouping=Grouping(0.1)
    )
    assert judged.one_for_all is not None
    released(world)
    with world.analyst.records.begin(write=True) as unit:
        row = find(unit, world.id)
        row.results = {**(row.results or {}), **scores_as_json(judged.as_json())}
    for_analyst, for_member = (found["results"]["judgement"] for found in shown(world))
    assert for_analyst["one_for_all"]["by_party"]
    assert bool(for_member["one_for_all"]) is is_shown
    assert is_shown is False or for_member["one_for_all"]["by_party"] == {}


def test_one_class_per_party_gives_a_sentence_instead_of_a_score(world: World) -> None:
    for found in shown(released(world, lead=np.zeros(ROWS), hospital=np.ones(ROWS))):
        assert found["results"]["hold_out_scores"] is None
        said = "no score of the model can be trusted: 2 of 2 parties sent rows of one class only"
        assert said in report_text(found)
        assert said in report_page(found)


def test_nothing_of_a_single_row_is_kept(world: World) -> None:
    def numbers(value: Any) -> int:
        if isinstance(value, dict):
            return sum(map(numbers, value.values()))
        if isinstance(value, bool):
            return 0
        return sum(map(numbers, value)) if isinstance(value, list) else isinstance(value, int | float)

    def tables(value: Any) -> list[Any]:
        if not isinstance(value, dict):
            return []
        return (
            [value["bins"]] if "bins" in value else [one for part in value.values() for one in tables(part)]
        )

    for_analyst, _ = shown(released(world))
    judgement = for_analyst["results"]["judgement"]
    bins = [line for table in tables(judgement) for line in table]
    figures = sum(
        3 * numbers_of(judgement[way])
        + sum(1 + numbers_of(one) for one in judgement[way]["by_party"].values())
        for way in ("within", "across")
    )
    # no number of rows in it, but those of the tables: three in a line, and two errors
    expected = figures + 3 * numbers_of(judgement["headline"]) + 3 * len(bins) + 2 * 6
    assert numbers(judgement) == expected
    assert min(line["rows"] for line in bins) >= 20
    assert len(bins) == 6 * 10


def numbers_of(scores: Any) -> int:
    """Return how many figures some scores have."""
    return sum(scores.get(name) is not None for name in FIGURES)


def test_a_figure_that_one_party_alone_has_is_not_shown_to_a_member(world: World) -> None:
    """Its mean would be that party's."""
    rare = np.arange(ROWS) < 15
    released(world, hospital=rare.astype(np.int64))
    with world.records.begin(write=True) as unit:
        row = unit.collaboration(world.id)
        assert row is not None
        assert row.results is not None
        judgement = row.results["judgement"]
        within = judgement["within"]
        assert within["by_party"][HOSPITAL]["calibration_intercept"] is None
        assert within["calibration_intercept"] is not None
        headline = {name: within[name] for name in FIGURES if within[name] is not None}
        scores = {name: interval["mean"] for name, interval in headline.items()}
        row.results = {
            **row.results,
            "judgement": {**judgement, "headline": headline, "why_none": None},
            "hold_out_scores": scores,
        }
    for_analyst, for_member = (found["results"] for found in shown(world))
    assert for_analyst["hold_out_scores"] == scores
    own = for_member["judgement"]
    assert own["within"]["calibration_intercept"] is None
    assert own["within"]["ece"] == for_analyst["judgement"]["within"]["ece"]
    for kept in (own["headline"], for_member["hold_out_scores"]):
        assert "calibration_intercept" not in kept
        assert {"roc_auc", "pr_auc", "ece"} <= set(kept)


def test_a_round_is_released_though_judging_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_given: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(judging, "fit_groups", broken)
    for_analyst, _ = shown(released(world))
    assert for_analyst["state"] == "released"
    assert "judging failed (RuntimeError)" in report_text(for_analyst)


@pytest.mark.parametrize("scores", [{"accuracy": 0.9, "roc_auc": 0.995}, None])
def test_a_round_of_an_earlier_version_is_still_shown(world: World, scores: Any) -> None:
    released(world)
    with world.records.begin(write=True) as unit:
        row = unit.collaboration(world.id)
        assert row is not None
        assert row.results is not None
        kept = {name: value for name, value in row.results.items() if name != "judgement"}
        row.results = {**kept, "hold_out_scores": scores}
    for found in shown(world):
        assert json.loads(json.dumps(found["results"]))["hold_out_scores"] == scores
        for text in (report_text(found), report_page(found)):
            assert ("roc_auc 0.995" if scores else "too few to score") in text
