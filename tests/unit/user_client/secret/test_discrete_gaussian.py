"""Samples of the discrete Gaussian: against its probabilities, and where floating point cannot decide."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tests.harness.problems import stream
from user_client.secret import discrete_gaussian as module
from user_client.secret.discrete_gaussian import LARGEST_DEVIATION, discrete_gaussian
from user_client.secret.expansion import ByteSource


def probabilities(deviation: int, values: np.ndarray) -> np.ndarray:
    every = np.arange(-60 * deviation, 60 * deviation + 1)
    whole = np.exp(-(every**2) / (2 * deviation**2)).sum()
    return np.asarray(np.exp(-(values**2) / (2 * deviation**2)) / whole)


@pytest.mark.parametrize("deviation", [1, 2, 7])
def test_every_integer_comes_as_often_as_it_should(deviation: int) -> None:
    count = 200_000
    drawn = discrete_gaussian(count, deviation, stream(deviation))
    edge = 3 * deviation
    values = np.arange(-edge, edge + 1)
    expected = count * probabilities(deviation, values)
    found = np.array([np.sum(drawn == value) for value in values])
    outside = count - expected.sum(), count - found.sum()
    statistic = np.sum((found - expected) ** 2 / expected) + (outside[1] - outside[0]) ** 2 / outside[0]
    assert stats.chi2.sf(statistic, len(values)) > 1e-4


@pytest.mark.parametrize("deviation", [2**20 + 1, 2**40 + 12345, LARGEST_DEVIATION])
def test_large_samples_are_those_of_a_normal_distribution(deviation: int) -> None:
    drawn = discrete_gaussian(50_000, deviation, stream(3))
    assert stats.kstest(drawn / deviation, "norm").pvalue > 1e-4
    assert len(np.unique(drawn)) > 0.9 * len(drawn)
    for bit in range(8):  # also the last digits are drawn
        assert np.mean((drawn >> bit) & 1) == pytest.approx(0.5, abs=0.012)


def test_two_numbers_have_nothing_to_do_with_each_other() -> None:
    drawn = discrete_gaussian(100_000, 1000, stream(4)).reshape(-1, 2)
    assert abs(float(np.mean(drawn[:, 0] * drawn[:, 1]))) / 1000**2 < 0.02


@pytest.mark.parametrize("deviation", [0, -1, LARGEST_DEVIATION + 1])
def test_a_deviation_out_of_range_is_refused(deviation: int) -> None:
    with pytest.raises(ValueError, match="deviation"):
        discrete_gaussian(1, deviation, stream(0))


@pytest.mark.parametrize("exponent", [Fraction(1), Fraction(1, 3), Fraction(50)])
def test_a_comparison_that_is_too_close_is_settled_by_more_bits(exponent: Fraction) -> None:
    """The first 53 bits are those of the probability itself: what follows decides."""
    context = Context(prec=60)
    probability = context.exp(context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator)))
    bits = int(context.multiply(probability, Decimal(2**53)))

    def settled(bits: int, rest: bytes) -> bool:
        return module.settled(bits, exponent, lambda count: rest * count)

    assert settled(bits, b"\0")
    assert not settled(bits, b"\xff")
    assert not settled(bits + 1, b"\0")
    assert bits == 0 or settled(bits - 1, b"\xff")


def test_what_is_certain_happens() -> None:
    assert module.settled(2**53 - 1, Fraction(0), lambda count: b"\xff" * count)


def test_close_comparisons_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a margin so wide that every comparison is close, the same numbers come out."""
    expected = discrete_gaussian(300, 50, stream(8))
    monkeypatch.setattr(module, "SURE", 2.0**-46)
    np.testing.assert_array_equal(discrete_gaussian(300, 50, stream(8)), expected)
    monkeypatch.setattr(module, "SURE", 2.0)
    calls: list[int] = []
    settled = module.settled

    def counted(bits: int, exponent: Fraction, source: ByteSource) -> bool:
        calls.append(bits)
        return settled(bits, exponent, source)

    monkeypatch.setattr(module, "settled", counted)
    np.testing.assert_array_equal(discrete_gaussian(300, 50, stream(8)), expected)
    assert len(calls) > 300
