"""Two institutions in one process with different columns of the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.harness.in_process import HOSPITAL, LEAD, Consortium, rows
from user_client.sdk import Round
from user_client.sdk.parts import JoinedPredictor, make_part

JOINING: dict[str, Any] = {
    "absent_columns": [{"party": LEAD, "columns": ["x2"]}, {"party": HOSPITAL, "columns": ["x0", "x1"]}],
    "joined_rows": [{"row_key": "pid", "parties": [LEAD, HOSPITAL], "latent_dims": [2, 1], "labels": LEAD}],
}


def people(seed: int, count: int = 40) -> pa.Table:
    names = [f"name-of-{seed}-{number:03d}" for number in range(count)]
    return pa.table({"pid": names, **rows(seed, count)})


def of_lead(table: pa.Table) -> pa.Table:
    return table.select(["pid", "x0", "x1", "y"])


def of_hospital(table: pa.Table) -> pa.Table:
    return table.select(["x2", "pid"])


def released(consortium: Consortium, **changed: Any) -> Mapping[str, Round]:
    """A round in which both have all of forty rows, in other orders."""
    consortium.until_anchored(**{**JOINING, **changed})
    table = people(0)
    for found, own in (
        (consortium.lead_round, of_lead(table)),
        (consortium.hospital_round, of_hospital(table).take(list(range(39, -1, -1)))),
    ):
        found.prepare(own)
        found.contribute()
    consortium.compute()
    for found in (consortium.lead_round, consortium.hospital_round):
        found.receive()
    return {LEAD: consortium.lead_round, HOSPITAL: consortium.hospital_round}


def part(found: Round, table: pa.Table, path: Path) -> Path:
    content, count = make_part(found.directory, [table.slice(0, 0), table])
    assert count == table.num_rows
    path.write_bytes(content)
    return path


def predicted(found: Round, table: pa.Table, *files: Path, keep: tuple[str, ...] = ()) -> pa.Table:
    joined = JoinedPredictor(found.directory, files)
    return pa.concat_tables(joined.predict_parts([table.slice(0, 0), table], keep=keep))
