from __future__ import annotations

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
    assert 0.13 < claims["dask_x_over_memory"] < 0.14
