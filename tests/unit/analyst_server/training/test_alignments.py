"""The choice among alignments: which, within what time, and that no score is read off rows that chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analyst_server.alignment import align
from analyst_server.training import alignments as module
from analyst_server.training.alignments import Alignments
from analyst_server.training.choosing import NO_ROWS, NO_TIME, NOT_COMPARED, Choice, compare
from analyst_server.training.dithered_rows import allow_for_dither
from analyst_server.training.far_rows import bring_nearer
from analyst_server.training.judging import judge
from analyst_server.training.logistic import Logistic
from analyst_server.training.ridge import Ridge
from analyst_server.training.tasks import Classes, Numbers
from tests.harness.problems import Matrix, blobs, haar, numbers, unlike_the_first

LOGISTIC = ("logistic", Logistic())


def by_method(method: str, anchor_reps: list[Matrix]) -> Callable[[], Matrix]:
    def changes() -> Matrix:
        found = align(method, anchor_reps, anchor_is_isotropic=True, rng=np.random.default_rng(0))
        return np.stack(found.changes_of_basis)

    return changes


def problem(seed: int, *methods: str, **options: Any) -> tuple[Alignments, Matrix]:
    """Return parties of which the first is unlike the others, and their labels."""
    bases, tables, labels = unlike_the_first(seed)
    anchor = haar(60, np.random.default_rng(seed))
    anchor_reps = [anchor @ basis for basis in bases]
    sent = [table @ basis for table, basis in zip(tables, bases, strict=True)]
    return (
        Alignments(
            rep=np.concatenate(sent),
            senders=np.repeat(np.arange(len(sent)), [len(rows) for rows in sent]),
            changes={method: by_method(method, anchor_reps) for method in methods},
            **{"model": LOGISTIC, "budget_s": 1e9, "seed": 0, **options},
        ),
        np.concatenate(labels),
    )


def made_up(*changes: Callable[[], Matrix], parties: int = 4, **options: Any) -> tuple[Alignments, Matrix]:
    """Return rows around two centres, and as many ways to align them as are given."""
    rows, labels = blobs(2, rows=400)
    named = {str(number): one for number, one in enumerate(changes)}
    senders = np.arange(400) // 2 % parties
    return (
        Alignments(
            **{"rep": rows, "senders": senders, "model": LOGISTIC, "budget_s": 1e9, "seed": 0, **options},
            changes=named,
        ),
        labels,
    )


def same(parties: int = 4) -> Matrix:
    return np.stack([np.eye(5)] * parties)


def turned(parties: int = 4, seed: int = 0) -> Matrix:
    """Turn the rows of each party in another way."""
    rng = np.random.default_rng(seed)
    return np.stack([haar(5, rng) for _ in range(parties)])


def useless() -> Matrix:
    """Leave nothing of any row."""
    return 0 * same()


def impossible() -> Matrix:
    raise ValueError("the anchor representation of a party is zero")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("seed", range(3))
def test_a_method_that_aligns_to_an_unlike_party_is_not_chosen(seed: int, order: int) -> None:
    """By `odc` everybody is turned to the first, which lacks the directions that the label depends on."""
    found, labels = problem(seed, *["odc", "gopp"][::order])
    choice = found.choice(labels, Classes(2))
    means = {one.name: one.mean for one in choice.candidates}
    assert choice.name == "gopp"
    assert means["gopp"] > means["odc"] + 0.1


def test_of_alignments_that_are_as_good_the_first_in_the_terms_is_chosen() -> None:
    found, labels = made_up(useless, same, same)
    assert found.choice(labels, Classes(2)).name == "1"


def test_candidates_come_with_mean_spread_folds_and_the_model_that_scored_them() -> None:
    found, labels = made_up(same, turned)
    told = found.choice(labels, Classes(2)).as_json()
    assert (told["chosen"], told["scored_by"], told["metric"]) == ("0", "logistic", "roc_auc")
    assert (told["folds"], told["scored_parties"]) == ("4 parties, each left out in turn", 4)
    for one in told["candidates"]:
        assert 0.3 < one["mean"] <= 1
        assert one["spread"] > 0
        assert (one["folds"], one["parameters"]) == (4, None)


def test_a_number_is_chosen_for_too() -> None:
    rows, aims = numbers(rows=400)
    found, _ = made_up(useless, same, rep=rows, model=("ridge", Ridge()))
    choice = found.choice(aims, Numbers())
    assert (choice.metric, choice.name) == ("r2", "1")


def test_a_method_that_cannot_align_a_party_is_named_and_not_chosen() -> None:
    found, labels = made_up(impossible, turned)
    choice = found.choice(labels, Classes(2))
    assert [one.why_none for one in choice.candidates] == [NO_ROWS, None]
    assert choice.name == "1"


def test_where_nothing_can_be_compared_the_first_is_taken_and_nothing_is_aligned() -> None:
    found, labels = made_up(impossible, impossible)
    choice = found.choice(labels, Classes(2), np.arange(400) < 10)
    assert (choice.name, choice.rule) == ("0", NOT_COMPARED)


@pytest.mark.parametrize(("ticks", "tried"), [(0, 1), (3, 1), (4, 2), (7, 2), (8, 3), (99, 3)])
def test_once_the_time_is_over_no_further_method_is_tried(ticks: int, tried: int) -> None:
    """The clock is asked at the beginning and before each of four fits; the first method always is tried."""
    time, aligned = iter(range(1000)), []

    def watched(number: int) -> Matrix:
        aligned.append(number)
        return same()

    found, labels = made_up(lambda: watched(0), lambda: watched(1), lambda: watched(2), budget_s=ticks + 0.5)
    choice = found.choice(labels, Classes(2), clock=lambda: next(time))
    assert [one.why_none for one in choice.candidates] == [None] * tried + [NO_TIME] * (3 - tried)
    assert len(aligned) <= tried + 1
    if ticks == 0:
        assert aligned == [0]


def test_the_seed_decides_about_the_groups_and_the_same_one_gives_the_same() -> None:
    def with_seed(seed: int) -> Choice:
        found, labels = made_up(lambda: same(7), lambda: turned(7), parties=7, seed=seed)
        return found.choice(labels, Classes(2))

    one, again, other = map(with_seed, (1, 1, 2))
    assert one == again
    assert one.folds == "5 groups of parties, each left out in turn"
    assert one.candidates[1].scores != other.candidates[1].scores


def test_rows_are_those_of_each_party_by_its_own_matrix() -> None:
    found, _ = made_up(turned)
    some = np.arange(400) % 3 == 0
    own = np.einsum("nl,nlk->nk", found.rep[some], turned()[found.senders[some]])
    np.testing.assert_allclose(found.rows("0", some), own, atol=1e-5)  # float32
    assert found.rows("0", some).dtype == np.float32


def test_far_rows_are_those_among_all_and_are_brought_nearer_before_anything_is_fitted() -> None:
    found, labels = made_up(turned, brings_nearer=True)
    found.rep[7] *= 1000
    everything, some = np.ones(400, np.bool_), np.arange(400) < 200
    whole = found.rows("0", everything)
    expected = replace(found, brings_nearer=False).rows("0", everything)
    assert bring_nearer(expected)[7]
    np.testing.assert_array_equal(whole, expected)
    np.testing.assert_array_equal(found.rows("0", some), whole[some])
    assert np.linalg.norm(found.chosen_by(some, labels, Classes(2))[0], axis=1).max() < 100


def test_the_dither_of_each_party_is_allowed_for_in_its_own_rows() -> None:
    found, _ = made_up(turned)
    parties = int(found.senders.max()) + 1
    everything, some = np.ones(400, np.bool_), np.arange(400) % 3 == 0
    expected = found.rows("0", everything)
    last = found.senders == parties - 1
    own = expected[last]
    allow_for_dither(own, 0.5)
    expected[last] = own
    stated = replace(found, dithers=(*([0.0] * (parties - 1)), 0.5))
    np.testing.assert_array_equal(stated.rows("0", everything), expected)
    np.testing.assert_array_equal(stated.rows("0", some), expected[some])


# judging


def test_every_fit_for_judging_chooses_again_on_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no score is read off rows that chose."""
    compared: list[tuple[int, int, float]] = []

    def watched(entrants: Any, labels: Any, task: Any, senders: Any, **options: Any) -> Choice:
        compared.append((len(labels), len(np.unique(senders)), options["budget_s"]))
        assert {len(one.rows()) for one in entrants} == {len(labels)}
        return compare(entrants, labels, task, senders, **options)

    monkeypatch.setattr(module, "compare", watched)
    found, labels = made_up(turned, same, budget_s=90.0)
    rows = found.rows("1", np.ones(400, np.bool_))
    told = judge(Logistic(), rows, labels, Classes(2), found.senders, list("abcd"), alignments=found)
    assert compared == [(320, 4, 10.0)] * 5 + [(300, 3, 10.0)] * 4
    assert told.headline is not None


def test_what_is_predicted_is_of_the_rows_by_the_method_that_was_chosen_again() -> None:
    """The rows that `judge` is given are those of another method, by which nobody can be predicted."""
    found, labels = made_up(useless, same)
    given = found.rows("0", np.ones(400, np.bool_))
    told = judge(Logistic(), given, labels, Classes(2), found.senders, list("abcd"), alignments=found)
    alone = judge(Logistic(), found.rep, labels, Classes(2), found.senders, list("abcd"))
    assert (told.within, told.across) == (alone.within, alone.across)


@pytest.mark.parametrize("seed", range(3))
def test_many_alignments_of_noise_score_like_chance(seed: int) -> None:
    """The best of them looks better than chance on the rows that chose it."""
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((400, 30)), rng.integers(0, 2, 400)
    along = [np.stack([np.diag(np.arange(30) // 5 == number)] * 4) * 1.0 for number in range(6)]
    changes = {str(number): (lambda one=one: one) for number, one in enumerate(along)}
    found = Alignments(rows, np.arange(400) % 4, changes, LOGISTIC, 1e9, 0)
    told = judge(Logistic(), rows, labels, Classes(2), found.senders, list("abcd"), alignments=found)
    assert told.within is not None
    assert abs(told.within.figures["roc_auc"].mean - 0.5) < 0.11  # four standard errors


def test_judging_says_where_its_time_was_over() -> None:
    found, labels = made_up(same, turned, budget_s=0.0)
    told = judge(Logistic(), found.rep, labels, Classes(2), found.senders, list("abcd"), alignments=found)
    assert told.notes == ("in 9 fits for judging, the time was over before all alignments were compared",)
