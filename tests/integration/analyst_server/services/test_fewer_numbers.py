"""Rounds in which institutions send unlike numbers of a row: what the analyst takes, computes and returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_server.services import latecomers, report
from analyst_server.services.rounds import spec_of
from protocol.alignment_terms import AlignmentTerms, AutoAlignmentTerms
from protocol.errors import ShapeMismatchError
from protocol.messages import DownlinkManifest
from protocol.terms import Terms
from tests.harness.computing import claim, fetch, finish
from tests.harness.world import FEATURES, HOSPITAL, LEAD, World, identity, make_terms, make_uplink

OWN_DIMS = {LEAD: 4, HOSPITAL: 2}
OTHERS = ("hospital-b", "hospital-c")
"""They send what the hospital sends."""
BASES = {LEAD: np.linalg.qr(np.random.default_rng(7).standard_normal((FEATURES, FEATURES)))[0]}
BASES[HOSPITAL] = BASES[LEAD][:, :2] @ np.array([[0.6, -0.8], [0.8, 0.6]])
"""The hospital's span is a part of the lead's."""
ANCHOR = np.linalg.qr(np.random.default_rng(8).standard_normal((FEATURES, FEATURES)))[0]


def fewer(**changed: Any) -> Terms:
    given = {"latent_dim": 4, "least_latent_dim": 2, "alignment": AlignmentTerms(method="imakura")}
    return make_terms(**{**given, **changed})


def rows(seed: int, count: int = 40) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return encoded rows whose label lies along what the hospital sends, and their labels."""
    rng = np.random.default_rng(seed)
    found = rng.uniform(-1, 1, (count, FEATURES))
    return found, (found @ BASES[LEAD][:, 0] > 0).astype(np.uint8)


def send(world: World, party: str, seed: int) -> None:
    found, labels = rows(seed)
    basis = BASES.get(party, BASES[HOSPITAL])
    arrays = {
        "rep": (found @ basis).astype("<f4"),
        "anchor_rep": (ANCHOR @ basis).astype("<f4"),
        "labels": labels,
    }
    world.send(make_uplink(world.terms, party, own_dim=basis.shape[1], arrays=arrays))


def released(world: World, terms: Terms) -> dict[str, tuple[DownlinkManifest, list[bytes]]]:
    world.until_anchored(terms)
    for seed, party in enumerate(terms.awaited_parties):
        send(world, party, seed)
    claim(world)
    finish(world)
    return {party: fetch(world, party) for party in (LEAD, HOSPITAL)}


def change_of(manifest: DownlinkManifest, arrays: list[bytes]) -> NDArray[np.float64]:
    return np.frombuffer(arrays[0], "<f4").reshape(manifest.change_of_basis.shape).astype(np.float64)


@pytest.mark.parametrize("method", ["imakura", "kawakami"])
def test_each_gets_a_change_of_basis_for_what_it_sent_and_both_reach_the_same_rows(
    world: World, method: Any
) -> None:
    found = released(world, fewer(alignment=AlignmentTerms(method=method)))
    assert {party: manifest.change_of_basis.shape for party, (manifest, _) in found.items()} == {
        LEAD: (4, 4),
        HOSPITAL: (2, 4),
    }
    lead, hospital = (BASES[party] @ change_of(*found[party]) for party in (LEAD, HOSPITAL))
    within = np.random.default_rng(0).standard_normal((5, 2)) @ BASES[HOSPITAL].T
    np.testing.assert_allclose(within @ hospital, within @ lead, rtol=0, atol=1e-5)
    assert found[LEAD][1][1] == found[HOSPITAL][1][1]  # one model


def test_the_best_of_both_alignments_is_taken(world: World) -> None:
    several = AutoAlignmentTerms(candidates=("kawakami", "imakura"))
    found = released(world, fewer(alignment=several, parties=(*OWN_DIMS, *OTHERS)))
    assert found[HOSPITAL][0].change_of_basis.shape == (2, 4)
    results = report.for_operator(world.analyst, world.id)["results"]
    assert results is not None
    means = [each["mean"] or 0 for each in results["alignment_choice"]["candidates"]]
    assert min(means) > 0.9  # of rows that did not train it: both are aligned right


def test_the_report_says_what_each_has_chosen_and_the_formulas_count_it(world: World) -> None:
    released(world, fewer())
    found = report.for_member(world.analyst, identity(HOSPITAL), world.id)
    lead, hospital = sorted(found["parties"], key=lambda one: one["party"] == HOSPITAL)
    assert (lead["latent_dim"], hospital["latent_dim"]) == (4, 2)
    assert hospital["uplink_formula_bytes"] == (40 + FEATURES) * 2 * 4
    assert found["results"] is not None
    parameters = found["results"]["model_parameters"]
    assert hospital["downlink_formula_bytes"] == (2 * 4 + parameters) * 4
    assert lead["downlink_formula_bytes"] == (4 * 4 + parameters) * 4


@pytest.mark.parametrize("own", [1, 5])
def test_another_number_than_the_terms_allow_is_refused(world: World, own: int) -> None:
    world.until_anchored(fewer())
    arrays = {"anchor_rep": np.eye(FEATURES, own, dtype="<f4")}
    with pytest.raises(ShapeMismatchError, match="2 to 4"):
        world.begin(make_uplink(world.terms, HOSPITAL, own_dim=own, arrays=arrays))


def test_directions_that_nobody_has_sent_are_zero_in_the_common_representation(world: World) -> None:
    world.until_anchored(fewer())
    for seed, party in enumerate((LEAD, HOSPITAL)):
        found, labels = rows(seed)
        basis = BASES[HOSPITAL]
        arrays = {"rep": (found @ basis).astype("<f4"), "anchor_rep": (ANCHOR @ basis).astype("<f4")}
        world.send(make_uplink(world.terms, party, own_dim=2, arrays={**arrays, "labels": labels}))
    claim(world)
    finish(world)
    change = change_of(*fetch(world, HOSPITAL))
    assert change.shape == (2, 4)
    assert np.linalg.matrix_rank(change) == 2
    assert (np.abs(change).max(axis=0) > 1e-6).sum() == 2


def test_a_late_consumer_may_send_fewer_numbers(world: World) -> None:
    late = "late-hospital"
    terms = fewer(parties=(LEAD, HOSPITAL, late), late_consumers=(late,))
    released(world, terms)
    anchor_rep = (ANCHOR @ BASES[HOSPITAL]).astype("<f4")
    world.send(make_uplink(world.terms, late, rows=0, own_dim=2, arrays={"anchor_rep": anchor_rep}))
    uplink = latecomers.claim(world.analyst, "worker-1", 10)
    assert uplink is not None
    latecomers.compute(world.analyst, uplink, "worker-1")
    np.testing.assert_allclose(
        change_of(*fetch(world, late)), change_of(*fetch(world, HOSPITAL)), rtol=0, atol=1e-5
    )


def test_the_training_takes_the_common_width_into_account(world: World) -> None:
    world.until_anchored(fewer())
    for seed, party in enumerate((LEAD, HOSPITAL)):
        send(world, party, seed)
    claim(world)
    finish(world)
    assert spec_of(world.analyst, world.id).latent_dim == 4
