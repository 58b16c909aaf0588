"""Tables that do not fit the terms: the command says where and how, and never what stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from odc_demo.actors import CommandError
from tests.harness.consortium import Consortium, consortium

COLUMNS = [
    {"kind": "numeric", "name": "age", "low": 0.0, "high": 120.0},
    {"kind": "categorical", "name": "smoker", "levels": ["never", "former", "current"]},
]
SCHEMA = {"columns": COLUMNS, "label_column": {"name": "outcome", "classes": ["well", "ill"]}}
HEADER = b"age,smoker,outcome\n61,never,well\n"
TABLES: dict[str, tuple[bytes, str]] = {
    "text for a number": (
        HEADER + b"4711-Jane-Doe,never,ill\n",
        "column 'age', data row 2: expected a number",
    ),
    "out of range": (
        HEADER + b"4711.25,never,ill\n",
        "column 'age', data row 2: expected a number from 0 to 120",
    ),
    "infinite": (HEADER + b"inf,never,ill\n", "column 'age', data row 2: expected a number"),
    "empty": (HEADER + b",never,ill\n", "column 'age', data row 2: the field is empty"),
    "unknown level": (
        HEADER + b"40,4711-Jane-Doe,ill\n",
        "column 'smoker', data row 2: expected one of the 3",
    ),
    "unknown class": (
        HEADER + b"40,never,4711-Jane-Doe\n",
        "column 'outcome', data row 2: expected one of the 2",
    ),
    "missing column": (b"age,outcome\n40,4711-Jane-Doe\n", "column 'smoker' is not in the table"),
    "ragged": (
        HEADER + b"40,never\n4711-Jane-Doe,4711-Jane-Doe,ill,x\n",
        "line 3 has 2 fields, the header has 3",
    ),
    "not text": (HEADER + b"40,\xff4711-Jane-Doe\x81,ill\n", "its text is neither UTF-8 nor Windows-1252"),
    "no header": (b"", "not a table"),
    "not Parquet": (b"4711-Jane-Doe", "not a table"),
}
PRIVATE = ("4711", "Jane", "Doe")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("tables"), "lead-hospital") as found:
        yield found


@pytest.fixture(scope="module")
def told(made: Consortium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, CommandError]]:
    """What the command says to each table, at its most talkative."""
    found = made.publish(table_schema=SCHEMA, anchor={"kind": "haar", "rows": 4}, latent_dim=2)
    made.lead.round(found).accept()
    made.lead.round(found).create_anchor()
    before = made.records()
    directory, hospital = tmp_path_factory.mktemp("given"), made.institution("lead-hospital")
    errors = {}
    for number, (name, (content, _)) in enumerate(TABLES.items()):
        path = directory / f"table-{number}.{'parquet' if name == 'not Parquet' else 'csv'}"
        path.write_bytes(content)
        words = ("--verbose", "contribute", "--yes", str(path))
        with pytest.raises(CommandError) as caught:
            hospital.odc(*words)
        errors[name] = caught.value
    yield errors
    assert made.records() == before
    prepared = hospital.home / "collaborations" / found
    assert not {path.name for path in prepared.iterdir()} & {"uplink.odc", "uplink.payload", "basis.npy"}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_does_not_fit_is_refused_without_a_word_of_its_content(
    told: dict[str, CommandError], name: str
) -> None:
    error = told[name]
    assert error.exit_code == 3
    assert TABLES[name][1] in error.stderr
    assert "odc: hint: " in error.stderr
    said = re.sub(r"trace [0-9a-f]{32}", "", error.stderr)  # which may have any four digits
    assert not [secret for secret in PRIVATE if secret in said]
    assert "Traceback" not in error.stderr


def test_a_table_that_is_not_there_is_named(made: Consortium, tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        made.institution("lead-hospital").odc("prepare", str(tmp_path / "nothing.csv"))
    assert caught.value.exit_code == 3
    assert "nothing.csv: no such file" in caught.value.stderr
