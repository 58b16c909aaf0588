"""Rounds whose label follows products of columns that vary little."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from orthonormal_data_collaboration import simulate


def products(seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """24 columns that follow four factors, and six that follow none: two pairs of these tell the label."""
    rng = np.random.default_rng(seed)
    factors, noise = rng.standard_normal((2600, 4)), rng.standard_normal((2600, 30))
    rows = np.hstack([factors @ rng.standard_normal((4, 24)) + 0.5 * noise[:, :24], noise[:, 24:]])
    odds = factors[:, 0] + rows[:, 24] * rows[:, 25] + rows[:, 26] * rows[:, 27]
    return rows, rng.random(2600) < 1 / (1 + np.exp(-2 * odds))


@pytest.mark.parametrize("seed", [0, 4])
def test_who_sees_that_the_label_curves_is_not_accused_by_those_who_do_not(seed: int) -> None:
    rows, label = products(seed)
    ends = np.cumsum([0, 900, 400, 250, 120, 60])
    parties = {f"p{i}": (rows[a:b], label[a:b]) for i, (a, b) in enumerate(itertools.pairwise(ends))}
    found = simulate(parties, random_state=seed, latent_dim=4)
    seen = [one.prepared.signal for one in found.members.values()]
    assert seen[0] is not None
    assert seen[0].curves > 2
    assert seen[-1] is None or seen[-1].curves == 0
    assert not found.suspected


def test_a_label_that_curves_is_not_projected_away() -> None:
    rows, label = products(0)
    parties = {f"p{i}": (rows[i:2100:3], label[i:2100:3]) for i in range(3)}
    found = simulate(parties, random_state=0)
    said = found["p1"].predict_proba(rows[2100:])[:, 1]
    assert roc_auc_score(label[2100:], said) > 0.8  # 0.74 by a score without curves
