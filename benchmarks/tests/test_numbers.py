"""A round that predicts a number is played by the drafted terms, beside its rivals on the same rows."""

from __future__ import annotations

import pytest

from benchmarks.numbers import CASES, REAL_CASES, Job, run


def test_a_number_is_predicted_about_as_well_as_in_one_place() -> None:
    found = run(Job(CASES[0], 0), folder=None)
    assert 35 < found["together"] < found["central"] + 5
    assert found["together_undefended"] > 40
    assert found["headline"] is not None
    assert found["latent_dim"] <= found["features"] == 10


def test_a_table_that_is_not_bundled_needs_a_directory() -> None:
    with pytest.raises(ValueError, match="heart needs a directory"):
        run(Job(REAL_CASES[0], 0), folder=None)
