from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from pyarrow import parquet

from benchmarks import memory, report
from odc_demo.measured import Cost

ROWS = 1000
PEAKS = {"odc predict": 280.0, "server": 2000.0, "compute": 900.0}


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
        for kind, turns in (("csv", (15.0, 16.0, 90.0)), ("parquet", (25.0, 26.0, 10.0))):
            costs = [(name, Cost(1.0, 1.0, factor * peak)) for name, peak in PEAKS.items()]
            for seconds in turns:
                costs.append((memory.PREPARE, Cost(seconds, 1.0, factor * 200.0)))
                costs.append((memory.ALONE, Cost(10.0, 1.0, 5000.0)))
            memory.add_rows(found, costs, rows, kind)
    memory.add_claims(found)
    assert {claim.id: (claim.value, claim.holds) for claim in found.claims} == {
        "client_rss_mb_10m_rows": (280.0, True),
        "compute_rss_mb_10m_rows": (900.0, True),
        "prepare_10m_rows_vs_numpy_csv": (1.6, True),
        "prepare_10m_rows_vs_numpy_parquet": (2.5, False),
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_program_alone_projects_all_rows_on_the_leading_axes(tmp_path: Path, kind: str) -> None:
    table = tmp_path / f"table.{kind}"
    memory.write_table(table, ROWS, seed=1)
    memory.alone(table, tmp_path / "projected", 9)
    read = pyarrow.csv.read_csv if kind == "csv" else parquet.read_table
    rows = np.column_stack([column.to_numpy() for column in read(table).columns[: memory.COLUMNS]])
    found = np.fromfile(tmp_path / "projected", "f4").reshape(ROWS, 9)
    axes = np.linalg.eigh(rows.T @ rows)[1][:, -9:]
    np.testing.assert_allclose(np.abs(found), np.abs(rows @ axes), rtol=1e-4, atol=1e-3)


def test_a_small_round_has_every_command_and_three_turns(tmp_path: Path) -> None:
    for name, rows in (("lead", 2000), ("large", 2000)):
        memory.write_table(tmp_path / f"{name}.parquet", rows, seed=len(name))
    costs = memory.play(tmp_path / "played", tmp_path / "lead.parquet", tmp_path / "large.parquet")
    names = [name for name, _ in costs]
    assert names.count(memory.PREPARE) == names.count(memory.ALONE) == memory.TURNS
    commands = {"check", "prepare", "contribute", "receive", "predict", "evaluate", "round"}
    assert {name.split()[-1] for name in names if name.startswith("odc ")} == commands
    assert all(cost.peak_mb > 0 for _, cost in costs)
    prepared = [cost.seconds for name, cost in costs if name == memory.PREPARE]
    assert min(prepared) > 0.2 * max(prepared)  # none was only looked up
