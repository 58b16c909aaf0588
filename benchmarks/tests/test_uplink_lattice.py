from __future__ import annotations

import numpy as np
import pytest

from benchmarks.uplink.lattice import Case, cases, run
from benchmarks.uplink.tables import Defence, cohort, decoded, sources
from user_client.privacy import lattices
from user_client.tables import encode_rows

WINE = sources(None)["wine"]()


@pytest.mark.parametrize("encoding", ["old", "drafted"])
def test_a_member_sends_its_encoded_rows_times_its_basis(encoding: str) -> None:
    found = cohort(WINE, encoding, parties=2, rep_dtype="f8", defence=Defence(nri=True))  # type: ignore[arg-type]
    for member in found.members:
        np.testing.assert_array_equal(member.rows, encode_rows(member.table, found.schema))
        np.testing.assert_allclose(member.rep, member.rows @ member.basis, atol=1e-12)
        np.testing.assert_allclose(member.anchor_rep, found.anchor @ member.basis, atol=1e-12)


def test_dither_is_a_share_of_the_spread() -> None:
    member = cohort(WINE, defence=Defence(dither=0.25)).members[0]
    exact = member.rows @ member.basis
    assert np.std(member.rep - exact) / np.std(exact) == pytest.approx(0.25, rel=0.15)


def test_eight_bits_are_off_by_half_a_step() -> None:
    exact = np.random.default_rng(0).standard_normal((50, 3))
    assert np.abs(decoded(exact, "i1") - exact).max() <= np.abs(exact).max() / 127 / 2 + 1e-6


def test_every_defence_is_attacked_on_every_table() -> None:
    found = list(cases(full=False, real_data=True))
    assert len(found) == len(set(found))
    for table in ("heart", "stroke", "pima", "digits", "tcga"):
        assert Case(table, "drafted") in found
        assert Case(table, "drafted", rep_dtype="i1", dither=0.5) in found


@pytest.mark.skipif(not lattices.available(), reason="fpylll is not installed")
def test_colluders_rebuild_rows_that_nothing_protects() -> None:
    row = run(Case("wine", "old"), None)
    assert row["colluders_exact_rows"] >= 0.9
    assert row["colluders_guessed_exact_rows"] == 0
