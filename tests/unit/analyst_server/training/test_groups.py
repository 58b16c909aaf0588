"""Groups of parties with like shares of the classes, and the models that they share."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_server.training.choosing import Auto
from analyst_server.training.groups import Grouping, fit_groups
from analyst_server.training.judging import judge
from analyst_server.training.logistic import Logistic
from analyst_server.training.models import fit, fit_task
from analyst_server.training.tasks import Classes
from analyst_server.training.trees import RandomForest

TASK: Final = Classes(2)
WITHIN: Final = Grouping(0.1)
SHARES: Final = (0.2, 0.8, 0.25, 0.75, 0.5)
"""Of the second class at five parties: the first and the third are alike, and the second and the fourth."""


def parties(
    shares: tuple[float, ...] = SHARES, count: int = 400, *, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return rows, labels and senders: one Gaussian for each class, and exactly these shares of it."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(count) < share * count for share in shares]).astype(np.int64)
    rows = rng.normal(size=(len(labels), 3)) + 0.4 * (2 * labels[:, None] - 1)
    return rows, labels, np.repeat(np.arange(len(shares)), count)


def members(grouping: Grouping, shares: tuple[float, ...]) -> list[list[int]]:
    _, labels, senders = parties(shares)
    return [found.tolist() for found in grouping.groups(labels, senders)]


def test_parties_with_like_shares_are_a_group() -> None:
    assert members(WITHIN, SHARES) == [[0, 2], [1, 3]]


def test_the_furthest_of_a_group_are_near_enough() -> None:
    chain = (0.2, 0.27, 0.36, 0.44)
    assert members(WITHIN, chain) == [[0, 1], [2, 3]]
    assert members(Grouping(0.3), chain) == [[0, 1, 2, 3]]


def test_small_groups_are_none() -> None:
    assert members(Grouping(0.1, least_parties=3), SHARES) == []
    assert members(WITHIN, (0.5,)) == []


def test_the_distance_is_half_the_sum_of_the_differences() -> None:
    labels = np.concatenate([np.repeat([0, 1, 2], counts) for counts in ([50, 30, 20], [40, 20, 40])])
    senders = np.repeat([0, 1], 100)
    assert len(Grouping(0.21).groups(labels, senders)) == 1
    assert Grouping(0.19).groups(labels, senders) == []


def test_the_model_of_a_group_is_that_of_a_round_of_its_own() -> None:
    rows, labels, senders = parties()
    fits = fit_groups(Logistic(), rows, labels, TASK, senders, WITHIN)
    assert [group.parties for group in fits.groups] == [(0, 2), (1, 3)]
    found = fits.predictions(rows, senders)
    for group in fits.groups:
        own = np.isin(senders, group.parties)
        assert group.rows == own.sum()
        alone = fit(Logistic(), rows[own], labels[own], 2)
        np.testing.assert_allclose(found[own], alone.predictions(rows[own]), atol=1e-12)
    np.testing.assert_array_equal(found[senders == 4], fits.of_all.predictions(rows[senders == 4]))


def test_a_group_that_lacks_a_class_has_the_model_of_all() -> None:
    rows, labels, senders = parties((0.0, 0.0, 0.5, 0.5))
    fits = fit_groups(Logistic(), rows, labels, TASK, senders, WITHIN)
    assert [group.parties for group in fits.groups] == [(2, 3)]


def test_a_group_of_all_has_no_second_fit() -> None:
    rows, labels, senders = parties((0.5, 0.5))
    assert fit_groups(Logistic(), rows, labels, TASK, senders, WITHIN).groups == ()
    assert fit_groups(Logistic(), rows, labels, TASK, senders, None).groups == ()


def test_each_group_chooses_by_its_own_rows() -> None:
    rows, labels, senders = parties()
    auto = Auto(candidates=(("logistic", Logistic()), ("forest", RandomForest(trees=5))))
    fits = fit_groups(auto, rows, labels, TASK, senders, WITHIN)
    assert len(fits.groups) == 2
    for group in fits.groups:
        own = np.isin(senders, group.parties)
        alone = fit_task(auto, rows[own], labels[own], TASK, senders[own])
        assert group.fitted.choice == alone.choice != fits.of_all.choice


def test_a_distance_may_be_the_largest() -> None:
    for shares in ((0.2, 0.4), (0.2, 0.3), (0.1, 0.4)):
        assert len(members(Grouping(round(shares[1] - shares[0], 3)), shares)) == 1


def test_the_judgement_is_of_what_each_party_gets_and_says_what_one_model_would_be_worth() -> None:
    rows, labels, senders = parties(count=300)
    names = [f"h{number}" for number in range(5)]
    found = judge(Logistic(), rows, labels, TASK, senders, names, grouping=WITHIN)
    assert found.within is not None
    assert found.one_for_all is not None
    assert found.within.by_party["h4"] == found.one_for_all.by_party["h4"]
    # one for all takes every party's share of the classes for that of all rows together
    for figure in ("brier", "accuracy"):
        grouped, by_one = (each.figures[figure].mean for each in (found.within, found.one_for_all))
        assert grouped < by_one - 0.02 if figure == "brier" else grouped > by_one + 0.02
    plain = found.as_json()
    assert plain["one_for_all"]["brier"]["mean"] == found.one_for_all.figures["brier"].mean
    alone = judge(Logistic(), rows, labels, TASK, senders, names)
    assert alone.within == found.one_for_all
    assert "one_for_all" not in alone.as_json()


@pytest.mark.parametrize("seed", range(3))
def test_a_party_that_is_held_out_has_the_model_of_all_others(seed: int) -> None:
    rows, labels, senders = parties(seed=seed)
    grouped, alone = (
        judge(Logistic(), rows, labels, TASK, senders, list("abcde"), grouping=grouping)
        for grouping in (WITHIN, None)
    )
    assert grouped.across == alone.across
