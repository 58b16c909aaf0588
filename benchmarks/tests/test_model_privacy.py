"""The audit and the membership attack find what is there, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.model_privacy import AUDITED, DELTA, STATED, Job, audited_epsilon, canary_scores, run
from benchmarks.uplink.membership import advantage
from protocol.gaussian_mechanism import gaussian_delta


def test_scores_apart_by_as_much_as_epsilon_allows_do_not_refute_it() -> None:
    rng = np.random.default_rng(0)
    apart = 0.72  # of two normal distributions: an epsilon of 3 at this delta
    assert gaussian_delta(STATED, 1 / apart, sensitivity=1) == pytest.approx(DELTA, rel=0.3)
    inside, outside = apart + rng.standard_normal(20_000), rng.standard_normal(20_000)
    assert 2.3 < audited_epsilon(inside, outside) <= STATED
    assert audited_epsilon(2 * inside, outside) > STATED
    assert audited_epsilon(outside, inside) == 0


def test_the_canary_moves_the_model_and_the_noise_hides_it() -> None:
    noise = AUDITED.noise_multiplier(1)
    told, betrayed = (
        audited_epsilon(
            *(canary_scores(share * noise, inside=given, runs=300, seed=1) for given in (True, False))
        )
        for share in (1.0, 0.2)
    )
    assert told <= STATED < betrayed


def test_an_advantage_is_that_of_rows_the_threshold_was_not_chosen_on() -> None:
    rng = np.random.default_rng(0)
    nothing = [advantage(rng.standard_normal(60), rng.standard_normal(60), rng) for _ in range(200)]
    assert abs(np.mean(nothing)) < 0.02  # the best of all thresholds would find 0.15
    assert advantage(rng.standard_normal(500) + 3, rng.standard_normal(500), rng) > 0.75


def test_a_private_model_is_scored_beside_the_default() -> None:
    found = run(Job("breast_cancer", 0), folder=None)
    scores = {(row["model"], row["epsilon"]): row["roc_auc"] for row in found}
    assert scores["averaged", None] > 97
    assert scores["logistic", 10.0] > 95
    assert len(scores) == 7
