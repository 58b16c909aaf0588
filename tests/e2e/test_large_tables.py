"""A table with many times the rows takes hardly more memory, whatever an institution does with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
MOST_MB = 100
"""Twenty times the rows are 130 MiB more when they are encoded, beside their text."""


def patients(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    values = np.round(rng.standard_normal((rows, COLUMNS)), 3)
    label = np.where(values[:, 0] + values[:, 1] + rng.standard_normal(rows) > 0, "yes", "no")
    return pa.table({**{f"x{k}": values[:, k] for k in range(COLUMNS)}, "y": label})


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institution]:
    """An institution that may prepare, with both tables in its directory."""
    with consortium(tmp_path_factory.mktemp("large"), *NAMES) as made:
        lead, other = (made.institution(name) for name in NAMES)
        pyarrow.csv.write_csv(patients(5000), lead.home / "draft.csv")
        parties = [word for name in NAMES for word in ("--party", name)]
        lead.odc("terms", "draft", "draft.csv", "--label", "y", *parties, "--model", "logistic")
        made.analyst.run("collaboration", "create", str(lead.home / "terms.toml"))
        for each in (lead, other):
            each.odc("terms", "accept")
        lead.odc("anchor", "create")
        for rows in (FEW, MANY):
            pyarrow.csv.write_csv(patients(rows), other.home / f"{rows}.csv")
            pyarrow.parquet.write_table(
                patients(rows), other.home / f"{rows}.parquet"
            )  # in one group of rows
        yield other


def peak_mb(institution: Institution, *words: str) -> float:
    """Run a command and return its peak of memory."""
    command = [sys.executable, "-m", "user_client", "--home", str(institution.home), *words]
    return cost_of(command, institution.home).peak_mb


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is that of Linux")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("command", [("terms", "check"), ("prepare",)], ids=["check", "prepare"])
def test_twenty_times_the_rows_take_hardly_more_memory(
    hospital: Institution, command: tuple[str, ...], kind: str
) -> None:
    few, many = (
        peak_mb(hospital, *command, str(Path(hospital.home) / f"{rows}.{kind}")) for rows in (FEW, MANY)
    )
    assert many - few < MOST_MB
