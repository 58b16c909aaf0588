"""Read tables from CSV files (also compressed), Parquet files, or anything that offers Arrow data."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from protocol.errors import UnreadableFileError

_HEADER_BYTES: Final = 2**16
"""Bytes at the beginning of a file in which its separator is looked for."""
_OTHER_SEPARATORS: Final = {b";": "semicolons", b"\t": "tabs", b"|": "bars"}


def read_table(path: Path) -> pa.Table:
    """Return the table in a file.

    Columns of a CSV file stay text, so that the schema alone decides what they mean. Raises
    `UnreadableFileError`, whose message never quotes the file.
    """
    if not path.exists():
        raise UnreadableFileError(path, "no such file")
    if not path.is_file():  # a pipe too, because a CSV file is opened more than once
        raise UnreadableFileError(path, "not a regular file")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            from pyarrow import parquet  # imported late, because most tables are CSV

            table: pa.Table = parquet.read_table(path)
            return table
        return _read_csv(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow's message quotes the offending line, which may be a patient's record
        raise UnreadableFileError(path, f"not a table ({type(error).__name__})") from None


def _read_csv(path: Path) -> pa.Table:
    with _opened(path) as file:
        header = file.read(_HEADER_BYTES).split(b"\n")[0]
    separators = [name for separator, name in _OTHER_SEPARATORS.items() if separator in header]
    if b"," not in header and separators:
        reason = f"its columns are separated by {separators[0]}"
        raise _unreadable(path, reason, "save it with commas between columns and with decimal points")
    refused: list[pyarrow.csv.InvalidRow] = []
    try:
        return _parse_csv(path, refused, use_threads=True)
    except pa.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            hint = "convert it to UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8"
            raise _unreadable(path, "its text is not UTF-8", hint) from None
        if not refused:
            raise
    with suppress(pa.ArrowInvalid):
        _parse_csv(path, refused, use_threads=False)  # only a single thread reports line numbers
    row = refused[-1]
    reason = f"line {row.number} has {row.actual_columns} fields, the header has {row.expected_columns}"
    raise _unreadable(path, reason, "correct the line; a field that contains a comma needs quotes around it")


def _unreadable(path: Path, reason: str, hint: str) -> UnreadableFileError:
    error = UnreadableFileError(path, reason)
    error.hint = hint
    return error


def _parse_csv(path: Path, refused: list[pyarrow.csv.InvalidRow], *, use_threads: bool) -> pa.Table:
    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        refused.append(row)
        return "error"

    reading = pyarrow.csv.ReadOptions(use_threads=use_threads)
    parsing = pyarrow.csv.ParseOptions(invalid_row_handler=refuse)
    with _opened(path) as file:
        names = pyarrow.csv.open_csv(file, reading, parsing).schema.names
    converting = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
    )
    with _opened(path) as file:
        table: pa.Table = pyarrow.csv.read_csv(file, reading, parsing, converting)
    return table


def _opened(path: Path) -> pa.NativeFile:
    return pa.input_stream(str(path), compression="detect")


def table_from(data: Any) -> pa.Table:
    """Return the table at a path, or the Arrow table or data frame (pandas, polars) in memory as a table."""
    if isinstance(data, str | Path):
        return read_table(Path(data))
    table: pa.Table = data if isinstance(data, pa.Table) else pa.table(data)
    return table
