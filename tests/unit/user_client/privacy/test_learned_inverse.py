"""Rows that are rebuilt by what the anchor's rows teach."""

from __future__ import annotations

import numpy as np
import pytest

from user_client.privacy.learned_inverse import learned_inverse_error


def drawn(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 4))


def test_a_linear_map_that_drops_nothing_is_undone() -> None:
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    anchor, rows = drawn(1, 200), drawn(2, 50)
    found = learned_inverse_error(anchor, anchor @ basis, rows, rows @ basis)
    assert found is not None
    assert found.median < 1e-3


def test_a_smooth_map_that_drops_nothing_is_nearly_undone_and_no_line_undoes_it() -> None:
    def mapped(rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows**3 + 0.1 * rows)

    anchor, rows = drawn(1, 800), drawn(2, 100)
    found = learned_inverse_error(anchor, mapped(anchor), rows, mapped(rows))
    line = np.linalg.lstsq(np.c_[mapped(anchor), np.ones(800)], anchor, rcond=None)[0]
    off = np.linalg.norm(rows - np.c_[mapped(rows), np.ones(100)] @ line, axis=1)
    assert found is not None
    assert found.median < 0.7 * np.median(off / np.linalg.norm(rows, axis=1))


@pytest.mark.parametrize("seed", [0, 1])
def test_of_numbers_that_owe_nothing_to_the_rows_nothing_is_learnt(seed: int) -> None:
    anchor, rows, noise = drawn(1, 200), drawn(2, 50), np.random.default_rng(seed)
    found = learned_inverse_error(
        anchor, noise.standard_normal((200, 3)), rows, noise.standard_normal((50, 3))
    )
    assert found is not None
    assert found.median > 0.8


def test_without_rows_there_is_nothing_to_rebuild() -> None:
    assert learned_inverse_error(drawn(1, 20), drawn(2, 20), drawn(3, 0), drawn(4, 0)) is None
