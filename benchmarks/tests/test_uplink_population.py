from __future__ import annotations

from typing import Any

import pytest

from benchmarks.report import Report
from benchmarks.uplink.__main__ import _told
from benchmarks.uplink.population import (
    BOUNDED,
    DEFAULT,
    FINISHED,
    UNBOUNDED,
    UNDEFENDED,
    Job,
    Population,
    add_claims,
    run,
)
from user_client.privacy import lattices

WINE = Population("wine", 3, 2, 30)


@pytest.mark.skipif(not lattices.available(), reason="fpylll is not installed")
def test_dither_takes_from_every_attacker() -> None:
    bare, dithered = (run(Job(WINE, sent, 0), folder=None) for sent in (UNDEFENDED, DEFAULT))
    assert min(bare["duplicates_found"], bare["known_rows_located"]) >= 80
    for name in ("duplicates_found", "known_rows_located", "values_collusion"):
        assert dithered[name] < bare[name]
    report = Report("uplink", rows=[bare, dithered])
    add_claims(report)
    values = {claim.id: claim.value for claim in [*report.claims, *report.figures]}
    assert values["attacks_cut_off"] == 0
    assert values["duplicates_found_default"] == dithered["duplicates_found"]
    assert values["exact_rows_collusion_undefended"] == bare["exact_rows_collusion"]


def _row(**figures: float | None) -> dict[str, Any]:
    names = {name for _, name, *_ in BOUNDED} | set(UNBOUNDED.values())
    return {"sent": DEFAULT.name, **dict.fromkeys(FINISHED, True), **dict.fromkeys(names, 0.0), **figures}


def test_a_relation_that_survives_is_shown_as_a_claim_that_fails() -> None:
    report = Report("uplink", rows=[_row(lattice_relations=8)])
    add_claims(report)
    assert [str(claim) for claim in report.claims if not claim.holds] == [
        "lattice_relations_default: 8 relations (== 0) DOES NOT HOLD"
    ]


def test_an_attack_that_applies_to_no_table_is_no_claim_that_holds() -> None:
    report = Report("uplink", rows=[_row(lattice_relations=None, exact_rows_collusion=None)])
    add_claims(report)
    assert {"lattice_relations_default", "exact_rows_collusion_default"}.isdisjoint(
        claim.id for claim in report.claims
    )
    assert "lattice_relations_default" in report.conditions["applies_to_no_table"]


def test_an_attack_that_was_cut_off_is_no_defence() -> None:
    report = Report("uplink", rows=[_row(), {**_row(), "collusion_finished": False}])
    add_claims(report)
    assert [(claim.id, claim.value) for claim in report.claims if not claim.holds] == [("attacks_cut_off", 1)]


def test_what_the_default_does_not_stop_has_no_bound() -> None:
    report = Report("uplink", rows=[_row(reidentified_public_rows=94.0, duplicates_found=89.0)])
    add_claims(report)
    assert {one.id: one.value for one in report.figures} == {
        "values_collusion_default": 0.0,
        "reidentified_public_rows_default": 94.0,
        "duplicates_found_default": 89.0,
    }


def test_what_does_not_apply_is_told_in_words() -> None:
    assert [_told(value) for value in (None, 0.0, 7, "tcga")] == ["not applicable", "0.0", "7", "tcga"]


@pytest.mark.skipif(not lattices.available(), reason="fpylll is not installed")
def test_a_table_of_numbers_of_any_size_has_no_rows_for_lattices_to_rebuild() -> None:
    row = run(Job(Population("lognormal_1", 2, 1, 30), DEFAULT, 0), folder=None)
    for name in ("exact_rows_collusion", "values_collusion", "lattice_relations", "named_alone"):
        assert row[name] is None
    assert row["duplicates_found"] is not None
