"""Who sent a row is worth nothing, what can be learned is scored, and no round fails of it."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from analyst_server.training import groups, judging
from analyst_server.training.cox import Cox
from analyst_server.training.judgement import Judgement
from analyst_server.training.judging import FOLDS, MOST_GROUPS, judge
from analyst_server.training.logistic import Logistic
from analyst_server.training.metrics import score
from analyst_server.training.models import Model, fit, fit_task
from analyst_server.training.ridge import Ridge
from analyst_server.training.tasks import Classes, Numbers, Survival, Task
from tests.harness.peaks import peak_bytes
from tests.harness.problems import MODELS, MODELS_OF_NUMBERS, blobs, numbers, survivals

QUICK = [kind for kind in MODELS if kind not in ("mlp", "averaged")]  # networks take longer


def judged(model: Model, rows: Any, labels: Any, senders: Any, classes: int = 2) -> Judgement:
    names = [f"party-{number}" for number in range(int(senders.max()) + 1)]
    return judge(model, rows, labels, Classes(classes), senders, names)


def who_sent_it(share: float, rows: int = 800, parties: int = 4) -> tuple[Any, Any, Any]:
    """Return rows that tell their sender and nothing else; half of the parties have mostly class 0."""
    rng = np.random.default_rng(0)
    senders = np.arange(rows) % parties
    labels = (rng.random(rows) < np.where(senders % 2, share, 1 - share)).astype(np.int64)
    return 3 * np.eye(parties)[senders] + 0.1 * rng.standard_normal((rows, parties)), labels, senders


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the fits by their rows."""
    counted: list[int] = []

    def counting(model: Model, rows: Any, labels: Any, task: Task, senders: Any) -> Any:
        counted.append(len(rows))
        return fit_task(model, rows, labels, task, senders)

    monkeypatch.setattr(groups, "fit_task", counting)
    return counted


def test_a_model_that_knows_who_sent_a_row_does_not_look_good() -> None:
    rows, labels, senders = who_sent_it(0.9)
    pooled = fit(Logistic(), rows[:600], labels[:600], 2).pipeline.predict_proba(rows[600:])
    assert score(labels[600:], pooled)["roc_auc"] > 0.85
    found = judged(Logistic(), rows, labels, senders)
    assert found.within is not None
    assert found.across is not None
    for estimate in (found.within, found.across):
        assert estimate.figures["roc_auc"].low < 0.5 < estimate.figures["roc_auc"].high
    assert found.headline is None or found.headline["roc_auc"].mean < 0.6


def test_one_class_per_party_has_no_score_at_all(fits: list[int]) -> None:
    found = judged(Logistic(), *who_sent_it(1.0))
    assert (found.within, found.across, found.headline) == (None, None, None)
    assert str(found.why_none).startswith("4 of 4 parties sent rows of one class only")
    assert not fits


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("classes", [2, 3])
def test_every_kind_of_model_is_scored_in_both_ways(kind: str, classes: int) -> None:
    rows, labels = blobs(classes, rows=300)
    found = judged(MODELS[kind], rows, labels, np.arange(300) // 100, classes)
    for estimate in (found.within, found.across):
        assert estimate is not None
        assert estimate.figures["roc_auc"].mean > 0.85
        assert estimate.figures["accuracy"].mean > 0.75
        assert list(estimate.by_party) == ["party-0", "party-1", "party-2"]
        assert estimate.rows == 300
    assert found.headline is not None or "too few rows" in str(found.why_none)


@pytest.mark.parametrize("seed", range(3))
def test_noise_scores_like_chance(seed: int) -> None:
    """A model that was measured on rows it had seen would score far better."""
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((600, 40)), rng.integers(0, 2, 600)
    found = judged(Logistic(inverse_penalty=100), rows, labels, np.arange(600) % 3)
    assert found.within is not None
    assert found.across is not None
    assert abs(found.within.figures["roc_auc"].mean - 0.5) < 0.1  # four standard errors
    assert abs(found.across.figures["roc_auc"].mean - 0.5) < 0.1


def test_rows_that_a_party_sends_several_times_give_no_headline() -> None:
    """Their copies train the model that scores them; holding out the whole party shows it."""
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((200, 150)), np.arange(200) % 2
    thrice, senders = np.repeat(np.arange(200), 3), np.repeat(np.arange(4), 150)
    found = judged(Logistic(inverse_penalty=100), rows[thrice], labels[thrice], senders)
    assert "disagree by more than their intervals" in str(found.why_none)


def test_judging_again_gives_the_same() -> None:
    rows, labels = blobs(2)
    once, again = (judged(MODELS["mlp"], rows, labels, np.arange(150) % 3) for _ in range(2))
    assert once == again


def test_every_part_holds_its_share_of_every_class_of_every_party(fits: list[int]) -> None:
    rows, labels = blobs(2, rows=400)
    judged(Logistic(), rows, labels, np.arange(400) // 2 % 4)
    assert fits == [320] * FOLDS + [300] * 4


@pytest.mark.parametrize(("parties", "groups"), [(3, 3), (10, 10), (11, 10), (37, 10)])
def test_at_most_ten_groups_of_parties_are_held_out(fits: list[int], parties: int, groups: int) -> None:
    rows, labels = blobs(2, rows=1200)
    found = judged(Logistic(), rows, labels, np.arange(1200) // 2 % parties)
    assert len(fits) == FOLDS + groups <= FOLDS + MOST_GROUPS
    assert found.across is not None
    assert len(found.across.by_party) == parties


def test_a_large_round_costs_six_fits(fits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MANY_ROWS", 999)
    rows, labels = blobs(2, rows=1000)
    found = judged(Logistic(), rows, labels, np.arange(1000) // 2 % 20)
    assert len(fits) == 6
    assert found.within is not None
    assert found.across is not None
    assert 160 <= found.within.rows <= 240
    assert found.across.rows == 1000


def test_parties_are_called_by_their_names_and_one_without_rows_is_not_judged() -> None:
    rows, labels = blobs(2, rows=200)
    senders = np.repeat([0, 2], 100)
    found = judge(Logistic(), rows, labels, Classes(2), senders, ["alpha", "consumer", "gamma"])
    assert found.within is not None
    assert list(found.within.by_party) == ["alpha", "gamma"]


def test_a_party_whose_rows_are_needed_is_noted() -> None:
    """Without it the model would have no row of a class."""
    rows, labels = blobs(3, rows=300)
    senders = np.where(labels == 2, 0, np.arange(300) // 2 % 2)
    found = judged(Logistic(), rows, labels, senders, 3)
    assert found.notes[0].startswith("the rows of party-0 could not be held out: training needs rows")
    assert found.within is not None
    assert found.across is None


def test_rows_of_one_party_give_no_headline() -> None:
    rows, labels = blobs(2, rows=400)
    found = judged(Logistic(), rows, labels, np.zeros(400, int))
    assert found.within is not None
    assert (found.across, found.headline) == (None, None)
    assert "only one party sent rows" in str(found.why_none)


@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("rows", range(4, 40, 9))
def test_any_small_table_is_judged_without_an_error(
    kind: str, rows: int, classes: int, caplog: pytest.LogCaptureFixture
) -> None:
    data = np.random.default_rng(rows).standard_normal((rows, 3))
    found = judged(MODELS[kind], data, np.arange(rows) % classes, np.arange(rows) // 3, classes)
    assert (found.headline is None) != (found.why_none is None)
    assert not caplog.records


def test_a_round_goes_on_when_judging_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_given: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(groups, "fit_task", broken)
    rows, labels = blobs(2)
    with caplog.at_level(logging.ERROR):
        found = judged(Logistic(), rows, labels, np.arange(150) % 3)
    assert found == Judgement(why_none="judging failed (MemoryError); the analyst's log has the story")
    assert "the model could not be judged" in caplog.text


def judged_numbers(rows: Any, labels: Any, senders: Any, model: Model | None = None) -> Judgement:
    names = [f"party-{number}" for number in range(int(senders.max()) + 1)]
    return judge(model or Ridge(), rows, labels, Numbers(unit=50.0), senders, names)


@pytest.mark.parametrize("kind", MODELS_OF_NUMBERS)
def test_every_kind_is_scored_on_numbers_in_both_ways(kind: str) -> None:
    rows, labels = numbers(rows=400)
    found = judged_numbers(rows, labels, np.arange(400) % 4, MODELS_OF_NUMBERS[kind])
    for estimate in (found.within, found.across):
        assert estimate is not None
        assert list(estimate.figures) == ["r2", "rmse", "mae"]
        assert 0.5 < estimate.decisive.mean < 1
        unexplained = 50.0 * labels.std() * np.sqrt(1 - estimate.decisive.mean)
        assert estimate.figures["rmse"].mean == pytest.approx(unexplained, rel=0.1)  # in the column's unit
    assert found.headline is not None


def test_numbers_that_tell_only_who_sent_them_explain_nothing() -> None:
    """Their mean differs from party to party, and the rows say which party it is."""
    rng = np.random.default_rng(0)
    senders = np.arange(800) % 4
    labels = 0.2 * senders - 0.3 + 0.1 * rng.standard_normal(800)
    rows = 3 * np.eye(4)[senders] + 0.1 * rng.standard_normal((800, 4))
    fitted = fit_task(Ridge(), rows[:600], labels[:600], Numbers()).predictions(rows[600:])[:, 0]
    assert np.corrcoef(fitted, labels[600:])[0, 1] > 0.85
    found = judged_numbers(rows, labels, senders)
    assert found.within is not None
    assert found.within.decisive.mean < 0.05


def test_few_rows_with_numbers_have_no_headline() -> None:
    rows, labels = numbers(rows=80)
    assert "R squared inside the parties may lie" in str(
        judged_numbers(rows, labels, np.arange(80) % 2).why_none
    )
    scattered = judged_numbers(rows[:40], labels[:40], np.arange(40) % 8)
    assert "have 10 held-out rows with different labels" in str(scattered.why_none)


def test_survival_is_scored_in_both_ways() -> None:
    rows, labels = survivals(600)
    names = [f"party-{number}" for number in range(3)]
    found = judge(Cox(), rows, labels, Survival((0.2, 0.5)), np.arange(600) % 3, names)
    for estimate in (found.within, found.across):
        assert estimate is not None
        assert list(estimate.figures) == ["c_index", "ibs"]
        assert 0.65 < estimate.decisive.mean < 0.85
    assert found.headline is not None
    few = judge(Cox(), rows[:60], labels[:60], Survival((0.2, 0.5)), np.arange(60) % 3, names)
    assert "too few events" in str(few.why_none)


def test_predictions_for_all_rows_are_in_memory_once() -> None:
    count, classes = 200_000, 3
    rows, labels = blobs(classes, rows=count)
    senders, task, predictions_bytes = np.arange(count) * 2 // count, Classes(classes), count * classes * 8
    of_a_fit = peak_bytes(lambda: fit_task(Logistic(), rows, labels, task, senders))
    peak = peak_bytes(lambda: judge(Logistic(), rows, labels, task, senders, ["a", "b"]))
    assert peak < 2 * of_a_fit + predictions_bytes
