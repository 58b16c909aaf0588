from __future__ import annotations

import pytest

from benchmarks import dask


def test_small_sizes_are_computed_by_workers_and_make_both_claims() -> None:
    # X^ has 107 MiB, of which 96 train; the libraries and a fit take some 700
    sizes = dask.Sizes(parties=4, anchor_rows=200, latent_dim=20, pairs=1, memory_mb=800, rows=280_000)
    found = dask.measure_sizes(sizes)
    assert [row["step"] for row in found.rows] == ["align", "align", "align and train"]
    assert all(row["seconds"] > 0 for row in found.rows[:2])
    assert 0 < found.rows[2]["rows_trained"] < found.rows[2]["rows"]
    claims = {claim.id: claim.value for claim in found.claims}
    assert claims.keys() == {"dask_two_vs_one_workers", "dask_x_over_memory"}
    peaks = found.rows[2]["peaks_mb"]
    assert len(peaks) == 2
    assert all(100 < peak < 1.1 * sizes.memory_mb for peak in peaks)
    assert claims["dask_x_over_memory"] == pytest.approx(280_000 * 400 / 2**20 / max(peaks))
