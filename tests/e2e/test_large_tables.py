"""A table with many times the rows takes hardly more memory, whatever an institution does with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from odc_demo.actors import Institution
from odc_demo.measured import cost_of
from tests.harness.consortium import consortium

NAMES = ("lead-hospital", "hospital-b")
COLUMNS, FEW, MANY = 30, 30_000, 600_000
MOST_MB = 50
"""Twenty times the rows are 130 MiB more when they are encoded, beside their text."""


def patients(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    values = np.round(rng.standard_normal((rows, COLUMNS)), 3)
    label = np.where(values[:, 0] + values[:, 1] + rng.standard_normal(rows) > 0, "yes", "no")
    return pa.table({**{f"x{k}": values[:, k] for k in range(COLUMNS)}, "y": label})


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both tables, each as CSV and as Parquet."""
    folder = tmp_path_factory.mktemp("tables")
    for rows in (FEW, MANY):
        pyarrow.csv.write_csv(patients(rows), folder / f"{rows}.csv")
        pyarrow.parquet.write_table(patients(rows), folder / f"{rows}.parquet")  # in one group of rows
    return folder


@contextmanager
def anchored(folder: Path) -> Iterator[tuple[Institution, Institution]]:
    """Yield the lead and another institution, which may prepare."""
    with consortium(folder, *NAMES) as made:
        lead, other = (made.institution(name) for name in NAMES)
        pyarrow.csv.write_csv(patients(5000), lead.home / "draft.csv")
        parties = [word for name in NAMES for word in ("--party", name)]
        lead.odc("terms", "draft", "draft.csv", "--label", "y", *parties, "--model", "logistic")
        made.analyst.run("collaboration", "create", str(lead.home / "terms.toml"))
        for each in (lead, other):
            each.odc("terms", "accept")
        lead.odc("anchor", "create")
        yield lead, other


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institution]:
    """An institution that may prepare."""
    with anchored(tmp_path_factory.mktemp("large")) as (_, other):
        yield other


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory, tables: Path) -> Iterator[Institution]:
    """An institution that has the model."""
    with anchored(tmp_path_factory.mktemp("released")) as (lead, other):
        for each, table in ((lead, "draft.csv"), (other, str(tables / f"{FEW}.csv"))):
            each.odc("contribute", "--yes", "--accept-signal-loss", table)
        other.odc("receive", "--wait", "600")
        yield other


def peak_mb(institution: Institution, *words: str) -> float:
    """Run a command and return its peak of memory."""
    command = [sys.executable, "-m", "user_client", "--home", str(institution.home), *words]
    return cost_of(command, institution.home).peak_mb


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is that of Linux")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("who", "command", "most_mb"),
    [
        ("hospital", ("terms", "check"), MOST_MB),
        ("hospital", ("prepare",), MOST_MB),
        ("receiver", ("evaluate",), 2 * MOST_MB),  # of so many more rows, it keeps what the models say
        ("receiver", ("predict", "--force"), MOST_MB),
    ],
    ids=["check", "prepare", "evaluate", "predict"],
)
def test_twenty_times_the_rows_take_hardly_more_memory(
    who: str,
    command: tuple[str, ...],
    most_mb: int,
    kind: str,
    tables: Path,
    request: pytest.FixtureRequest,
) -> None:
    institution = request.getfixturevalue(who)
    few, many = (peak_mb(institution, *command, str(tables / f"{rows}.{kind}")) for rows in (FEW, MANY))
    assert many - few < most_mb
