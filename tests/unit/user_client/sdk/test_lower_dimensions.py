"""The cost of fewer latent dimensions, on tables where it is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from user_client.sdk.lower_dimensions import kept_by_fewer
from user_client.secret.basis import principal_axes
from user_client.secret.signal import OwnScore, score_of
from user_client.secret.targets import targets_of

ROWS = 4000


def independent(seed: int, *, leading: bool) -> tuple[OwnScore, NDArray[np.float64]]:
    """Eight independent columns whose spread falls; the label is of the first four, or of the last."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((ROWS, 8)) * np.geomspace(100, 1, 8)
    unit = rows / rows.std(axis=0)
    number = unit[:, :4].sum(axis=1) if leading else unit[:, 7]
    score = score_of(rows, targets_of(number + 0.1 * rng.standard_normal(ROWS)))
    assert score is not None
    return score, principal_axes(rows)[1]


@pytest.mark.parametrize("seed", range(3))
def test_each_of_four_equal_columns_that_is_left_out_costs_a_quarter(seed: int) -> None:
    score, axes = independent(seed, leading=True)
    found = kept_by_fewer(score, axes, 4)
    assert [one.latent_dim for one in found] == [4, 3, 2, 1]
    np.testing.assert_allclose([one.kept for one in found], [1, 0.75, 0.5, 0.25], atol=0.05)
    assert [one.measure for one in found] == ["concordance"] * 4
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)


def test_a_label_along_the_last_axis_is_lost_with_it() -> None:
    score, axes = independent(0, leading=False)
    found = kept_by_fewer(score, axes, 8)
    assert [one.latent_dim for one in found] == [8, 6, 4, 2]
    np.testing.assert_allclose([one.kept for one in found], [1, 0, 0, 0], atol=0.05)


def test_what_was_asked_for_is_shown_beside_what_would_be_drafted() -> None:
    score, axes = independent(0, leading=True)
    assert [one.latent_dim for one in kept_by_fewer(score, axes, 1, 4)] == [4, 3, 2, 1]
    assert [one.latent_dim for one in kept_by_fewer(score, axes, 7, 4)] == [7, 6, 4, 2]
    assert [one.latent_dim for one in kept_by_fewer(score, axes, 1)] == [1]
