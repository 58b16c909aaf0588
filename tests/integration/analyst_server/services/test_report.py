"""The report: what the analyst's operator reads, and what a member does."""

from __future__ import annotations

from typing import Any

from analyst_server.services import report
from tests.harness.computing import claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity


def test_the_spectrum_of_each_party_is_shown_to_the_operator_alone(world: World) -> None:
    released = world.until_sealed()
    claim(released)
    finish(released)
    found: Any = report.for_operator(released.analyst, released.id)["results"]
    assert {party: len(values) for party, values in found["alignment"]["spectra"].items()} == {
        LEAD: 2,
        HOSPITAL: 2,
    }
    seen: Any = report.for_member(released.analyst, identity(HOSPITAL), released.id)["results"]
    assert "spectra" not in seen["alignment"]
    assert seen["alignment"]["singular_values"] == found["alignment"]["singular_values"]
