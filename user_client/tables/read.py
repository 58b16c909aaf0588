"""Read tables from CSV files (also compressed), Parquet files, or anything that offers Arrow data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from protocol.errors import UnreadableFileError

_HEADER_BYTES: Final = 2**16
"""Bytes at the beginning of a file in which its separator and its names are looked for."""
_OTHER_SEPARATORS: Final = {b";": "semicolons", b"\t": "tabs", b"|": "bars"}
_PART_BYTES: Final = 2**20
"""Bytes of text that become one part of a CSV file."""
_PART_FIELDS: Final = 2**20
"""Fields of one part of a Parquet file, or of a table in memory."""
_FEWEST_ROWS, _MOST_ROWS = 2**8, 2**16
"""Of such a part, however many columns there are."""
_COLUMN_BYTES: Final = 2**16
"""Bytes of each column of a Parquet file that are read at a time."""


def read_table(path: Path) -> pa.Table:
    """Return the table in a file.

    Columns of a CSV file stay text, so that the schema alone decides what they mean. Raises
    `UnreadableFileError`, whose message never quotes the file.
    """
    with _readable(path):
        if is_parquet(path):
            from pyarrow import parquet  # imported late, because most tables are CSV

            table: pa.Table = parquet.read_table(path)
            return table
        return _read_csv(path)


def read_parts(path: Path) -> Iterator[pa.Table]:
    """Yield the table in a file part by part; the first part has the columns and no row.

    The memory this takes does not grow with the file. Raises `UnreadableFileError`, as `read_table` does,
    when it comes to what cannot be read.
    """
    with _readable(path):
        if is_parquet(path):
            from pyarrow import parquet

            # a group of rows may be the whole file, so it is not read ahead
            with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_COLUMN_BYTES) as file:
                columns = file.schema_arrow
                yield columns.empty_table()
                for batch in file.iter_batches(_rows_of_a_part(len(columns))):
                    yield pa.Table.from_batches([batch])
        else:
            yield from _parts_of_csv(path)


def parts_of(data: Any) -> Iterator[pa.Table]:
    """Yield a table part by part, as `read_parts` does; `table_from` has the kinds of tables."""
    if isinstance(data, str | Path):
        yield from read_parts(Path(data))
        return
    table = table_from(data)
    yield table.slice(0, 0)
    at_once = _rows_of_a_part(table.num_columns)
    for start in range(0, table.num_rows, at_once):
        yield table.slice(start, at_once)


def _rows_of_a_part(columns: int) -> int:
    return min(max(_PART_FIELDS // max(columns, 1), _FEWEST_ROWS), _MOST_ROWS)


def is_parquet(path: Path) -> bool:
    """Return whether a file is a Parquet file by its name; every other one is CSV."""
    return path.suffix.lower() in (".parquet", ".pq")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn whatever fails in reading a file into an `UnreadableFileError`."""
    if not path.exists():
        raise UnreadableFileError(path, "no such file")
    if not path.is_file():  # a pipe too, because a CSV file is opened more than once
        raise UnreadableFileError(path, "not a regular file")
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow's message quotes the offending line, which may be a patient's record
        raise UnreadableFileError(path, f"not a table ({type(error).__name__})") from None


def _read_csv(path: Path) -> pa.Table:
    refused: list[pyarrow.csv.InvalidRow] = []
    with _readable_as_csv(path, refused):
        try:
            with _opened(path) as file:
                table: pa.Table = pyarrow.csv.read_csv(file, *_options(path, refused, use_threads=True))
                return table
        except pa.ArrowInvalid:
            if refused:  # only a single thread reports the number of the line
                list(_batches(path, refused))
            raise


def _parts_of_csv(path: Path) -> Iterator[pa.Table]:
    refused: list[pyarrow.csv.InvalidRow] = []
    with _readable_as_csv(path, refused):
        yield from _batches(path, refused)


def _batches(path: Path, refused: list[pyarrow.csv.InvalidRow]) -> Iterator[pa.Table]:
    with _opened(path) as file:
        reader = pyarrow.csv.open_csv(file, *_options(path, refused, use_threads=False))
        yield reader.schema.empty_table()
        for batch in reader:
            yield pa.Table.from_batches([batch])


@contextmanager
def _readable_as_csv(path: Path, refused: list[pyarrow.csv.InvalidRow]) -> Iterator[None]:
    """Say what is wrong with a CSV file, and what to do about it."""
    with _opened(path) as file:
        header = file.read(_HEADER_BYTES).split(b"\n")[0]
    separators = [name for separator, name in _OTHER_SEPARATORS.items() if separator in header]
    if b"," not in header and separators:
        reason = f"its columns are separated by {separators[0]}"
        raise _unreadable(path, reason, "save it with commas between columns and with decimal points")
    try:
        yield
    except pa.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            hint = "convert it to UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8"
            raise _unreadable(path, "its text is not UTF-8", hint) from None
        if not refused:
            raise
    if refused:
        row = refused[-1]
        reason = f"line {row.number} has {row.actual_columns} fields, the header has {row.expected_columns}"
        raise _unreadable(
            path, reason, "correct the line; a field that contains a comma needs quotes around it"
        )


def _unreadable(path: Path, reason: str, hint: str) -> UnreadableFileError:
    error = UnreadableFileError(path, reason)
    error.hint = hint
    return error


def _options(
    path: Path, refused: list[pyarrow.csv.InvalidRow], *, use_threads: bool
) -> tuple[pyarrow.csv.ReadOptions, pyarrow.csv.ParseOptions, pyarrow.csv.ConvertOptions]:
    """Return the options that keep every column text, and note the lines that are refused."""

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        refused.append(row)
        return "error"

    reading = pyarrow.csv.ReadOptions(use_threads=use_threads, block_size=_PART_BYTES)
    parsing = pyarrow.csv.ParseOptions(invalid_row_handler=refuse)
    types = dict.fromkeys(_names(path), pa.string())
    return reading, parsing, pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)


def _names(path: Path) -> list[str]:
    """Return the names in the header.

    Arrow guesses the type of every column from the first block, which for many columns takes as long as to
    read the whole of it. So the block has two lines, unless they are no rows: a field may have several.
    """
    with _opened(path) as file:
        head = file.read(_HEADER_BYTES)
    two_lines = head.find(b"\n", head.find(b"\n") + 1) + 1
    with suppress(pa.ArrowInvalid):
        return _names_before(path, two_lines or _HEADER_BYTES)
    return _names_before(path, _PART_BYTES)


def _names_before(path: Path, block_bytes: int) -> list[str]:
    reading = pyarrow.csv.ReadOptions(use_threads=False, block_size=block_bytes)
    parsing = pyarrow.csv.ParseOptions(invalid_row_handler=lambda _: "skip")  # the next reading refuses it
    with _opened(path) as file:
        names: list[str] = pyarrow.csv.open_csv(file, reading, parsing).schema.names
        return names


def _opened(path: Path) -> pa.NativeFile:
    return pa.input_stream(str(path), compression="detect")


def table_from(data: Any) -> pa.Table:
    """Return the table at a path, or the Arrow table or data frame (pandas, polars) in memory as a table."""
    if isinstance(data, str | Path):
        return read_table(Path(data))
    table: pa.Table = data if isinstance(data, pa.Table) else pa.table(data)
    return table
