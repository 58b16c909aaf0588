"""A draft that gives groups of institutions models of their own, and what does not go with it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from analyst_server.services import prepare
from protocol.model_groups import ModelGroupsTerms
from tests.harness.in_process import HOSPITAL, LEAD
from tests.harness.odc import Odc


def words(odc: Odc) -> tuple[str | Path, ...]:
    return ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD, "--party", HOSPITAL)


def test_a_draft_can_ask_for_models_of_groups(odc: Odc) -> None:
    odc(*words(odc), "--groups-within", "0.2")
    content = tomllib.loads((odc.consortium.directory / "terms.toml").read_text())
    terms = prepare.complete_terms(odc.consortium.analyst, content)
    assert terms.model_groups == ModelGroupsTerms(largest_distance=0.2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("1",), "groups_within must be at least 0.01 and below 1, got 1"),
        (("0.2", "--nri"), "groups_within does not go with nri"),
        (("0.2", "--model-epsilon", "1"), "groups_within does not go with model_epsilon"),
        (("0.2", "--label", "x0"), "groups_within does not go with the task multilabel"),
        (("0.2", "--late-consumer", HOSPITAL), "who send no labels"),
        (("0.2", "--uplink", "sums"), "model_groups does not go with sums"),
    ],
)
def test_what_does_not_go_with_groups_is_refused(odc: Odc, options: tuple[str, ...], why: str) -> None:
    result = odc(*words(odc), "--groups-within", *options)
    assert (result.code, why in result.err) == (3, True)
