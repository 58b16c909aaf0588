"""How much memory a large table takes at the institution and at the analyst, and how long `odc prepare` does.

One institution has the large table, as CSV and as Parquet. The lead has a small one, from which the terms are
drafted with the defaults that a user gets. `odc` and `odc-analyst` run as processes of their own, with mutual
TLS, and the kernel says what the peak of each was. The time is compared with that of a program that reads the
same file with pyarrow, multiplies it with numpy, and does nothing else; the two take turns. Small: 10^5 rows.
``--full``: 10^6 and 10^7 as well, which takes some 20 GB of disk.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import tomllib
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
from user_client.custody.round_directory import PREPARED_FILE

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
name, width, out, latent_dim = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
names, block = [f"x{number}" for number in range(width)], 65_536

def of_file():
    if name.endswith("parquet"):
        with pyarrow.parquet.ParquetFile(name) as file:
            yield from file.iter_batches(block, columns=names)
    else:
        chosen = pyarrow.csv.ConvertOptions(include_columns=names)
        yield from pyarrow.csv.open_csv(name, convert_options=chosen)

def rows():
    for batch in of_file():
        yield numpy.column_stack([column.to_numpy() for column in batch.columns])

def twice():  # Parquet is read again; the text of a CSV file is parsed once, and its numbers are kept
    if name.endswith("parquet"):
        yield from rows()
    else:
        with open(out + ".numbers", "rb") as kept:
            while len(part := numpy.fromfile(kept, count=block * width)):
                yield part.reshape(-1, width)

gram = numpy.zeros((width, width))
with open(out + ".numbers", "wb") as kept:
    for part in rows():
        gram += part.T @ part
        if not name.endswith("parquet"):
            numpy.ascontiguousarray(part).tofile(kept)
basis = numpy.linalg.eigh(gram)[1][:, -latent_dim:]
with open(out, "wb") as projected:
    for part in twice():
        (part @ basis).astype("f4").tofile(projected)
"""
"""The same work without an agreement: no terms, no checks, no noise, no measures, nothing kept apart.

It takes a part of the rows at a time: a program that holds ten million rows in memory is slow for that alone.
"""
TURNS: Final = 3
"""How often `odc prepare` and the program alone run, in turn; every second time the other goes first."""
PREPARE, ALONE = "odc prepare", "numpy alone"
Costs = list[tuple[str, Cost]]
"""What each process took; those of a name that occurs several times are its turns."""


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


def add_rows(found: report.Report, costs: Costs, rows: int, kind: str) -> None:
    """Add a row for each process to a report, and print it."""
    for name, cost in costs:
        found.rows.append({"rows": rows, "file": kind, "process": name, **vars(cost)})
        print(
            f"{rows} rows, {kind}, {name}: {cost.seconds:.1f} s, {cost.processor_s:.1f} s of processor,"
            f" {cost.peak_mb:.0f} MB",
            flush=True,
        )
    print(f"{rows} rows, {kind}: {PREPARE} takes {ratio(found, rows, kind):.2f} times as long as {ALONE}")


def ratio(found: report.Report, rows: int, kind: str) -> float:
    """Return the median over turns of the time of `odc prepare` over that of the program alone."""
    seconds = {
        name: [
            row["seconds"]
            for row in found.rows
            if (row["rows"], row["file"], row["process"]) == (rows, kind, name)
        ]
        for name in (PREPARE, ALONE)
    }
    return float(np.median(np.array(seconds[PREPARE]) / np.array(seconds[ALONE])))


def add_claims(found: report.Report) -> None:
    """Add the claims about the largest table."""
    largest = [row for row in found.rows if row["rows"] == FULL_SIZES[-1]]
    institution = [row["peak_mb"] for row in largest if row["process"].startswith("odc ")]
    found.claim("client_rss_mb_10m_rows", max(institution), "MB", "<=", 300)
    compute = [row["peak_mb"] for row in largest if row["process"] == "compute"]
    found.claim("compute_rss_mb_10m_rows", max(compute), "MB", "<=", 1024)
    for kind in ("csv", "parquet"):
        times = ratio(found, FULL_SIZES[-1], kind)
        found.claim(f"prepare_10m_rows_vs_numpy_{kind}", times, "times", "<=", 2)


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


def play(folder: Path, lead_table: Path, table: Path) -> Costs:
    """Play two rounds and return what each process of the second institution and the analyst took.

    In the first the institution types every command, in the second `odc round`.
    """
    folder.mkdir()
    with joined_pair(folder) as (analyst, lead, hospital):
        parties = [word for each in (lead, hospital) for word in ("--party", each.name)]
        options = ("--label", "label", "--model", MODEL, *parties, "--out", "terms.toml")
        lead.odc("terms", "draft", str(lead_table), *options)
        terms = lead.home / "terms.toml"
        latent_dim = int(tomllib.loads(terms.read_text())["latent_dim"])
        with peaks(analyst) as peak:
            first = begun(analyst, lead, hospital, lead_table)
            costs = [("odc terms check", run(hospital, "terms", "check", str(table), "-c", first))]
            costs += in_turn(hospital, table, first, folder / "projected", latent_dim)
            costs += [
                (f"odc {words[0]}", run(hospital, *words, "-c", first))
                for words in (
                    ("contribute", "--yes", "--accept-signal-loss"),
                    ("receive", "--wait", str(_WAIT_S)),
                    ("predict", str(table), "--out", "predictions.csv"),
                    ("evaluate", str(table)),
                )
            ]
            analyst.run("collaboration", "report", first, "--wait", str(_WAIT_S))
            second = begun(analyst, lead, hospital, lead_table)
            words = ("--yes", "--accept-signal-loss", "--wait", str(_WAIT_S), "-c", second)
            costs.append(("odc round", run(hospital, "round", str(table), *words)))
    return [*costs, *((name, Cost(0, 0, found)) for name, found in peak.items())]


def begun(analyst: Analyst, lead: Institution, hospital: Institution, lead_table: Path) -> str:
    """Publish the lead's terms, which both sign, let it send its rows, and return the collaboration's id."""
    created = json.loads(analyst.run("collaboration", "create", str(lead.home / "terms.toml"), "--json"))
    found = str(created["collaboration_id"])
    for each in (lead, hospital):
        each.odc("terms", "accept", "-c", found)
    lead.odc("anchor", "create", "-c", found)
    lead.odc("contribute", "--yes", str(lead_table), "--accept-signal-loss", "-c", found)
    return found


def in_turn(hospital: Institution, table: Path, collaboration: str, out: Path, latent_dim: int) -> Costs:
    """Return what `odc prepare` and the program alone took, each several times."""

    def prepare() -> Cost:
        for path in hospital.home.rglob(PREPARED_FILE):
            path.unlink()  # otherwise the prepared uplink would be kept
        return run(hospital, "prepare", str(table), "-c", collaboration)

    both = [(PREPARE, prepare), (ALONE, lambda: alone(table, out, latent_dim))]
    return [(name, act()) for turn in range(TURNS) for name, act in (both if turn % 2 == 0 else both[::-1])]


def run(institution: Institution, *words: str) -> Cost:
    """Run a command of an institution and return what it cost."""
    command = [sys.executable, "-m", "user_client", "--home", str(institution.home), *words]
    return cost_of(command, institution.home)


def alone(table: Path, out: Path, latent_dim: int) -> Cost:
    """Read and multiply, and return what that cost."""
    words = [str(table), str(COLUMNS), str(out), str(latent_dim)]
    return cost_of([sys.executable, "-c", _ALONE, *words], out.parent)


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
