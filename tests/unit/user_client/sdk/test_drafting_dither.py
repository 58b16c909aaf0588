"""What dither costs a model of a table's own rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.labels import BinaryLabel, Label, MultiLabel, NumberLabel, SurvivalLabel
from protocol.model_terms import AveragedTerms, MlpTerms, RidgeTerms
from user_client.privacy.information import Information
from user_client.sdk.drafting_dither import cost_of_dither, remarks_on_dither
from user_client.secret.expansion import Matrix64

ROWS = 800
NUMBER = NumberLabel(name="price", low=-100, high=100)
SICK = Label(name="sick", classes=("no", "yes"))
SEVERAL = MultiLabel(
    labels=tuple(BinaryLabel(name=name, absent="no", present="yes") for name in ("sick", "old"))
)


def rows_of(seed: int, count: int = ROWS) -> Matrix64:
    """Return rows of numbers between -1 and 1, which tell a label along the first of five columns."""
    return np.random.default_rng(seed).uniform(-1, 1, (count, 5))


def curved(rows: Matrix64) -> NDArray[np.float32]:
    return np.exp(2.5 * rows[:, 0]).astype(np.float32)


def straight(rows: Matrix64) -> NDArray[np.float32]:
    noise = np.random.default_rng(1).standard_normal(len(rows))
    return (rows @ [3.0, 1, 0, 0, 0] + 0.5 * noise).astype(np.float32)


def bits(dither: float) -> Information:
    return Information(row_bits=40.0, sent_bits=5 / dither)


def test_what_noise_hides_of_a_curve_is_named_with_what_half_of_it_hides() -> None:
    rows = rows_of(0)
    (words,) = remarks_on_dither(rows, curved(rows), NUMBER, AveragedTerms(), 0.5, bits)
    cost, weaker = (cost_of_dither(rows, curved(rows), NUMBER, AveragedTerms(), one) for one in (0.5, 0.25))
    assert cost is not None
    assert weaker is not None
    assert cost.with_dither < weaker.with_dither < cost.without
    assert words.startswith("dither 0.5: trained on rows with this noise, ")
    assert f"R squared {cost.with_dither:.3f} on rows that were left out, and {cost.without:.3f}" in words
    assert f"--dither 0.25 would leave {weaker.with_dither:.3f}, and let at most 20 bits" in words
    assert words.endswith("instead of 10")


@pytest.mark.parametrize("seed", range(3))
def test_a_line_loses_nothing_that_is_named(seed: int) -> None:
    rows = rows_of(seed)
    cost = cost_of_dither(rows, straight(rows), NUMBER, AveragedTerms(), 0.5)
    assert cost is not None
    assert cost.without > 0.9
    assert cost.without - cost.with_dither < 0.01
    assert not list(remarks_on_dither(rows, straight(rows), NUMBER, AveragedTerms(), 0.5, bits))


def test_another_kind_is_stood_for_by_the_drafted_one() -> None:
    rows = rows_of(0)
    found = cost_of_dither(rows, curved(rows), NUMBER, MlpTerms(), 0.5)
    assert found == cost_of_dither(rows, curved(rows), NUMBER, AveragedTerms(), 0.5)


def test_classes_and_several_labels_are_compared_by_their_roc_auc() -> None:
    rows = rows_of(0)
    sick, old = (np.abs(rows[:, 0]) > 0.5).astype(np.uint8), (rows[:, 1] > 0).astype(np.uint8)
    one = cost_of_dither(rows, sick, SICK, AveragedTerms(epochs=100), 1.0)
    both = cost_of_dither(rows, sick | old << 1, SEVERAL, AveragedTerms(epochs=100), 1.0)
    assert one is not None
    assert both is not None
    assert (one.metric, both.metric) == ("roc_auc", "roc_auc")
    assert one.is_clear
    assert one.without - one.with_dither > both.without - both.with_dither > 0  # a line loses nothing


def test_the_same_rows_say_the_same_again() -> None:
    rows = rows_of(0)
    found = [cost_of_dither(rows, straight(rows), NUMBER, AveragedTerms(), 0.5) for _ in range(2)]
    assert found[0] == found[1]


def test_nothing_is_said_where_nothing_can_be_told() -> None:
    rows = rows_of(0)
    survival = SurvivalLabel(name="t", event="e", seen="1", censored="0", horizon=2.0, times=(1.0,))
    assert cost_of_dither(rows, curved(rows), NUMBER, AveragedTerms(), 0.0) is None
    assert cost_of_dither(rows, curved(rows), NUMBER, RidgeTerms(), 0.5) is None
    assert cost_of_dither(rows, curved(rows), survival, AveragedTerms(), 0.5) is None
    assert cost_of_dither(rows, np.ones(ROWS, np.float32), NUMBER, AveragedTerms(), 0.5) is None
    assert cost_of_dither(rows[:150], curved(rows)[:150], NUMBER, AveragedTerms(), 0.5) is None
    assert cost_of_dither(rows, np.ones(ROWS, np.uint8), SICK, AveragedTerms(), 0.5) is None
    # it would take long
    many = Label(name="place", classes=tuple(map(str, range(800))))
    assert cost_of_dither(rows, np.arange(ROWS) % 800, many, AveragedTerms(), 0.5) is None
