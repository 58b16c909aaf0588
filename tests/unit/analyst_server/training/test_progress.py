"""What is told of how far a computation is, and that nothing else depends on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from analyst_server.training import progress
from analyst_server.training.averaged import Averaged
from analyst_server.training.choosing import Auto
from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import fit_task
from analyst_server.training.private import PrivateModel, PrivateTraining
from analyst_server.training.progress import MOST, STAGES, UNITS, Told
from analyst_server.training.tasks import Classes, Numbers
from analyst_server.training.trees import GradientBoosting

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((400, 5))
LABELS = (ROWS[:, 0] > 0).astype(np.uint8)


@pytest.fixture
def heard() -> Iterator[list[Told]]:
    found: list[Told] = []
    progress.listen(found.append)
    yield found
    progress.listen(None)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("count", [0, 1, MOST])
def test_what_is_told_goes_through_one_number(stage: str, unit: str, count: int) -> None:
    told = Told(stage, count, MOST, unit)  # type: ignore[arg-type]  # from the lists of them
    assert 0 < told.packed() < 2**64
    assert Told.unpacked(told.packed()) == told


def test_nothing_is_told_by_zero() -> None:
    assert Told.unpacked(0) is None


def test_too_much_to_count_is_told_as_the_most() -> None:
    assert Told.unpacked(Told("training", 2**40, 2**41, "steps").packed()) == Told("training", MOST, MOST)


def test_a_count_inside_of_another_tells_nobody(heard: list[Told]) -> None:
    progress.begin("training")
    with progress.counting(2, "candidates") as note:
        assert list(progress.counted_steps(3)) == [0, 1, 2]
        note(1)
    assert {told.unit for told in heard if told.of} == {"candidates"}
    assert heard[-1] == Told("training"), "the count is over, the stage is not"


def test_who_fails_leaves_no_count_behind(heard: list[Told]) -> None:
    progress.begin("training")
    with pytest.raises(ValueError, match="no rows"), progress.counting(2, "candidates"):
        raise ValueError("no rows")
    assert list(progress.counted_steps(1)) == [0]
    assert Told("training", 1, 1, "steps") in heard


@pytest.mark.parametrize(
    ("model", "of", "unit"),
    [
        (Mlp(hidden_units=200, epochs=150, seed=1), 150, "epochs"),
        (Averaged(hidden_units=200, epochs=150, seed=1), 150, "epochs"),
        (GradientBoosting(trees=150, seed=1), 150, "trees"),
        (PrivateModel(training=PrivateTraining(8.0, 1e-5, steps=30), features=5), 30, "steps"),
        (Auto(candidates=(("a", Logistic()), ("b", Mlp(epochs=5, hidden_units=4))), seed=1), 2, "candidates"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fit_counts_to_its_bound(heard: list[Told], model: Mlp, of: int, unit: str) -> None:
    progress.begin("training")
    fit_task(model, ROWS, LABELS, Classes(2), np.arange(len(ROWS)) % 4)
    counted = [told for told in heard if told.of == of and told.unit == unit]
    assert counted
    assert all(0 <= told.done <= of for told in counted)
    assert all(before.done <= after.done for before, after in pairwise(counted))
    assert heard[-1] == Told("training")


@pytest.mark.parametrize(
    "model",
    [
        Mlp(hidden_units=50, epochs=40, seed=1),
        Averaged(hidden_units=50, epochs=40, seed=1),
        GradientBoosting(trees=20, seed=1),
    ],
)
def test_who_listens_changes_no_number(model: Mlp) -> None:
    alone = fit_task(model, ROWS, LABELS, Classes(2)).predictions(ROWS)
    progress.listen(lambda _told: None)
    try:
        heard = fit_task(model, ROWS, LABELS, Classes(2)).predictions(ROWS)
    finally:
        progress.listen(None)
    assert np.array_equal(alone, heard)


def test_the_epochs_of_a_regression_that_is_averaged_are_counted(heard: list[Told]) -> None:
    fit_task(Averaged(hidden_units=200, epochs=150, seed=1), ROWS, ROWS[:, 0], Numbers())
    assert any(told.of == 150 and told.unit == "epochs" for told in heard)


def test_no_thread_outlives_its_fit(heard: list[Told]) -> None:
    fit_task(Mlp(epochs=3), ROWS, LABELS, Classes(2))
    assert heard
    assert "progress" not in {thread.name for thread in threading.enumerate()}
