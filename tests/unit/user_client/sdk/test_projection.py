"""What is measured of rows while they are projected is what is measured of them afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from protocol.arrays import largest_of
from user_client.custody.scratch import Scratch
from user_client.privacy.reduction import reduction_risk
from user_client.rows import Matrix64, Rows
from user_client.sdk.projection import Projection, project

RNG = np.random.default_rng(0)
WHOLE = RNG.standard_normal((1000, 6))
BASIS = np.linalg.qr(RNG.standard_normal((6, 2)))[0]


def rows_in_blocks(directory: Path) -> Rows:
    return Scratch(directory, in_memory_bytes=0).keep(np.split(WHOLE, [1, 300, 999]), 6)


def projected(
    directory: Path, *, has_dither: bool, is_orthonormal: bool = True
) -> tuple[Projection, list[int]]:
    normal, drawn = np.random.default_rng(1), list[int]()

    def dither(rep: Matrix64) -> Matrix64:
        drawn.append(len(rep))
        return rep + normal.standard_normal(rep.shape)

    scratch = Scratch(directory, in_memory_bytes=0)
    how = dither if has_dither else None
    return project(rows_in_blocks(directory), BASIS, scratch, how, is_orthonormal=is_orthonormal), drawn


def test_the_noise_of_a_block_comes_after_that_of_the_one_before(tmp_path: Path) -> None:
    found, drawn = projected(tmp_path, has_dither=True)
    assert drawn == [1, 299, 699, 1]
    noise = np.random.default_rng(1).standard_normal((1000, 2))
    np.testing.assert_allclose(np.asarray(found.rep), WHOLE @ BASIS + noise, rtol=0, atol=1e-12)


@pytest.mark.parametrize("has_dither", [False, True])
def test_the_measures_are_those_of_all_rows(tmp_path: Path, has_dither: bool) -> None:
    found, _ = projected(tmp_path, has_dither=has_dither)
    np.testing.assert_array_equal(found.largest, largest_of(np.asarray(found.rep)))
    rows = rows_in_blocks(tmp_path)
    assert found.hidden == reduction_risk(rows, BASIS)
    assert found.hidden_with_dither == (reduction_risk(rows, BASIS, rep=found.rep) if has_dither else None)


def test_what_a_basis_that_is_not_orthonormal_drops_is_not_told(tmp_path: Path) -> None:
    found, _ = projected(tmp_path, has_dither=True, is_orthonormal=False)
    assert (found.hidden, found.hidden_with_dither) == (None, None)


def test_of_no_row_nothing_is_measured() -> None:
    found = project(Rows([], 6), BASIS, Scratch(Path()), None, is_orthonormal=True)
    assert (found.rep.shape, found.largest.tolist(), found.hidden) == ((0, 2), [0, 0], None)
    assert Projection.of_no_row(2).rep.shape == (0, 2)
