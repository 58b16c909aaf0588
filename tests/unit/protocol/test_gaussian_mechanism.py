"""How much Gaussian noise is enough: against the definition, and against the printed formula."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from protocol.gaussian_mechanism import erfcx, gaussian_delta, gaussian_sigma

PAIRS = [(0.1, 1e-6), (0.5, 1e-5), (1.0, 1e-5), (1.0, 0.05), (4.0, 1e-6), (10.0, 1e-8)]
epsilons = st.floats(1e-3, 100)
deltas = st.floats(1e-12, 0.5)
sensitivities = st.floats(1e-3, 1e3)


def closed_form(epsilon: float, sigma: float, sensitivity: float) -> float:
    """Theorem 8 of Balle and Wang as it is printed."""
    first, second = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    return float(stats.norm.cdf(first - second) - math.exp(epsilon + stats.norm.logcdf(-first - second)))


def by_definition(epsilon: float, sigma: float, sensitivity: float) -> float:
    """Theorem 5: the integral of ``max(0, p - e^epsilon q)`` over two densities at that distance."""

    def excess(x: float) -> float:
        p, q = stats.norm.pdf(x, sensitivity, sigma), stats.norm.pdf(x, 0, sigma)
        return float(max(0.0, p - math.exp(epsilon) * q))

    equal_at = sensitivity / 2 + epsilon * sigma**2 / sensitivity
    found, _ = integrate.quad(excess, equal_at, equal_at + 12 * sigma, epsabs=0, epsrel=1e-9, limit=200)
    return float(found)


# the noise gives the stated epsilon


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
@pytest.mark.parametrize("sensitivity", [0.3, 2.0, 56.0])
def test_the_noise_gives_the_stated_epsilon_by_the_definition(
    epsilon: float, delta: float, sensitivity: float
) -> None:
    sigma = gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
    assert by_definition(epsilon, sigma, sensitivity) == pytest.approx(delta, rel=1e-6)


@given(epsilon=epsilons, delta=deltas, sensitivity=sensitivities)
def test_the_noise_is_enough_and_one_percent_less_is_not(
    epsilon: float, delta: float, sensitivity: float
) -> None:
    sigma = gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
    assert closed_form(epsilon, sigma, sensitivity) <= delta * (1 + 1e-6)  # the printed form loses digits
    assert closed_form(epsilon, 0.99 * sigma, sensitivity) > delta


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_the_delta_of_the_noise_is_that_of_theorem_8(epsilon: float, delta: float) -> None:
    for sigma in (0.2, 1.0, 3.0):
        assert gaussian_delta(epsilon, sigma, sensitivity=1) == pytest.approx(
            closed_form(epsilon, sigma, 1), rel=1e-6
        )


@given(st.floats(0, 1e200))
def test_the_scaled_error_function_is_that_of_scipy(x: float) -> None:
    assert erfcx(x) == pytest.approx(float(special.erfcx(x)), rel=1e-13, abs=0)


@given(st.floats(1e-6, 1e6), st.floats(1e-100, 1 - 1e-9))
def test_noise_for_extreme_parameters_is_found(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta, sensitivity=1)
    assert gaussian_delta(epsilon, sigma, sensitivity=1) <= delta
    assert gaussian_delta(epsilon, 0.99 * sigma, sensitivity=1) > delta


def test_less_noise_is_needed_than_by_the_classical_formula() -> None:
    """sqrt(2 ln(1.25 / delta)) / epsilon, proven for epsilon below 1 only."""
    for epsilon, delta in [(0.1, 1e-6), (0.5, 1e-5), (0.9, 1e-3)]:
        classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        assert gaussian_sigma(epsilon, delta, sensitivity=1) < 0.95 * classical


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [(0, 0.1, 1), (-1, 0.1, 1), (math.inf, 0.1, 1), (math.nan, 0.1, 1), (1, 0, 1), (1, 1, 1), (1, 0.1, 0)],
)
def test_parameters_out_of_range_are_refused(epsilon: float, delta: float, sensitivity: float) -> None:
    with pytest.raises(ValueError, match="must be positive, delta between 0 and 1"):
        gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
