"""What a party has after a round is an estimator of scikit-learn: by its own checks, and in its own tools."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from orthonormal_data_collaboration import MemberClassifier, MemberRegressor, simulate

Pair = tuple[NDArray[Any], NDArray[Any]]
OTHERWISE = {
    "check_estimators_nan_inf": "NaN is an empty field, which the terms may impute",
    "check_fit2d_1sample": "one row is refused in the words of the product: nothing can be drafted from it",
}
"""Checks that do not hold, and why."""
ROUNDED = {
    "check_methods_sample_order_invariance": "the model answers in single precision, to 1e-7",
    "check_methods_subset_invariance": "the same",
}
"""Checks of numbers that hold up to rounding, and so on some machines."""


@pytest.mark.parametrize("estimator", [MemberClassifier, MemberRegressor])
def test_scikit_learns_own_checks(estimator: Any) -> None:
    options = {"dither": 0.0, "hold_out": 0.0, "rep_dtype": "f8"}
    found = check_estimator(
        estimator(random_state=0, options=options),
        expected_failed_checks=OTHERWISE | ROUNDED,
        on_skip=None,
        on_fail="raise",
    )
    failed = {each["check_name"] for each in found if each["status"] == "xfail"}
    assert failed - set(ROUNDED) == set(OTHERWISE), "a check that holds now is expected to fail no more"
    assert sum(each["status"] == "passed" for each in found) > 40


def test_scikit_learn_knows_what_they_are() -> None:
    assert is_classifier(MemberClassifier())
    assert is_regressor(MemberRegressor())


def test_a_clone_plays_the_same_round_again(parties: dict[str, Pair], unseen: Pair) -> None:
    member = simulate(parties, random_state=0, latent_dim=4, model="logistic")["hospital-1"]
    again = clone(member)
    with pytest.raises(NotFittedError):
        again.predict(unseen[0])
    again.fit(*parties["hospital-1"])
    np.testing.assert_array_equal(again.predict_proba(unseen[0]), member.predict_proba(unseen[0]))
    assert again.simulation_.terms == member.simulation_.terms


def test_cross_validation_plays_a_round_for_each_fold(parties: dict[str, Pair]) -> None:
    member = simulate(parties, random_state=0, model="logistic", drafted_by="all")["hospital-2"]
    scores = cross_val_score(member, *parties["hospital-2"], cv=3, error_score="raise")
    assert scores.min() > 0.7


def test_a_member_of_tables_is_fitted_to_tables(parties: dict[str, Pair], unseen: Pair) -> None:
    tables = {
        name: pa.table({**{f"x{i}": column for i, column in enumerate(X.T)}, "kind": y})
        for name, (X, y) in parties.items()
    }
    member = simulate(tables, label="kind", random_state=0, model="logistic")["hospital-1"]
    X, y = parties["hospital-1"]
    again = clone(member).fit(X, y)
    np.testing.assert_array_equal(again.predict(unseen[0]), member.predict(unseen[0]))


def test_classes_come_back_as_they_were_given(parties: dict[str, Pair], unseen: Pair) -> None:
    names = np.array(["red", "white", "rosé"])
    for relabelled in (
        names,
        np.array([30, 20, 10]),
        np.array([True, False, True]),
        np.array([2.0, 1.0, 0.0]),
    ):
        changed = {name: (X, relabelled[y]) for name, (X, y) in parties.items()}
        member = simulate(changed, random_state=0, model="logistic")["hospital-0"]
        assert isinstance(member, MemberClassifier)
        np.testing.assert_array_equal(member.classes_, np.unique(relabelled))
        assert member.score(unseen[0], relabelled[unseen[1]]) > 0.8
        np.testing.assert_allclose(member.predict_proba(unseen[0]).sum(axis=1), 1)


def test_what_is_pickled_holds_the_rows_of_nobody(parties: dict[str, Pair], unseen: Pair) -> None:
    member = simulate(parties, random_state=0, model="logistic")["hospital-0"]
    again = pickle.loads(pickle.dumps(member))  # noqa: S301  # our own bytes
    np.testing.assert_array_equal(again.predict(unseen[0]), member.predict(unseen[0]))
    assert not hasattr(again, "simulation_")


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.zeros((2, 12)), "X has 12 features, but MemberClassifier is expecting 13 features as input"),
        (pa.table({"x0": [1.0]}), "column 'x1' is missing"),
        (np.zeros(13), "Expected 2D array, got 1D array instead"),
    ],
)
def test_rows_that_do_not_fit_are_a_value_error(parties: dict[str, Pair], X: Any, says: str) -> None:
    member = simulate(parties, random_state=0, model="logistic")["hospital-0"]
    with pytest.raises(ValueError, match=says):
        member.predict(X)


def test_an_estimator_of_another_task_is_named(parties: dict[str, Pair]) -> None:
    X, y = parties["hospital-0"]
    with pytest.raises(ValueError, match="continuous"):
        MemberClassifier(random_state=0).fit(X, X[:, 0])
    terms = simulate(parties, random_state=0, model="logistic").terms
    with pytest.raises(ValueError, match="number"):
        MemberRegressor("hospital-0", parties=parties, terms=terms).fit(X, y)
