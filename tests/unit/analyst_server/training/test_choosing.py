"""The choice among models: which, on what, and that no score is read off rows that chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from analyst_server.training import choosing
from analyst_server.training.choosing import (
    NO_PARTY_HAS_ALL,
    NO_TIME,
    NOT_COMPARED,
    NOT_FITTED,
    Auto,
    Choice,
    choose,
)
from analyst_server.training.cox import Cox
from analyst_server.training.judging import judge
from analyst_server.training.logistic import Logistic
from analyst_server.training.models import Model, fit_task
from analyst_server.training.party_scores import Figure, PartyScore
from analyst_server.training.ridge import Ridge
from analyst_server.training.tasks import Classes, Numbers, Survival
from analyst_server.training.trees import RandomForest
from tests.harness.problems import blobs, numbers, survivals

LOGISTIC = ("logistic", Logistic())
FOREST = ("random-forest", RandomForest(trees=20))


@dataclass(frozen=True)
class Blind(Model):
    """Says the same of every row."""

    size: int = 1

    def classifier(self, labels: Any, latent_dim: int) -> Any:  # noqa: ARG002
        return DummyClassifier()

    def parameters(self, fitted: Any) -> int:  # noqa: ARG002
        return self.size


@dataclass(frozen=True)
class Demanding(Blind):
    """Cannot be fitted on fewer rows of a class than it wants."""

    rows_per_class: ClassVar[int] = 190


def circles(rows: int = 600) -> tuple[Any, Any]:
    """Rows whose class is no matter of a straight line."""
    drawn = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float32)
    return drawn, (np.square(drawn).sum(axis=1) > 2.4).astype(np.int64)


def chosen(
    *candidates: tuple[str, Model],
    data: tuple[Any, Any] | None = None,
    parties: int = 6,
    budget_s: float = 1e9,
    clock: Callable[[], float] = lambda: 0.0,
    seed: int = 0,
) -> Choice:
    rows, labels = data or blobs(2, rows=400)
    senders = np.arange(len(labels)) // 2 % parties
    options: Any = {"budget_s": budget_s, "seed": seed, "clock": clock}
    return choose(candidates, rows, labels, Classes(2), senders, **options)


def names(choice: Choice) -> list[str]:
    return [one.name for one in choice.candidates]


@pytest.mark.parametrize("order", [1, -1])
def test_the_model_that_learns_is_chosen_in_any_order(order: int) -> None:
    found = chosen(*[LOGISTIC, FOREST][::order], data=circles())
    assert found.as_json()["chosen"] == "random-forest"
    assert names(found) == ["logistic", "random-forest"][::order]


def test_of_models_that_are_as_good_the_first_in_the_terms_is_chosen() -> None:
    found = chosen(("blind", Blind()), LOGISTIC, ("other", Logistic()))
    assert found.as_json()["chosen"] == "logistic"
    assert [one.mean > 0.9 for one in found.candidates] == [False, True, True]


@pytest.mark.parametrize(("behind", "winner"), [([0.03, 0.02, 0.0], "first"), ([0.01, 0.02, 0.01], "second")])
def test_the_first_may_be_behind_by_two_standard_errors_of_the_difference(
    behind: list[float], winner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.9 and 4 standard errors of the difference; the spread over the folds is larger than both."""
    of_folds = {1: np.subtract([0.9, 0.7, 0.5], behind).tolist(), 2: [0.9, 0.7, 0.5]}
    sizes: list[int] = []

    def fitted(model: Any, *given: Any) -> Any:
        sizes.append(model.size)
        return fit_task(model, *given)

    def score(_task: Classes, labels: Any, _found: Any) -> PartyScore:
        value = of_folds[sizes[-1]][(len(sizes) - 1) % 3] if sizes else 0.5
        return PartyScore(len(labels), {"roc_auc": Figure(value, 0.0)}, 0.0)

    monkeypatch.setattr(choosing, "fit_task", fitted)
    monkeypatch.setattr(Classes, "score", score)
    found = chosen(("first", Blind(size=1)), ("second", Blind(size=2)), parties=3)
    assert found.as_json()["chosen"] == winner


def test_candidates_come_with_mean_spread_and_folds() -> None:
    found = chosen(LOGISTIC, FOREST, data=circles()).as_json()
    assert (found["metric"], found["scored_parties"], len(found["candidates"])) == ("roc_auc", 6, 2)
    assert found["folds"] == "5 groups of parties, each left out in turn"
    for one in found["candidates"]:
        assert 0.4 < one["mean"] < 1
        assert 0 < one["spread"] < 0.2
        assert one["folds"] == 5
        assert one["parameters"] > 4


def test_no_party_is_on_both_sides_of_a_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """These rows tell their sender, and so what most of its labels are."""
    rng = np.random.default_rng(0)
    senders = np.arange(1200) % 12
    labels = (rng.random(1200) < np.where(senders % 2, 0.8, 0.2)).astype(np.int64)
    rows = 3 * np.eye(12)[senders] + 0.1 * rng.standard_normal((1200, 12))
    seen: list[Any] = []

    def watched(model: Any, aligned_rep: Any, *given: Any) -> Any:
        seen.append(set(aligned_rep.argmax(axis=1).tolist()))
        return fit_task(model, aligned_rep, *given)

    monkeypatch.setattr(choosing, "fit_task", watched)
    choose([LOGISTIC], rows, labels, Classes(2), senders, budget_s=1, seed=0)
    assert sorted(len(parties) for parties in seen) == [9, 9, 10, 10, 10]
    assert set.intersection(*seen) == set()


@pytest.mark.parametrize("parties", [1, 2])
def test_with_few_parties_parts_of_their_rows_are_left_out(parties: int) -> None:
    found = chosen(LOGISTIC, FOREST, data=circles(), parties=parties)
    assert found.folds == "5 parts of every party's rows, each left out in turn (too few parties)"
    assert found.as_json()["chosen"] == "random-forest"
    assert found.scored_parties == parties


def test_with_too_few_rows_the_first_is_taken_and_nothing_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(choosing, "fit_task")
    found = chosen(FOREST, LOGISTIC, data=blobs(2, rows=20))
    assert found.as_json()["chosen"] == "random-forest"
    assert found.rule == NOT_COMPARED
    assert {one.why_none for one in found.candidates} == {NOT_COMPARED}


def test_where_no_party_has_every_class_that_is_the_reason_and_not_too_few_rows() -> None:
    rows, labels = blobs(3, rows=900)
    senders = (labels + np.arange(900) % 2) % 3  # two of the three classes each
    found = choose([LOGISTIC, FOREST], rows, labels, Classes(3), senders, budget_s=1e9, seed=0)
    assert found.rule == NO_PARTY_HAS_ALL
    assert {one.why_none for one in found.candidates} == {NO_PARTY_HAS_ALL}


def test_parties_with_one_class_train_and_are_not_scored() -> None:
    rows, labels = blobs(2, rows=600)
    senders = np.where(labels == 1, np.arange(600) // 2 % 4, np.arange(600) // 2 % 3)
    found = choose([LOGISTIC, FOREST], rows, labels, Classes(2), senders, budget_s=9, seed=0)
    assert found.scored_parties == 3
    assert found.candidates[0].scores


def test_a_candidate_that_cannot_be_fitted_everywhere_is_not_chosen() -> None:
    found = chosen(("demanding", Demanding()), LOGISTIC)
    assert [one.why_none for one in found.candidates] == [NOT_FITTED, None]
    assert found.chosen == 1


@pytest.mark.parametrize(("ticks", "tried"), [(0, 1), (4, 1), (5, 2), (9, 2), (10, 3), (99, 3)])
def test_once_the_time_is_over_no_further_candidate_is_tried(ticks: int, tried: int) -> None:
    """The clock is asked at the beginning and before each of five fits; the first candidate always is."""
    time = iter(range(1000))
    three = [("a", Blind()), ("b", Blind()), ("c", Blind())]
    found = chosen(*three, budget_s=ticks + 0.5, clock=lambda: next(time))
    assert [one.why_none for one in found.candidates] == [None] * tried + [NO_TIME] * (3 - tried)
    assert found.ran_out_of_time == (tried < 3)


def test_the_seed_decides_about_the_groups_and_the_same_one_gives_the_same() -> None:
    one, again, other = (chosen(LOGISTIC, FOREST, data=circles(), seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one.candidates[0].scores != other.candidates[0].scores


def test_numbers_and_survival_are_chosen_for_too() -> None:
    rows, aims = numbers(rows=400)
    senders = np.arange(400) % 4
    of_numbers = Auto(candidates=(("ridge", Ridge()), FOREST))
    found = fit_task(of_numbers, rows, aims, Numbers(), senders).choice
    assert found is not None
    assert (found.metric, found.as_json()["chosen"]) == ("r2", "ridge")
    rows, times = survivals(400)
    penalties = tuple((f"cox {penalty}", Cox(inverse_penalty=penalty)) for penalty in (0.1, 1e-6))
    found = fit_task(Auto(candidates=penalties), rows, times, Survival((0.2, 0.5)), senders).choice
    assert found is not None
    assert found.metric == "c_index"


def test_what_is_fitted_is_the_chosen_model_on_all_rows() -> None:
    rows, labels = circles()
    asked = Auto(candidates=(LOGISTIC, FOREST))
    fitted = fit_task(asked, rows, labels, Classes(2), np.arange(600) % 4)
    alone = fit_task(FOREST[1], rows, labels, Classes(2))
    np.testing.assert_array_equal(fitted.predictions(rows), alone.predictions(rows))
    assert (fitted.model, fitted.parameters) == (FOREST[1], alone.parameters)


def test_a_choice_needs_principal_axes_if_a_candidate_does() -> None:
    assert Auto(candidates=(LOGISTIC, FOREST)).needs_principal_axes
    assert not Auto(candidates=(LOGISTIC, ("blind", Blind()))).needs_principal_axes


# judging


def test_every_fit_for_judging_chooses_again_on_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no score is read off rows that chose."""
    compared: list[tuple[int, int, float]] = []

    def watched(candidates: Any, rows: Any, labels: Any, task: Any, senders: Any, **options: Any) -> Choice:
        compared.append((len(rows), len(np.unique(senders)), options["budget_s"]))
        return choose(candidates, rows, labels, task, senders, **options)

    monkeypatch.setattr(choosing, "choose", watched)
    rows, labels = blobs(2, rows=400)
    asked = Auto(candidates=(LOGISTIC, ("blind", Blind())), budget_s=90.0)
    found = judge(asked, rows, labels, Classes(2), np.arange(400) // 2 % 4, list("abcd"))
    assert compared == [(320, 4, 10.0)] * 5 + [(300, 3, 10.0)] * 4
    assert found.headline is not None


@pytest.mark.parametrize("seed", range(3))
def test_many_candidates_on_noise_score_like_chance(seed: int) -> None:
    """The best of them looks better than chance on the rows that chose it."""
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((400, 30)), rng.integers(0, 2, 400)
    asked = Auto(candidates=tuple((f"{c}", Logistic(inverse_penalty=c)) for c in (1e-4, 1e-2, 1.0, 100.0)))
    found = judge(asked, rows, labels, Classes(2), np.arange(400) % 4, list("abcd"))
    assert found.within is not None
    assert abs(found.within.figures["roc_auc"].mean - 0.5) < 0.11  # four standard errors


def test_judging_says_where_its_time_was_over() -> None:
    rows, labels = blobs(2, rows=400)
    asked = Auto(candidates=(LOGISTIC, FOREST), budget_s=0.0)
    found = judge(asked, rows, labels, Classes(2), np.arange(400) // 2 % 4, list("abcd"))
    assert found.notes == ("in 9 fits for judging, the time was over before all models were compared",)


def test_where_no_party_can_be_scored_the_first_is_taken_and_the_judgement_says_why() -> None:
    rows, labels = blobs(2, rows=400)
    asked = Auto(candidates=(LOGISTIC, FOREST))
    assert fit_task(asked, rows, labels, Classes(2), labels).model == LOGISTIC[1]
    found = judge(asked, rows, labels, Classes(2), labels, list("ab"))
    assert str(found.why_none).startswith("2 of 2 parties sent rows of one class only")
