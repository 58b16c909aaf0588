"""Write tables part by part to a CSV or Parquet file, or as CSV to the output of the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv

from protocol.errors import InputError
from protocol.texts import is_formula
from user_client.tables.files import is_parquet

OUTPUT: Final = Path("-")
"""Stands for the output of the program."""
_OTHERS: Final = {".gz", ".bz2", ".zst", ".lz4", ".xlsx", ".xls", ".ods", ".feather", ".arrow", ".json"}
"""Endings of files that a CSV file would not be."""


@contextmanager
def table_writer(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that writes one part after another; ``-`` is the output of the program.

    The file has its name only once it is whole, and only its owner can read it: it tells of single persons.
    Raises `InputError` if it cannot be written.
    """
    if path == OUTPUT:
        with pyarrow.csv.CSVWriter(sys.stdout.buffer, schema) as writer:
            yield writer.write_table
        return
    if path.suffix.lower() in _OTHERS:
        error = InputError(f"cannot write {path}: a table is written as CSV or as Parquet")
        error.hint = "name a file that ends in .csv or .parquet"
        raise error
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb", opener=_for_us_alone) as file, _writer(path, file, schema) as writer:
            yield writer.write_table
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def without_formulas(part: pa.Table, *names: str) -> pa.Table:
    """Return a table with an apostrophe before each text of some columns that a spreadsheet would compute."""
    for name in names:
        at = part.column_names.index(name)
        if pa.types.is_string(part.schema.field(at).type):
            texts = [
                f"'{text}" if text and is_formula(text) else text for text in part.column(at).to_pylist()
            ]
            part = part.set_column(at, name, pa.array(texts, pa.string()))
    return part


def _writer(path: Path, file: IO[bytes], schema: pa.Schema) -> Any:
    if not is_parquet(path):
        return pyarrow.csv.CSVWriter(file, schema)
    from pyarrow import parquet  # imported late, because most tables are CSV

    return parquet.ParquetWriter(file, schema)
