"""Proportional hazards: the partial likelihood is minimal, and the institution fits the same model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from analyst_server.training.cox import Cox, CoxRegression
from analyst_server.training.models import fit_task
from analyst_server.training.tasks import Survival
from tests.harness.problems import survivals
from user_client.secret.cox import fit_hazards, residuals
from user_client.secret.local_model import fit_local_survival

TIMES = (0.1, 0.4, 0.8)


def partial_likelihood(weights: Any, rows: Any, labels: Any, inverse_penalty: float) -> float:
    """The definition, row by row: who had the event, among all who were at risk then (Breslow)."""
    scores, until = rows @ weights, np.abs(labels)
    total = 0.0
    for row in np.flatnonzero(labels > 0):
        total += float(scores[row] - np.log(np.exp(scores[until >= until[row]]).sum()))
    return float(weights @ weights) / (2 * inverse_penalty) - total


def with_ties(seed: int = 0) -> tuple[Any, Any]:
    rows, labels = survivals(80, 3, seed)
    wide = labels.astype(np.float64)
    return rows.astype(np.float64), np.sign(wide) * np.ceil(np.abs(wide) * 10) / 10


@pytest.mark.parametrize("inverse_penalty", [0.1, 10.0])
def test_the_weights_maximise_the_partial_likelihood_also_with_ties(inverse_penalty: float) -> None:
    rows, labels = with_ties()
    found = CoxRegression(inverse_penalty, TIMES).fit(rows, labels)
    exact = minimize(partial_likelihood, np.zeros(3), (rows, labels, inverse_penalty), tol=1e-10)
    np.testing.assert_allclose(found.coef_, exact.x, atol=1e-4)


def test_the_baseline_is_breslows() -> None:
    rows, labels = with_ties()
    found = CoxRegression(1.0, TIMES).fit(rows, labels)
    risks, until = np.exp(rows @ found.coef_), np.abs(labels)
    for time, hazard in zip(TIMES, found.hazard_, strict=True):
        events = (labels > 0) & (until <= time)
        assert hazard == pytest.approx(sum(1 / risks[until >= at].sum() for at in until[events]))
    survival = found.predict(rows)
    np.testing.assert_allclose(survival, np.exp(-risks[:, None] * found.hazard_), rtol=1e-12)


def test_known_hazards_are_found() -> None:
    rows, labels = survivals(4000)
    found = fit_task(Cox(inverse_penalty=100.0), rows, labels, Survival(TIMES))
    weights = found.pipeline["classify"].coef_ / found.pipeline["scale"].scale_
    np.testing.assert_allclose(weights, [1, -0.5, 0, 0, 0], atol=0.08)
    truth = np.exp(-0.4 / (0.4 * np.exp(-rows[:, 0] + 0.5 * rows[:, 1])))
    assert np.abs(found.predictions(rows)[:, 1] - truth).mean() < 0.03
    assert found.converged


def test_without_an_event_there_is_nothing_to_fit() -> None:
    rows, labels = survivals()
    with pytest.raises(ValueError, match="rows with the event"):
        fit_task(Cox(), rows, -np.abs(labels), Survival(TIMES))


@pytest.mark.parametrize("data", [survivals, with_ties])
def test_an_institution_fits_the_same_model_alone(data: Any) -> None:
    rows, labels = data()
    expected = fit_task(Cox(), rows.astype(np.float64), labels, Survival(TIMES)).predictions(rows)
    ours = fit_local_survival(rows.astype(np.float64), labels, TIMES, 0.1)
    assert ours is not None
    np.testing.assert_allclose(ours.predictions(rows), expected, atol=2e-4)
    assert fit_local_survival(rows, -np.abs(labels), TIMES, 0.1) is None


def test_the_residuals_are_what_survival_leaves_of_the_events() -> None:
    """They add up to 0, and are Nelson's and Aalen's hazard away from the event."""
    _, labels = with_ties()
    found = residuals(labels)
    assert found.sum() == pytest.approx(0, abs=1e-9)
    until = np.abs(labels)
    for row in (0, 7, 40):
        hazard = sum(
            ((labels > 0) & (until == at)).sum() / (until >= at).sum()
            for at in np.unique(until)
            if at <= until[row]
        )
        assert found[row] == pytest.approx((labels[row] > 0) - hazard)


def test_hazards_are_fitted_in_the_same_way_in_any_order() -> None:
    rows, labels = with_ties()
    order = np.random.default_rng(0).permutation(len(labels))
    one, other = (fit_hazards(rows[o], labels[o], TIMES, 1.0) for o in (np.arange(len(labels)), order))
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)
    assert repr(one) == "<Hazards at 3 times>"
