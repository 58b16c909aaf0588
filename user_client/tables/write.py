"""Write tables part by part to a CSV or Parquet file, or as CSV to the output of the program."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv

from protocol.errors import InputError
from protocol.texts import is_formula
from runtime.files import writing_whole
from user_client.tables.dialect import PLAIN, Dialect, with_marks
from user_client.tables.files import is_parquet

OUTPUT: Final = Path("-")
"""Stands for the output of the program."""
_OTHERS: Final = {".gz", ".bz2", ".zst", ".lz4", ".xlsx", ".xls", ".ods", ".feather", ".arrow", ".json"}
"""Endings of files that a CSV file would not be."""


@contextmanager
def table_writer(
    path: Path, schema: pa.Schema, dialect: Dialect = PLAIN
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that writes one part after another; ``-`` is the output of the program.

    The file has its name only once it is whole, and only its owner can read it: it tells of single persons.
    Raises `InputError` if it cannot be written, also where the encoding does not have a letter.

    Parameters
    ----------
    dialect : Dialect
        How a CSV file is to be written. Numbers never get a mark between thousands.
    """
    if path == OUTPUT:
        with _csv_writer(sys.stdout.buffer, schema, dialect) as write:
            yield write
        return
    if path.suffix.lower() in _OTHERS:
        error = InputError(f"cannot write {path}: a table is written as CSV or as Parquet")
        error.hint = "name a file that ends in .csv or .parquet"
        raise error
    try:
        with (
            _telling(path),
            writing_whole(path) as file,
            _writer(path, file, schema, dialect) as write,
        ):
            try:
                yield partial(_write, path, write)
            except OSError as error:
                raise _OfItsCallerError(error) from error
    except _OfItsCallerError as found:
        raise found.error from None


class _OfItsCallerError(Exception):
    """Something else that failed while a table was written, such as reading another."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _write(path: Path, write: Callable[[pa.Table], None], part: pa.Table) -> None:
    with _telling(path):
        write(part)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Say of what a disk refuses which file could not be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


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


@contextmanager
def _writer(
    path: Path, file: IO[bytes], schema: pa.Schema, dialect: Dialect
) -> Iterator[Callable[[pa.Table], None]]:
    if not is_parquet(path):
        with _csv_writer(file, schema, dialect) as write:
            yield write
        return
    from pyarrow import parquet  # imported late, because most tables are CSV

    with parquet.ParquetWriter(file, schema) as writer:
        yield writer.write_table


@contextmanager
def _csv_writer(file: IO[bytes], schema: pa.Schema, dialect: Dialect) -> Iterator[Callable[[pa.Table], None]]:
    encoding = dialect.encoding or "utf-8"
    target = file if codecs.lookup(encoding).name == "utf-8" else _Recoded(file, encoding)
    options = pyarrow.csv.WriteOptions(delimiter=dialect.separator or ",")
    written = with_marks(schema.empty_table(), dialect).schema
    try:
        with pyarrow.csv.CSVWriter(target, written, write_options=options) as writer:
            yield lambda part: writer.write_table(with_marks(part, dialect))
    except UnicodeEncodeError:
        error = InputError(f"a name or a text cannot be written in {encoding}, as the table is written")
        error.hint = "name a file that ends in .parquet, or save the table as UTF-8"
        raise error from None


class _Recoded(io.RawIOBase):
    """A binary file to which UTF-8 is written, and that gets it in another encoding."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a write may end within a letter
        self._encoder = codecs.getincrementalencoder(encoding)()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write(self._encoder.encode(self._decoder.decode(bytes(data))))
        return len(data)
