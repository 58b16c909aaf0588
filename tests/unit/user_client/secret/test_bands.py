"""Which columns tell the label in bands, and which along a curve that models of projected rows find."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from user_client.secret.bands import BENDS, FEWEST_ROWS, Told, told_by

ROWS = 1500
Numbers = np.ndarray


def told(
    draw: Callable[[np.random.Generator], Numbers],
    log_odds: Callable[[Numbers], Numbers],
    seed: int,
    bends: int = BENDS,
) -> Told:
    rng = np.random.default_rng(seed)
    values = draw(rng)
    labels = rng.random(len(values)) < 1 / (1 + np.exp(-log_odds(values)))
    found = told_by(values, np.column_stack([labels, ~labels]).astype(np.float64), bends)
    assert found is not None
    return found


def of_a_day(rng: np.random.Generator) -> Numbers:
    return rng.uniform(0, 24, ROWS)


def codes(rng: np.random.Generator) -> Numbers:
    return rng.integers(0, 8, ROWS).astype(np.float64)


def normal(rng: np.random.Generator) -> Numbers:
    return rng.standard_normal(ROWS)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("draw", "log_odds"),
    [
        (of_a_day, lambda hour: 3 * np.sin(2 * np.pi * hour / 8)),
        (codes, lambda code: np.array([2, -2, 1, -1, 2, -2, 2, -2])[code.astype(int)]),
    ],
    ids=["shifts of eight hours", "codes"],
)
def test_numbers_that_go_up_and_down_are_found(draw: Callable, log_odds: Callable, seed: int) -> None:  # type: ignore[type-arg]
    found = told(draw, log_odds, seed)
    assert found.is_lost
    assert found.in_bands > 0.3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("draw", "log_odds"),
    [
        (normal, lambda x: 0 * x),
        (normal, lambda x: 2 * x),
        (normal, lambda x: 20 * x),
        (normal, lambda x: 2 * x**2 - 2),
        (normal, lambda x: 4.0 * (x > 0) - 2),
        (normal, lambda x: 4.0 * (x > 1.3) - 2),
        (of_a_day, lambda hour: 2 * np.sin(2 * np.pi * hour / 24)),
        (of_a_day, lambda hour: 3.0 * (hour < 5) - 1),
        (lambda rng: rng.exponential(size=ROWS), lambda x: x - 4),
    ],
    ids=["nothing", "line", "steep", "both ends", "step", "high alone", "a day", "night", "tail"],
)
def test_what_a_smooth_curve_tells_is_not_named(draw: Callable, log_odds: Callable, seed: int) -> None:  # type: ignore[type-arg]
    assert not told(draw, log_odds, seed).is_lost


@pytest.mark.parametrize(("rows", "share"), [(FEWEST_ROWS, 0.03), (FEWEST_ROWS, 0.1), (1000, 0.005)])
def test_among_many_columns_that_mean_nothing_chance_finds_none(rows: int, share: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        labels = (rng.random(rows) < share).astype(np.float64)
        labels[:5] = 1
        found = [told_by(rng.standard_normal(rows), labels[:, None]) for _ in range(50)]
        assert not any(one.is_lost for one in found if one is not None)


def test_few_rows_and_a_constant_tell_nothing() -> None:
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 2, (ROWS, 1)).astype(np.float64)
    assert told_by(rng.standard_normal(FEWEST_ROWS - 1), targets[: FEWEST_ROWS - 1]) is None
    assert told_by(np.zeros(ROWS), targets) is None
    assert told_by(rng.standard_normal(ROWS), np.ones((ROWS, 1))) is None


def twice_around(rng: np.random.Generator) -> Numbers:
    return rng.uniform(0, 2 * np.pi, ROWS)


def many_codes(rng: np.random.Generator) -> Numbers:
    return rng.integers(0, 60, ROWS).astype(np.float64)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("draw", "log_odds", "bends", "words"),
    [
        (normal, lambda x: 2.5 * (x**2 - 1), 1, "a straight line"),
        (twice_around, lambda angle: 2 * np.cos(2 * angle), 2, "a curve of one bend"),
    ],
    ids=["both ends of a linear model", "twice around for one bend"],
)
def test_a_curve_that_the_model_cannot_draw_is_found(
    draw: Callable[..., Numbers], log_odds: Callable[..., Numbers], bends: int, words: str, seed: int
) -> None:
    found = told(draw, log_odds, seed, bends)
    assert found.is_lost
    assert f"hardly along {words}" in found.in_words()
    assert "which the model of these terms misses" in found.in_words()
    assert not told(draw, log_odds, seed, BENDS).is_lost


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bends", [1, 2])
def test_a_line_and_a_step_are_drawn_by_every_model(bends: int, seed: int) -> None:
    assert not told(normal, lambda x: 2 * x, seed, bends).is_lost
    assert not told(normal, lambda x: 2 * np.tanh(2 * x), seed, bends).is_lost


@pytest.mark.parametrize("seed", range(3))
def test_many_codes_are_told_by_a_mean_for_each(seed: int) -> None:
    effects = np.random.default_rng(seed + 100).normal(size=60) * 2
    found = told(many_codes, lambda code: effects[code.astype(int)], seed)
    assert found.is_lost
    assert found.by_number
    assert "one for each number" in found.in_words()
    assert not told(many_codes, lambda code: code / 15 - 2, seed).is_lost
