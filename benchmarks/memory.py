"""How much memory a large table takes at the institution and at the analyst, and how long `odc prepare` does.

One institution has the large table, as CSV and as Parquet. The lead has a small one, from which the terms are
drafted with the defaults that a user gets. `odc` and `odc-analyst` run as processes of their own, with mutual
TLS, and the kernel says what the peak of each was. The time is compared with that of a program that reads the
same file with pyarrow, multiplies it with numpy, and does nothing else. Small: 10^5 rows. ``--full``: 10^6
and 10^7 as well, which takes some 10 GB of disk.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
from pyarrow import parquet

from benchmarks import report
from benchmarks.pair import joined_pair
from odc_demo.actors import Analyst, Institution
from odc_demo.measured import Cost, cost_of

SIZES: Final = (10**5,)
FULL_SIZES: Final = (10**5, 10**6, 10**7)
COLUMNS, FACTORS = 50, 12
LEAD_ROWS: Final = 20_000
"""Of the table that the terms are drafted from."""
MODEL: Final = "logistic"
"""The model of a draft, `averaged`, takes far longer to judge on so many rows."""
AT_ONCE: Final = 100_000
_WAIT_S: Final = 3600
_ALONE: Final = """
import sys, numpy, pyarrow.csv, pyarrow.parquet
name, width = sys.argv[1], int(sys.argv[2])
table = pyarrow.parquet.read_table(name) if name.endswith("parquet") else pyarrow.csv.read_csv(name)
rows = numpy.column_stack([column.to_numpy() for column in table.columns[:width]])
gram = rows.T @ rows
numpy.save(sys.argv[3], (rows @ numpy.linalg.eigh(gram)[1][:, -int(sys.argv[4]):]).astype("f4"))
"""
"""The same work without an agreement: no terms, no checks, no noise, no measures, nothing kept apart."""


def measure(options: report.Options) -> report.Report:
    """Play a round for each size and kind of file."""
    sizes = FULL_SIZES if options.full else SIZES
    found = report.Report(
        "memory", {"rows": sizes, "columns": COLUMNS, "lead_rows": LEAD_ROWS, "model": MODEL}
    )
    with tempfile.TemporaryDirectory(prefix="odc-memory-") as folder:
        lead_table = Path(folder) / "lead.csv"
        write_table(lead_table, LEAD_ROWS, seed=0)
        for rows in sizes:
            for kind in ("csv", "parquet"):
                table = Path(folder) / f"large.{kind}"
                write_table(table, rows, seed=1)
                add_rows(found, play(Path(folder) / f"{rows}-{kind}", lead_table, table), rows, kind)
                table.unlink()
    if options.full:
        add_claims(found)
    return found


def add_rows(found: report.Report, costs: dict[str, Cost], rows: int, kind: str) -> None:
    """Add a row for each process to a report, and print it."""
    for name, cost in costs.items():
        found.rows.append({"rows": rows, "file": kind, "process": name, **vars(cost)})
        print(
            f"{rows} rows, {kind}, {name}: {cost.seconds:.1f} s, {cost.processor_s:.1f} s of processor,"
            f" {cost.peak_mb:.0f} MB",
            flush=True,
        )


def add_claims(found: report.Report) -> None:
    """Add the claims about the largest table."""
    largest = {(row["file"], row["process"]): row for row in found.rows if row["rows"] == FULL_SIZES[-1]}
    institution = [row["peak_mb"] for (_, name), row in largest.items() if name.startswith("odc ")]
    found.claim("client_rss_mb_10m_rows", max(institution), "MB", "<=", 300)
    compute = [row["peak_mb"] for (_, name), row in largest.items() if name == "compute"]
    found.claim("compute_rss_mb_10m_rows", max(compute), "MB", "<=", 1024)
    for kind in ("csv", "parquet"):
        ratio = largest[kind, "odc prepare"]["seconds"] / largest[kind, "numpy alone"]["seconds"]
        found.claim(f"prepare_10m_rows_vs_numpy_{kind}", ratio, "times", "<=", 2)


def write_table(path: Path, rows: int, *, seed: int, columns: int = COLUMNS) -> None:
    """Write a table of numbers with three decimals that depend on one another, and a label, part by part."""
    rng, same = np.random.default_rng(seed), np.random.default_rng(0)
    mixed, weights = same.standard_normal((FACTORS, columns)), same.standard_normal(columns)
    names = [f"x{number}" for number in range(columns)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("label", pa.string())])
    kinds = {".csv": pyarrow.csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    with kinds[path.suffix](str(path), schema) as writer:
        for start in range(0, rows, AT_ONCE):
            count = min(AT_ONCE, rows - start)
            hidden = rng.standard_normal((count, FACTORS)) @ mixed
            values = np.round(hidden + 0.3 * rng.standard_normal(hidden.shape), 3)
            labels = np.where(values @ weights + 3 * rng.standard_normal(count) > 0, "yes", "no")
            arrays = [*map(pa.array, values.T), pa.array(labels, pa.string())]
            writer.write_table(pa.table(arrays, schema=schema))


def play(folder: Path, lead_table: Path, table: Path) -> dict[str, Cost]:
    """Play a round of two and return what each process of the second institution and the analyst cost."""
    folder.mkdir()
    with joined_pair(folder) as (analyst, lead, hospital):
        parties = [word for each in (lead, hospital) for word in ("--party", each.name)]
        options = ("--label", "label", "--model", MODEL, *parties, "--out", "terms.toml")
        lead.odc("terms", "draft", str(lead_table), *options)
        created = json.loads(analyst.run("collaboration", "create", str(lead.home / "terms.toml"), "--json"))
        for each in (lead, hospital):
            each.odc("terms", "accept")
        lead.odc("anchor", "create")
        lead.odc("contribute", "--yes", str(lead_table), "--accept-signal-loss")
        with peaks(analyst) as peak:
            costs = {
                "odc terms check": run(hospital, "terms", "check", str(table)),
                "odc prepare": run(hospital, "prepare", str(table)),
                "numpy alone": alone(table, folder / "projected.npy"),
                "odc contribute": run(hospital, "contribute", "--yes", "--accept-signal-loss"),
                "odc receive": run(hospital, "receive", "--wait", str(_WAIT_S)),
                "odc predict": run(hospital, "predict", str(table), "--out", "predictions.csv"),
                "odc evaluate": run(hospital, "evaluate", str(table)),
            }
            analyst.run("collaboration", "report", created["collaboration_id"], "--wait", str(_WAIT_S))
    return {**costs, **{name: Cost(0, 0, found) for name, found in peak.items()}}


def run(institution: Institution, *words: str) -> Cost:
    """Run a command of an institution and return what it cost."""
    command = [sys.executable, "-m", "user_client", "--home", str(institution.home), *words]
    return cost_of(command, institution.home)


def alone(table: Path, out: Path) -> Cost:
    """Read and multiply, and return what that cost."""
    return cost_of([sys.executable, "-c", _ALONE, str(table), str(COLUMNS), str(out), "12"], out.parent)


@contextmanager
def peaks(analyst: Analyst) -> Iterator[dict[str, float]]:
    """Yield a dict that in the end has the peaks of the analyst's processes in MiB."""
    if analyst.server is None:
        raise RuntimeError("the server does not run")
    server, found, over = (
        psutil.Process(analyst.server.pid),
        {"server": 0.0, "compute": 0.0},
        threading.Event(),
    )

    def look() -> None:
        while not over.wait(0.05):
            for process, name in [(server, "server"), *((child, "compute") for child in server.children())]:
                found[name] = max(found[name], peak_mb(process.pid))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def peak_mb(pid: int) -> float:
    """Return the peak of a process in MiB, 0 if there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0.0
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), default=0.0)


if __name__ == "__main__":
    raise SystemExit(report.main(measure))
