"""Tables from files: CSV (also compressed) and Parquet, or anything that speaks Arrow."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from protocol.errors import UnreadableFileError

_HEADER_BYTES: Final = 2**16
"""As much of a file as is looked at for its separator."""
_OTHER_SEPARATORS: Final = {b";": "semicolons", b"\t": "tabs", b"|": "bars"}


def read_table(path: Path) -> pa.Table:
    """Read a table; the columns of a CSV file stay text, so that the schema alone says what they mean.

    Raises `UnreadableFileError`; the message never repeats what is in the file.
    """
    if not path.exists():
        raise UnreadableFileError(path, "no such file")
    if not path.is_file():  # a pipe too: it is looked at before it is read
        raise UnreadableFileError(path, "not a regular file")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            from pyarrow import parquet  # here, because most tables are CSV

            table: pa.Table = parquet.read_table(path)
            return table
        return _read_csv(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow quotes the offending line, which is a patient's
        raise UnreadableFileError(path, f"not a table ({type(error).__name__})") from None


def _read_csv(path: Path) -> pa.Table:
    with _opened(path) as file:
        header = file.read(_HEADER_BYTES).split(b"\n")[0]
    separators = [name for separator, name in _OTHER_SEPARATORS.items() if separator in header]
    if b"," not in header and separators:
        reason = f"its columns are separated by {separators[0]}"
        raise _of_another_kind(path, reason, "write it with commas between columns, and decimal points")
    refused: list[pyarrow.csv.InvalidRow] = []
    try:
        return _parse_csv(path, refused, use_threads=True)
    except pa.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            hint = "convert it, as with iconv -f WINDOWS-1252 -t UTF-8"
            raise _of_another_kind(path, "its text is not UTF-8", hint) from None
        if not refused:
            raise
    with suppress(pa.ArrowInvalid):
        _parse_csv(path, refused, use_threads=False)  # only this way a line is told its number
    row = refused[-1]
    reason = f"line {row.number} has {row.actual_columns} fields, the header {row.expected_columns}"
    raise _of_another_kind(path, reason, "correct the line; a field that holds a comma stands in quotes")


def _of_another_kind(path: Path, reason: str, hint: str) -> UnreadableFileError:
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
    """Return a table for a path, an Arrow table, or a data frame (pandas, polars) in memory."""
    if isinstance(data, str | Path):
        return read_table(Path(data))
    table: pa.Table = data if isinstance(data, pa.Table) else pa.table(data)
    return table
