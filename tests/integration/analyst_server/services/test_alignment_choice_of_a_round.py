"""A choice among alignments in a round: what comes of it, who gets it, and what is shown of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analyst_server.compute.sequence import RoundResult, compute_round
from analyst_server.pages.report import report_page, report_text
from analyst_server.services import latecomers, report, rounds
from analyst_server.training import choosing
from analyst_server.training.alignments import Alignments
from protocol.alignment_terms import AlignmentMethod, AlignmentTerms, AutoAlignmentTerms
from protocol.anchor_terms import AnchorTerms
from protocol.errors import ConsentMissingError
from protocol.labels import Label
from protocol.model_terms import AutoTerms, LogisticTerms, RandomForestTerms
from protocol.table_schema import NumericColumn, Schema
from protocol.terms import Terms
from tests.harness.computing import LEASE_S, OWNER, claim, fetch, finish
from tests.harness.problems import TERMS, Matrix, haar, unlike_the_first
from tests.harness.world import LEAD, World, identity, make_terms, make_uplink

SENDERS = (LEAD, "hospital-a", "hospital-b", "hospital-c", "hospital-d")
LATE = "late-hospital"
NRI: dict[str, Any] = {
    "anchor": AnchorTerms(kind="gaussian", rows=120),
    "downlink": "anchor-predictions",
}
NAMES: tuple[AlignmentMethod, ...] = ("odc", "isotropic", "gopp", "imakura")


def terms_of(candidates: tuple[AlignmentMethod, ...] = NAMES, **changed: Any) -> Terms:
    columns = tuple(NumericColumn(name=f"x{index}", low=-1, high=1) for index in range(60))
    return make_terms(
        **{
            "parties": (*SENDERS, LATE),
            "late_consumers": (LATE,),
            "table_schema": Schema(columns=columns, label_column=Label(name="y", classes=("no", "yes"))),
            "latent_dim": 10,
            "rep_dtype": "f8",
            "anchor": AnchorTerms(kind="haar", rows=60),
            "alignment": AutoAlignmentTerms(candidates=candidates),
            **changed,
        }
    )


def anchor(kind: str = "haar") -> Matrix:
    rng = np.random.default_rng(1)
    return haar(60, rng) if kind == "haar" else np.asarray(rng.standard_normal((120, 60)))


def anchor_of(world: World) -> Matrix:
    return anchor(world.terms.anchor.kind)


def late_basis() -> Matrix:
    """Return a basis of the span of the second party."""
    return unlike_the_first(0)[0][1] @ haar(10, np.random.default_rng(2))


def sealed(world: World, terms: Terms | None = None, one_class: tuple[str, ...] = ()) -> World:
    world.until_anchored(terms or terms_of())
    for party, basis, table, labels in zip(SENDERS, *unlike_the_first(0), strict=True):
        sent = {
            "rep": table @ basis,
            "anchor_rep": anchor_of(world) @ basis,
            "labels": (0 * labels if party in one_class else labels).astype("<u1"),
        }
        world.send(make_uplink(world.terms, party, rows=len(table), arrays=sent))
    return world


def computed(world: World) -> RoundResult:
    return compute_round(rounds.spec_of(world.analyst, world.id), world.analyst.blobs)


def released(world: World, terms: Terms | None = None, **options: Any) -> World:
    claim(sealed(world, terms, **options))
    finish(world)
    return world


def change_of(world: World, party: str) -> Matrix:
    manifest, (change, _) = fetch(world, party)
    return np.frombuffer(change, "<" + manifest.change_of_basis.dtype).reshape(manifest.change_of_basis.shape)


def shown(world: World) -> tuple[Any, Any]:
    """Return the report for the analyst, and that for a member."""
    return (
        report.for_operator(world.analyst, world.id),
        report.for_member(world.analyst, identity(LEAD), world.id),
    )


def test_the_method_that_aligns_to_an_unlike_party_is_not_chosen(world: World) -> None:
    found = computed(sealed(world))
    assert found.alignment.method in ("isotropic", "gopp", "imakura")
    choice = found.as_json()["alignment_choice"]
    means = {one["name"]: one["mean"] for one in choice["candidates"]}
    assert list(means) == list(NAMES)
    assert choice["chosen"] == found.alignment.method
    assert means[choice["chosen"]] > means["odc"] + 0.1
    assert (choice["scored_by"], choice["folds"]) == ("logistic", "5 parties, each left out in turn")


def test_everybody_gets_what_the_chosen_method_alone_gives(world: World) -> None:
    sealed(world)
    spec, blobs = rounds.spec_of(world.analyst, world.id), world.analyst.blobs
    chosen = compute_round(spec, blobs)
    method: Any = chosen.alignment.method
    named = replace(spec, alignment=AlignmentTerms(method=method), folder=f"{world.id}/work-named")
    alone = compute_round(named, blobs)
    for one, other in (
        (chosen.alignment.changes_of_basis, alone.alignment.changes_of_basis),
        (chosen.alignment.target, alone.alignment.target),
        (chosen.model.onnx_file, alone.model.onnx_file),
    ):
        assert one is not None
        assert other is not None
        np.testing.assert_array_equal(one.open(blobs), other.open(blobs))
    assert chosen.alignment.agreement == alone.alignment.agreement


@pytest.mark.parametrize("changed", [{}, NRI], ids=["change of basis", "predictions"])
def test_a_late_consumer_is_aligned_by_the_chosen_method(world: World, changed: dict[str, Any]) -> None:
    """Least squares give no orthogonal matrices here, and the other candidate does."""
    released(world, terms_of(("imakura", "odc"), **changed))
    assert world.row().kept["method"] == "imakura"  # type: ignore[index]  # a dict once released
    sent = {
        "rep": np.empty((0, 10)),
        "anchor_rep": anchor_of(world) @ late_basis(),
        "labels": np.empty(0, "<u1"),
    }
    world.send(make_uplink(world.terms, LATE, rows=0, arrays=sent))
    uplink = latecomers.claim(world.analyst, OWNER, LEASE_S)
    assert uplink is not None
    latecomers.compute(world.analyst, uplink, OWNER)
    if changed:
        own, second = (np.frombuffer(fetch(world, party)[1][0], "<f4") for party in (LATE, SENDERS[1]))
    else:
        own, second = (
            late_basis() @ change_of(world, LATE),
            unlike_the_first(0)[0][1] @ change_of(world, SENDERS[1]),
        )
    np.testing.assert_allclose(own, second, atol=1e-5)


def test_a_round_of_an_earlier_version_has_the_method_of_its_terms(world: World) -> None:
    released(world, terms_of(alignment=AlignmentTerms(method="gopp")))
    with world.records.begin(write=True) as unit:
        collaboration = unit.collaboration(world.id)
        assert collaboration is not None
        kept = dict(collaboration.kept or {})
        assert kept.pop("method") == "gopp"
        collaboration.kept = kept
    sent = {
        "rep": np.empty((0, 10)),
        "anchor_rep": anchor_of(world) @ late_basis(),
        "labels": np.empty(0, "<u1"),
    }
    uplink = make_uplink(world.terms, LATE, rows=0, arrays=sent)
    world.send(uplink)
    claimed = latecomers.claim(world.analyst, OWNER, LEASE_S)
    assert claimed is not None
    assert latecomers.spec_of(world.analyst, claimed).method == "gopp"


def test_analyst_and_member_are_shown_every_candidate_and_the_rule(world: World) -> None:
    for found in shown(released(world)):
        choice = found["results"]["alignment_choice"]
        assert found["alignment"] == "auto"
        assert [one["name"] for one in choice["candidates"]] == list(NAMES)
        assert all(0.5 < one["mean"] <= 1 and one["spread"] >= 0 for one in choice["candidates"])
        for text in (report_text(found), report_page(found)):
            assert (
                f"the alignment is {choice['chosen']}, chosen of 4 by the scores of logistic: the first"
                in text
            )
            assert "imakura: ROC-AUC " in text


def test_the_scores_of_one_party_alone_are_not_shown_to_a_member(world: World) -> None:
    for_analyst, for_member = shown(released(world, one_class=SENDERS[:1] + SENDERS[2:]))
    assert for_analyst["results"]["alignment_choice"]["scored_parties"] == 1
    assert all(one["mean"] > 0 for one in for_analyst["results"]["alignment_choice"]["candidates"])
    for one in for_member["results"]["alignment_choice"]["candidates"]:
        assert (one["mean"], one["spread"]) == (None, None)
        assert "only one party could be scored" in one["why_none"]


def test_a_round_whose_terms_name_the_method_tells_of_no_choice(world: World) -> None:
    for found in shown(released(world, terms_of(alignment=AlignmentTerms(method="odc")))):
        assert "alignment_choice" not in found["results"]
        assert "the alignment is" not in report_text(found)


def test_alignment_and_model_are_both_chosen_and_both_told(world: World) -> None:
    """The alignment by the scores of the first model, along the axes that another one needs."""
    both = AutoTerms(candidates=(LogisticTerms(epochs=50), RandomForestTerms(trees=5)))
    found, _ = shown(released(world, terms_of(("odc", "gopp"), model=both)))
    results = found["results"]
    assert results["alignment_choice"]["scored_by"] == "logistic, epochs 50"
    assert results["alignment_choice"]["chosen"] == "gopp"
    assert results["choice"]["chosen"].startswith("logistic")
    assert results["judgement"]["within"]["roc_auc"]["mean"] > 0.75


def test_every_fit_for_judging_chooses_the_alignment_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five parts of every party's rows, and five parties: none of them has a say in what predicts it."""
    chose: list[int] = []

    def watched(self: Alignments, among: Matrix, labels: Matrix, task: Any) -> Any:
        chose.append(int((~among).sum()))
        return chosen_by(self, among, labels, task)

    chosen_by = Alignments.chosen_by
    monkeypatch.setattr(Alignments, "chosen_by", watched)
    released(world, terms_of(("odc", "gopp")))
    assert chose[5:] == [100, 80, 80, 80, 80]
    assert sum(chose[:5]) == 420


def test_the_same_round_makes_the_same_choice(world: World) -> None:
    """As long as there is time."""
    sealed(world, terms_of(("odc", "gopp")))
    one, other = (computed(world).as_json() for _ in range(2))
    assert one == other


def test_without_time_the_first_is_taken_and_nothing_else_is_aligned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(world, terms_of(("gopp", "odc", "imakura")))
    ticks = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(Alignments.choice, "__kwdefaults__", {"clock": lambda: next(ticks)})
    found = computed(world)
    assert list(found.alignment.compared) == ["gopp"]
    assert found.alignment.method == "gopp"
    assert {one["why_none"] for one in found.as_json()["alignment_choice"]["candidates"]} == {
        None,
        choosing.NO_TIME,
    }


def test_a_party_that_no_candidate_can_align_is_named(world: World) -> None:
    terms = terms_of(("odc", "gopp"))
    world.until_anchored(terms)
    for number, (party, basis) in enumerate(zip(SENDERS, unlike_the_first(0)[0], strict=True)):
        sent = {"anchor_rep": (1e-20 if number == 3 else 1.0) * anchor() @ basis}
        world.send(make_uplink(terms, party, seed=number, arrays=sent))
    with pytest.raises(ValueError, match=f"the anchor representation of {SENDERS[3]} is 1e"):
        computed(world)


@pytest.mark.parametrize("kind", [kind for kind, model in TERMS.items() if "classes" in model.tasks])
def test_nobody_gets_a_model_with_rows_in_it_without_having_consented(world: World, kind: str) -> None:
    """The choice of the alignment fits models too: none of them is asked for but the one in the terms."""
    world.publish(terms_of(model=TERMS[kind]()))
    if TERMS[kind].carries_rows:
        with pytest.raises(ConsentMissingError):
            world.accept(LEAD)
    else:
        world.accept(LEAD)
