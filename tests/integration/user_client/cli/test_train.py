"""`odc train`: what a person types and reads; the models themselves are tested in sdk/."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process import rows
from tests.harness.odc import Odc


def test_our_own_model_is_trained_and_removed(odc: Odc) -> None:
    odc.consortium.until_released(terms_schema=2, model={"kind": "knn"})
    assert "next: odc train (a model of our own, on the rows of all institutions)" in odc("receive").out
    said = odc("train")
    count = 2 * len(rows(0)["y"])
    assert (said.code, f"a model of our own (averaged) is trained on {count} rows" in said.out) == (0, True)
    assert odc("train", "--model", "logistic", "--json").json == {
        "kind": "logistic",
        "rows": count,
        "of_rows": count,
    }
    assert "the model that was received predicts again" in odc("train", "--remove").out
    assert odc("train", "--remove").code != 0


def test_who_trains_a_model_is_told_that_it_is_the_one_that_answers(odc: Odc) -> None:
    odc.consortium.until_released(terms_schema=2, model={"kind": "knn"})
    odc("receive")
    table = odc.consortium.table(9)
    own = "trained here on the rows of all institutions (odc train)"
    assert own not in odc("report").out + odc("evaluate", table).out
    assert "of odc train" not in odc("status").out
    odc("train", "--model", "logistic")
    assert f"a model of our own answers, {own}" in odc("report").out
    evaluated = odc("evaluate", table)
    assert f"together: our own model of the kind logistic answers, {own}" in evaluated.out
    assert f"together: our own model of the kind logistic answers, {own}" in odc("report").out
    assert odc("evaluate", table, "--json").json["trained"] == "logistic"
    assert "next: odc predict TABLE, odc evaluate TABLE (a model of our own answers" in odc("status").out


def test_terms_that_share_no_rows_say_which_would(odc: Odc) -> None:
    odc.consortium.until_released()
    assert "odc train" not in odc("receive").out
    refused = odc("train")
    assert (refused.code, "only terms with the model knn" in refused.err) == (3, True)
    assert refused.out == ""


@pytest.mark.parametrize(
    ("candidates", "is_told"),
    [
        ([{"kind": "knn"}, {"kind": "knn", "neighbours": 1}], True),
        ([{"kind": "logistic"}, {"kind": "knn", "neighbours": 1}], False),
    ],
    ids=["rows", "no rows"],
)
def test_rows_that_came_because_they_were_chosen_are_told(
    odc: Odc, candidates: list[dict[str, Any]], is_told: bool
) -> None:
    odc.consortium.until_released(terms_schema=2, model={"kind": "auto", "candidates": candidates})
    assert ("next: odc train" in odc("receive").out) == is_told
