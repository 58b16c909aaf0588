"""The paper's worked example (arXiv 2403.02780, section II-C), and ours against real messages."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pytest

from analyst_server.services.planning import Comparison, FederatedAveraging, Plan, Scenario, plan
from metering.formulas import downlink, uplink
from protocol.anchor_terms import ANCHORS
from protocol.arrays import Layout
from tests.harness.world import HOSPITAL, make_terms, make_uplink

PAPER: dict[str, Any] = {
    "parties": 100,
    "rows": 1000,
    "anchor_rows": 1000,
    "features": 784,
    "latent_dim": 100,
    "model_parameters": 25_000_000,
}


def planned(**changed: Any) -> Plan:
    return plan(Scenario(**{**PAPER, **changed}))


def term(found: Plan, start: str) -> Comparison:
    (row,) = (row for row in found.terms if row.what.startswith(start))
    return row


def federated(found: Plan, participation: float) -> FederatedAveraging:
    (one,) = (one for one in found.federated_averaging if one.participation == participation)
    return one


def test_the_round_of_the_paper_is_10_1_gigabytes() -> None:
    assert planned().total.formula_bytes == 10_087_136_000


def test_one_federated_round_of_the_paper_is_20_gigabytes() -> None:
    assert federated(planned(), 1.0).one_round_bytes == 20e9


def test_the_paper_breaks_even_after_five_rounds_of_a_tenth() -> None:
    found = federated(planned(), 0.1)
    assert found.break_even_rounds == pytest.approx(5.043568)
    assert sum(astuple(found.break_even_terms)) == pytest.approx(found.break_even_rounds)


def test_the_terms_are_formulas_3_to_5_and_add_up_to_6() -> None:
    found = planned(parties=7, rows=10)
    up = uplink(rows=10, anchor_rows=1000, latent_dim=100, bits=32)
    down = downlink(latent_dim=100, model_parameters=25e6, bits=32)
    by_formula = [row.formula_bytes for row in found.terms]
    assert [value for value in by_formula if value] == [
        7 * up.rep_bytes,
        7 * up.anchor_rep_bytes,
        7 * down.change_of_basis_bytes,
        7 * down.model_bytes,
        1000 * 784 * 4,
    ]
    for column in ("formula_bytes", "ours_bytes"):
        assert sum(getattr(row, column) for row in found.terms) == getattr(found.total, column)


@pytest.mark.parametrize(("rep_dtype", "ratio"), [("f2", 0.5), ("f4", 1), ("f8", 2), ("i1", 0.25)])
def test_the_number_type_of_the_terms_scales_the_rows(rep_dtype: str, ratio: float) -> None:
    assert term(planned(rep_dtype=rep_dtype), "rows").ratio == ratio


def test_a_haar_anchor_has_as_many_rows_as_features() -> None:
    assert term(planned(), "anchor A F_i").ratio == pytest.approx(784 / 1000)
    assert term(planned(anchor_kind="uniform"), "anchor A F_i").ratio == 1


def test_a_seed_travels_in_the_place_of_the_anchor() -> None:
    row = term(planned(), "anchor A;")
    assert (row.formula_bytes, row.ours_bytes) == (1000 * 784 * 4, 2 * 100 * 32)


@pytest.mark.parametrize(("classes", "each"), [(2, 1), (256, 1), (257, 2)])
def test_labels_are_counted_though_the_formulas_leave_them_out(classes: int, each: int) -> None:
    assert term(planned(classes=classes), "labels").ours_bytes == 100 * 1000 * each


@pytest.mark.parametrize("rep_dtype", ["f2", "f4", "f8", "i1"])
def test_the_arrays_are_those_of_a_real_uplink(rep_dtype: Any) -> None:
    terms = make_terms(rep_dtype=rep_dtype)
    sent = make_uplink(terms, HOSPITAL, rows=30).manifest
    found = plan(Scenario(1, 30, 4, 4, 2, 10, rep_dtype=rep_dtype))
    names = ("rows", "anchor A F_i", "labels", "scales")
    ours = [term(found, name).ours_bytes for name in names]
    assert sum(ours) == Layout(sent.arrays, sent.chunk_bytes).payload_bytes


def test_the_signatures_are_about_those_of_real_messages() -> None:
    """An uplink's share is a third of what is signed: two manifests, and a seal both ways."""
    sent = make_uplink(make_terms(), HOSPITAL)
    framing = term(plan(Scenario(1, 30, 4, 4, 2, 10)), "signatures").ours_bytes
    seals = 2 * (1120 + 16)
    digests = 5 * 32
    assert framing - seals - digests == pytest.approx(4 * len(sent.body), rel=0.25)


def test_federated_averaging_is_compared_over_twice_its_break_even() -> None:
    found = planned()
    assert {one.rounds for one in found.federated_averaging} == {11}
    assert federated(found, 0.1).bytes == 11 * 2e9


def test_the_rounds_asked_for_are_taken() -> None:
    assert federated(planned(rounds=40), 1.0).bytes == 40 * 20e9


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"parties": 0}, "parties must lie between 1 and"),
        ({"rows": -1}, "rows must lie"),
        ({"latent_dim": 785}, "latent dimension must lie between 1 and 784"),
        ({"anchor_rows": 783}, "anchor rows must lie between 784 and"),
        ({"model_parameters": 0}, "model parameters must lie"),
        ({"bits": 0}, "bits must lie"),
        ({"classes": 1}, "classes must lie"),
        ({"rounds": 0}, "rounds must lie"),
        ({"participation": ()}, "participation must lie"),
        ({"participation": (1.1,)}, "participation must lie"),
        ({"participation": (float("nan"),)}, "participation must lie"),
        ({"rep_dtype": "i2"}, "number type must be one of f2, f4, f8, i1"),
        ({"anchor_kind": "zero"}, f"anchor must be one of {', '.join(ANCHORS)}"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        planned(**changed)


def test_a_public_anchor_travels_as_a_matrix_and_every_other_as_seeds() -> None:
    seeds, matrix = planned(anchor_kind="gaussian"), planned(anchor_kind="public")
    formula = term(matrix, "anchor A; ours: its seed").formula_bytes
    more = (
        term(matrix, "anchor A; ours: its seed").ours_bytes
        - term(seeds, "anchor A; ours: its seed").ours_bytes
    )
    assert more == matrix.scenario.parties * formula  # up once, down to all others


def test_machines_get_the_rounds_in_the_scenario_and_every_ratio() -> None:
    found = planned(participation=(0.1,))
    shown: Any = found.as_json()
    assert list(shown) == ["scenario", "terms", "total", "federated_averaging", "disk_bytes"]
    assert shown["scenario"]["rounds"] == found.rounds == 11
    assert shown["total"] == {
        "formula": "(6)",
        "what": "the whole round",
        "formula_bytes": 10_087_136_000,
        "ours_bytes": found.total.ours_bytes,
        "ratio": found.total.ratio,
    }
    assert list(shown["federated_averaging"][0]) == [
        "participation",
        "one_round_bytes",
        "break_even_terms",
        "break_even_rounds",
        "our_break_even_rounds",
        "rounds",
        "bytes",
    ]
    assert list(shown["federated_averaging"][0]["break_even_terms"]) == [
        "uplink_rounds",
        "downlink_rounds",
        "anchor_rounds",
    ]


def test_a_plan_whose_break_even_lies_beyond_every_limit_is_made() -> None:
    assert planned(model_parameters=1, rows=2**31 - 1).rounds > 10**9
