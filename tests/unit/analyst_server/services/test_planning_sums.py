"""What a round of sums would cost, beside real messages and federated averaging."""

from __future__ import annotations

from typing import Any

import pytest

from analyst_server.services.planning import Comparison, Plan, SumsScenario
from analyst_server.services.planning_sums import plan_sums


def planned(**changed: Any) -> Plan:
    return plan_sums(SumsScenario(**{"parties": 5, "features": 30, **changed}))


def term(found: Plan, start: str) -> Comparison:
    (row,) = (row for row in found.terms if row.what.startswith(start))
    return row


def test_an_uplink_has_8_bytes_for_each_pair_of_numbers() -> None:
    found = planned(random_features=256)
    assert term(found, "sums").formula_bytes == 5 * 4 * 289 * 290
    assert term(found, "sums").ratio == 1


def test_the_total_comes_back_where_the_terms_say_so() -> None:
    without, found = planned(), planned(cohort=True)
    assert term(found, "their total").ours_bytes == 5 * 4 * 33 * 34
    assert not [row for row in without.terms if row.what == "their total"]
    more = found.total.formula_bytes - without.total.formula_bytes
    assert more == term(found, "their total").formula_bytes


def test_by_class_an_uplink_has_the_pairs_of_features_of_each_class() -> None:
    found = planned(by_class=True, outputs=3)
    assert term(found, "sums by class").formula_bytes == 5 * 3 * 4 * 31 * 32
    assert term(found, "sums by class").ratio == 1
    assert term(found, "model h").ours_bytes == 5 * 3 * 4 * (30 * 30 + 30 + 1)


@pytest.mark.parametrize(("outputs", "parameters"), [(1, 31), (2, 31), (3, 93)])
def test_the_model_has_a_weight_for_each_feature_and_an_intercept(outputs: int, parameters: int) -> None:
    assert term(planned(outputs=outputs), "model h").ours_bytes == 5 * 4 * parameters


def test_terms_add_up_to_the_whole_round() -> None:
    found = planned(random_features=64, cohort=True)
    for column in ("formula_bytes", "ours_bytes"):
        assert sum(getattr(row, column) for row in found.terms) == getattr(found.total, column)


def test_federated_averaging_breaks_even_at_the_bytes_of_the_formulas() -> None:
    found = planned(federated_parameters=1000, cohort=True, participation=(0.5,))
    (one,) = found.federated_averaging
    assert one.one_round_bytes == 2 * 0.5 * 5 * 1000 * 4
    assert one.break_even_rounds * one.one_round_bytes == pytest.approx(found.total.formula_bytes)


def test_every_institution_gets_a_key_of_each() -> None:
    few, many = (term(planned(parties=count), "signatures").ours_bytes / count for count in (3, 103))
    assert many - few == pytest.approx(2 * 100 * (32 + 2), abs=10), (
        "up and down, packed as 32 bytes and a head"
    )


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"parties": 2}, "parties must lie between 3 and 256"),
        ({"features": 0}, "features must lie"),
        ({"random_features": 4097}, "random features must lie"),
        ({"by_class": True, "outputs": 1}, "sums by class are for classes"),
        ({"by_class": True, "cohort": True}, "go without cohort"),
        ({"features": 16384, "random_features": 1}, "latent dimension must lie"),
        ({"outputs": 0}, "classes must lie"),
        ({"federated_parameters": 0}, "model parameters must lie"),
        ({"bits": 0}, "bits must lie"),
        ({"participation": ()}, "participation must lie"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        planned(**changed)
