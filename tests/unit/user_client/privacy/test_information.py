from __future__ import annotations

import numpy as np
import pytest

from user_client.privacy.information import information, row_bits, sent_bits
from user_client.privacy.noise import add_dither


def test_a_row_holds_the_entropies_of_its_columns() -> None:
    coin = np.tile([0.0, 1.0], 8)
    level = np.repeat([0.0, 1.0, 2.0, 3.0], 4)
    dummies = np.stack([level == number for number in range(4)], axis=1).astype(float)
    rows = np.column_stack([coin, np.zeros(16), dummies])
    assert row_bits(rows, [1, 1, 4]) == pytest.approx(1 + 0 + 2)
    assert row_bits(rows, [1] * 6) > 4  # dummies taken for columns of their own would count twice


@pytest.mark.parametrize(("dither", "bits"), [(0.25, 2.04), (0.5, 1.16), (1.0, 0.5)])
def test_dither_bounds_the_bits_of_a_dimension(dither: float, bits: float) -> None:
    rep = np.random.default_rng(0).standard_normal((1000, 5)) * np.geomspace(100, 0.01, 5)
    for number_type in ("i1", "f4", "f8"):
        assert sent_bits(rep, number_type, dither) == pytest.approx(5 * bits, rel=0.01)


def test_without_dither_the_rounding_alone_bounds_them() -> None:
    rep = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
    found = {name: sent_bits(rep, name, 0.0) / 3 for name in ("i1", "f2", "f4")}
    assert found["i1"] == pytest.approx(np.log2(2 * 127), abs=0.1)
    assert found["f2"] < found["f4"]
    assert found["f4"] > 23


def test_a_direction_without_variance_tells_nothing() -> None:
    rep = np.random.default_rng(0).standard_normal((100, 1)) * np.ones((1, 3))
    assert sent_bits(rep, "f4", 0.5) == pytest.approx(1.16, abs=0.01)
    assert sent_bits(np.zeros((100, 3)), "i1", 0.0) == 0


def test_no_estimate_from_what_leaves_tells_more() -> None:
    """The mutual information of Gaussian rows and what leaves of them, from their correlations."""
    rng = np.random.default_rng(1)
    rep = rng.standard_normal((50_000, 3)) @ rng.standard_normal((3, 3))
    seen = add_dither(rep, 0.5, rng.standard_normal)
    both = np.cov(np.hstack([rep, seen]).T)
    parts = [np.linalg.slogdet(part)[1] for part in (both[:3, :3], both[3:, 3:], both)]
    told = (parts[0] + parts[1] - parts[2]) / 2 / np.log(2)
    assert told == pytest.approx(sent_bits(rep, "f4", 0.5), rel=0.02)


def test_it_is_said_when_every_value_can_be_rebuilt() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 2, (500, 8)).astype(float)
    turned = rows @ np.linalg.qr(rng.standard_normal((8, 8)))[0]
    plain = information(rows, [1] * 8, turned, number_type="f4", dither=0.0)
    dithered = information(rows, [1] * 8, turned[:, :4], number_type="i1", dither=0.5)
    assert plain is not None
    assert plain.is_enough
    assert dithered is not None
    assert not dithered.is_enough
    assert dithered.row_bits == pytest.approx(8, abs=0.1)
    assert information(rows[:0], [1] * 8, turned[:0], number_type="f4", dither=0.0) is None
