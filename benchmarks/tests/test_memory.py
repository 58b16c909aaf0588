from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pytest
from pyarrow import parquet

from benchmarks import memory, report

ROWS = 1000


def test_both_kinds_of_file_have_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "AT_ONCE", 300)  # several parts, the last one shorter
    for kind in ("csv", "parquet"):
        memory.write_table(tmp_path / f"table.{kind}", ROWS, seed=1)
    from_csv, from_parquet = (
        pyarrow.csv.read_csv(tmp_path / "table.csv"),
        parquet.read_table(tmp_path / "table.parquet"),
    )
    assert from_parquet.shape == (ROWS, memory.COLUMNS + 1)
    assert set(from_parquet["label"].to_pylist()) == {"yes", "no"}
    assert from_csv.equals(from_parquet)


def test_the_claims_are_about_the_largest_table_alone() -> None:
    found = report.Report("memory")
    for rows, factor in ((memory.FULL_SIZES[0], 100), (memory.FULL_SIZES[-1], 1)):
        for kind, seconds in (("csv", 15.0), ("parquet", 25.0)):
            for process, took, peak in (
                ("odc prepare", seconds, 200.0),
                ("odc predict", 1.0, 280.0),
                ("numpy alone", 10.0, 5000.0),
                ("server", 0.0, 2000.0),
                ("compute", 0.0, 900.0),
            ):
                row = {"rows": rows, "file": kind, "process": process, "seconds": took}
                found.rows.append({**row, "peak_mb": factor * peak})
    memory.add_claims(found)
    assert {claim.id: (claim.value, claim.holds) for claim in found.claims} == {
        "client_rss_mb_10m_rows": (280.0, True),
        "compute_rss_mb_10m_rows": (900.0, True),
        "prepare_10m_rows_vs_numpy_csv": (1.5, True),
        "prepare_10m_rows_vs_numpy_parquet": (2.5, False),
    }
