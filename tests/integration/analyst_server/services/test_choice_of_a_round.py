"""A choice among models in a round: what comes of it, and what the analyst and a member are shown of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from analyst_server.compute.sequence import compute_round
from analyst_server.pages.report import report_page, report_text
from analyst_server.services import report, rounds
from protocol.anchor_terms import AnchorTerms
from protocol.model_terms import AutoTerms, LogisticTerms, RandomForestTerms
from tests.harness.computing import claim, fetch, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

MODEL = AutoTerms(candidates=(RandomForestTerms(trees=10), LogisticTerms()))
NRI: dict[str, Any] = {"anchor": AnchorTerms(kind="gaussian", rows=20), "downlink": "anchor-predictions"}


def released(world: World, lead: Any = None, hospital: Any = None, **changes: Any) -> Any:
    """Release a round of two parties, whose labels may be replaced; return what both are shown."""
    world.until_anchored(make_terms(model=MODEL, **changes))
    for seed, (party, labels) in enumerate({LEAD: lead, HOSPITAL: hospital}.items()):
        arrays = {} if labels is None else {"labels": labels.astype("<u1")}
        world.send(make_uplink(world.terms, party, rows=200, seed=seed, arrays=arrays))
    claim(world)
    finish(world)
    return (
        report.for_operator(world.analyst, world.id),
        report.for_member(world.analyst, identity(HOSPITAL), world.id),
    )


def test_analyst_and_member_are_shown_every_candidate_and_the_rule(world: World) -> None:
    for found in released(world):
        choice = found["results"]["choice"]
        assert [one["name"] for one in choice["candidates"]] == ["random-forest, trees 10", "logistic"]
        assert all(0.5 < one["mean"] <= 1 and one["folds"] == 5 for one in choice["candidates"])
        for text in (report_text(found), report_page(found)):
            assert f"the model is {choice['chosen']}, chosen of 2: the first, in the order" in text
            assert "random-forest, trees 10: ROC-AUC " in text


def test_no_score_of_a_fold_or_a_party_is_kept(world: World) -> None:
    """A mean and a spread for each candidate, with how many folds and parameters."""
    for found in released(world):
        choice = found["results"]["choice"]
        assert set(choice) == {"chosen", "rule", "folds", "metric", "scored_parties", "candidates"}
        for one in choice["candidates"]:
            assert set(one) == {"name", "mean", "spread", "folds", "parameters", "why_none"}


def test_the_scores_of_one_party_alone_are_not_shown_to_a_member(world: World) -> None:
    for_analyst, for_member = released(world, hospital=np.zeros(200))
    assert for_analyst["results"]["choice"]["scored_parties"] == 1
    assert all(one["mean"] > 0.5 for one in for_analyst["results"]["choice"]["candidates"])
    for one in for_member["results"]["choice"]["candidates"]:
        assert (one["mean"], one["spread"]) == (None, None)
        assert "only one party could be scored" in one["why_none"]
    assert "only one party could be scored" in report_text(for_member)


def test_members_that_erase_their_bases_get_predictions_of_the_chosen_model(world: World) -> None:
    for_analyst, _ = released(world, **NRI)
    assert for_analyst["results"]["choice"]["chosen"]
    _, arrays = fetch(world, HOSPITAL)
    predictions = np.frombuffer(arrays[0], "<f4").reshape(20, 2)
    np.testing.assert_allclose(predictions.sum(axis=1), 1, atol=1e-5)


def test_the_same_round_makes_the_same_choice(world: World) -> None:
    """As long as there is time."""
    world.until_sealed(make_terms(model=MODEL))
    one, other = (
        compute_round(rounds.spec_of(world.analyst, world.id), world.analyst.blobs).as_json()
        for _ in range(2)
    )
    assert one == other
    assert "choice" in one
