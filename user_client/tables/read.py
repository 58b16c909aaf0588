"""Read tables from files of the kinds in docs/tables.md, or from anything that offers Arrow data."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from protocol.errors import InputError, UnreadableFileError
from user_client.tables.database import query_parts
from user_client.tables.dialect import PLAIN, SEPARATORS, AmbiguousNumberError, Dialect, with_points
from user_client.tables.excel import excel_parts
from user_client.tables.files import (
    codec_of,
    head_of,
    is_arrow,
    is_csv,
    is_excel,
    is_parquet,
    readable_file,
    refuse_other_kinds,
    rows_of_a_part,
    unreadable,
)
from user_client.tables.in_memory import table_in_memory
from user_client.tables.source import Source

_HEADER_BYTES: Final = 2**16
"""Bytes at the beginning of a file in which its separator and its names are looked for."""
_PART_BYTES: Final = 2**19
"""Bytes of text that become one part of a CSV file. Arrow reads more than thirty of them ahead."""
_LONG_ROW_BYTES: Final = 2**22
"""The same for a file with a row that is longer than such a part, because a row has to fit into one."""
_TOO_LONG: Final = "straddles two block boundaries"
"""In Arrow's words."""
_PARTS_BEFORE_RELEASE: Final = 16
"""After so many parts the memory of those that nobody has any more goes back to the system."""
_TEXTS_BEFORE_RELEASE: Final = 8
"""The same for parts of a CSV file, of which Arrow reads ahead in several threads."""
_TOLD_SEPARATOR: Final = re.compile(rb"(\xef\xbb\xbf)?sep=.\r?\n")
"""The first line of some files that Excel is to open."""
_BEFORE_HEADER: Final = re.compile(rb"(?:\xef\xbb\xbf)?(?:sep=.\r?\n)?([\r\n]*)")
"""A mark, that line, and empty lines."""
_ARROW_FILE: Final = b"ARROW1"
_COLUMN_BYTES: Final = 2**16
"""Bytes of each column of a Parquet file that are read at a time."""


def read_table(where: str | Path | Source) -> pa.Table:
    """Return the table in a file.

    Columns of a CSV file stay text, so that the schema alone decides what they mean. Raises
    `UnreadableFileError`, whose message never quotes the file.
    """
    source = _source(where)
    if source.is_database:
        return pa.concat_tables(read_parts(source))
    with readable_file(source.path):
        if is_parquet(source.path):
            from pyarrow import parquet  # imported late, because most tables are CSV

            table: pa.Table = parquet.read_table(source.path)
            return table
        if is_csv(source.path):
            return _read_csv(source.path, source.dialect)
    return pa.concat_tables(read_parts(source))


def read_parts(where: str | Path | Source) -> Iterator[pa.Table]:
    """Yield the table in a file part by part; the first part has the columns and no row.

    The memory this takes does not grow with the file. Raises `UnreadableFileError`, as `read_table` does,
    when it comes to what cannot be read.
    """
    source = _source(where)
    if source.is_database:
        if source.query is None:
            raise InputError(f"{source.place} is a database: say with --query what to ask it")
        yield from query_parts(str(source.place), source.query)
        return
    with readable_file(source.path):
        at_once = _TEXTS_BEFORE_RELEASE if is_csv(source.path) else _PARTS_BEFORE_RELEASE
        for number, part in enumerate(_parts_of_file(source)):
            if number % at_once == 0:
                pa.default_memory_pool().release_unused()
            yield part


def _parts_of_file(source: Source) -> Iterator[pa.Table]:
    if is_parquet(source.path):
        return _parts_of_parquet(source)
    if is_arrow(source.path):
        return _parts_of_arrow(source)
    if is_excel(source.path):
        return excel_parts(source.path, source.sheet)
    return _parts_of_csv(source)


def _parts_of_parquet(source: Source) -> Iterator[pa.Table]:
    from pyarrow import parquet

    size, rows = source.path.stat().st_size, 0
    # a group of rows may be the whole file, so it is not read ahead
    with parquet.ParquetFile(source.path, pre_buffer=False, buffer_size=_COLUMN_BYTES) as file:
        columns = file.schema_arrow
        yield columns.empty_table()
        # what encodes the batch before has the other core, and takes longer than to read one
        for batch in file.iter_batches(rows_of_a_part(len(columns)), use_threads=False):
            yield pa.Table.from_batches([batch])
            rows += batch.num_rows
            _tell(source, size * rows // max(file.metadata.num_rows, 1))  # columns lie apart: the rows tell


def _parts_of_arrow(source: Source) -> Iterator[pa.Table]:
    """Yield a file of Arrow (also Feather), or a stream of it, part by part."""
    with pa.OSFile(str(source.path)) as file:
        is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
        file.seek(0)
        count = 0  # a stream does not say
        if is_file:
            reader = pa.ipc.open_file(file)
            count = reader.num_record_batches
            batches = map(reader.get_batch, range(count))
        else:
            batches = reader = pa.ipc.open_stream(file)
        yield reader.schema.empty_table()
        at_once = rows_of_a_part(len(reader.schema))
        for number, batch in enumerate(batches, 1):
            for start in range(0, batch.num_rows, at_once):
                yield pa.Table.from_batches([batch.slice(start, at_once)])
            _tell(source, file.size() * number // count if count else file.tell())


def parts_of(data: Any) -> Iterator[pa.Table]:
    """Yield a table part by part, as `read_parts` does; `table_from` has the kinds of tables."""
    if isinstance(data, str | Path | Source):
        yield from read_parts(data)
        return
    table = table_from(data)
    yield table.slice(0, 0)
    at_once = rows_of_a_part(table.num_columns)
    for start in range(0, table.num_rows, at_once):
        yield table.slice(start, at_once)


def gathered(parts: Iterable[pa.Table], width: int = 1) -> Iterator[pa.Table]:
    """Yield the first part, which may have no rows, and then as many together as are worked on at once.

    Those of a CSV file have a thousand rows or so, for which calls take longer than numbers. ``width`` is
    that of an encoded row, which may have many times as many numbers as the table has columns.
    """
    left = iter(parts)
    first = next(left, None)
    if first is None:
        return
    yield first
    enough, together = rows_of_a_part(max(first.num_columns, width)), list[pa.Table]()
    for part in left:
        if together and part.schema != together[0].schema:  # as frames of pandas may be, of one file
            yield pa.concat_tables(together)
            together.clear()
        together.append(part)
        if sum(each.num_rows for each in together) >= enough:
            yield pa.concat_tables(together)
            together.clear()
    if together:
        yield pa.concat_tables(together)


def digest_of(data: Any) -> str:
    """Return the digest of a table that can be read again; empty for one in memory, which is never the same.

    The result of a query is read to its end for it.
    """
    if not isinstance(data, str | Path | Source):
        return ""
    source = _source(data)
    if not source.is_database:
        return source.file_digest()
    found = hashlib.sha256()
    for part in read_parts(source):
        found.update(_bytes_of(part))
    return found.hexdigest()


def is_query(data: Any) -> bool:
    """Return whether a table is what a database answers."""
    return isinstance(data, str | Path | Source) and _source(data).is_database


def _bytes_of(part: pa.Table) -> memoryview:
    rows = io.BytesIO()
    try:
        pyarrow.csv.write_csv(part, rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a list or bytes, which terms cannot name
        rows = io.BytesIO()
        with pa.ipc.new_stream(rows, part.schema) as stream:
            stream.write_table(part)
    return rows.getbuffer()


def _source(where: str | Path | Source) -> Source:
    return where if isinstance(where, Source) else Source(where)


def _read_csv(path: Path, dialect: Dialect) -> pa.Table:
    refused: list[pyarrow.csv.InvalidRow] = []
    with _readable_as_csv(path, dialect, refused):
        try:
            options = _options(path, dialect, refused, use_threads=True)
            table = pyarrow.csv.read_csv(_opened(path, dialect), *options)
            _refuse_open_quote(path, dialect, table)
            return with_points(table, dialect)
        except pa.ArrowInvalid:
            if refused:  # only a single thread reports the number of the line
                list(_batches(Source(path, dialect), refused))
            raise


def _parts_of_csv(source: Source) -> Iterator[pa.Table]:
    refused: list[pyarrow.csv.InvalidRow] = []
    with _readable_as_csv(source.path, source.dialect, refused):
        last = None
        for part in _batches(source, refused):
            yield part
            last = part if part.num_rows else last
        if last is not None:
            _refuse_open_quote(source.path, source.dialect, last)


def _refuse_open_quote(path: Path, dialect: Dialect, table: pa.Table) -> None:
    """Raise `UnreadableFileError` if the last field of a table is the rest of its file.

    Arrow takes all lines behind a quote that is never closed for one text, and says nothing.
    """
    last = table.column(table.num_columns - 1)[-1].as_py() if len(table) else None
    if not isinstance(last, str) or not (lines := len(re.findall("\r\n?|\n", last.rstrip("\r\n")))):
        return
    ends, tail = last.encode().rstrip(b"\r\n"), b""
    with _opened(path, dialect) as file:
        while block := file.read(_LONG_ROW_BYTES):
            tail = (tail + block)[-len(ends) - len(b"\r\n") :]
    if tail.rstrip(b"\r\n").endswith(ends):
        reason = f"a quote opens in its last column {lines} lines before its end, and is never closed"
        raise unreadable(path, reason, "close the quote, or double it where it stands for an inch")


def _batches(source: Source, refused: list[pyarrow.csv.InvalidRow]) -> Iterator[pa.Table]:
    rows_before = 0
    try:
        for part in _in_parts(source, refused, _PART_BYTES):
            yield part
            rows_before += part.num_rows
        return
    except pa.ArrowInvalid as error:
        if _TOO_LONG not in str(error):
            raise
    for part in _in_parts(source, refused, _LONG_ROW_BYTES):
        if part.num_rows > rows_before or not part.num_rows:
            yield part.slice(rows_before)
        rows_before = max(rows_before - part.num_rows, 0)


def _in_parts(source: Source, refused: list[pyarrow.csv.InvalidRow], part_bytes: int) -> Iterator[pa.Table]:
    rows_before, path, dialect = 0, source.path, source.dialect
    options = _options(path, dialect, refused, use_threads=False, part_bytes=part_bytes)
    packed = pa.OSFile(str(path))
    reader = pyarrow.csv.open_csv(_unpacked(packed, path, dialect), *options)
    yield reader.schema.empty_table()
    for batch in reader:
        try:
            yield with_points(pa.Table.from_batches([batch]), dialect)
        except AmbiguousNumberError as error:
            raise AmbiguousNumberError(
                error.column, rows_before + error.row, str(error), error.hint
            ) from None
        rows_before += batch.num_rows
        _tell(source, packed.tell())  # some blocks ahead of the batch


def _tell(source: Source, done_bytes: int) -> None:
    """Say how much of a file has been read, to whoever watches."""
    if source.watch is not None:
        source.watch(done_bytes, source.path.stat().st_size)


@contextmanager
def _readable_as_csv(path: Path, dialect: Dialect, refused: list[pyarrow.csv.InvalidRow]) -> Iterator[None]:
    """Say what is wrong with a CSV file, and what to do about it."""
    refuse_other_kinds(path, dialect.encoding or "utf-8")
    if dialect == PLAIN:
        _refuse_other_separator(path)
    try:
        yield
    except AmbiguousNumberError as error:
        reason = f"column '{error.column}', data row {error.row}: {error}"
        raise unreadable(path, reason, error.hint) from None
    except UnicodeDecodeError:
        raise _wrongly_encoded(path, dialect) from None
    except pa.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise _wrongly_encoded(path, dialect) from None
        if not refused:
            raise
    if refused:
        row = refused[-1]
        reason = f"line {row.number} has {row.actual_columns} fields, the header has {row.expected_columns}"
        separator = _word(dialect.separator)
        hint = f"correct the line; a field that contains {separator} needs quotes around it"
        raise unreadable(path, reason, hint)


def _refuse_other_separator(path: Path) -> None:
    header = head_of(path, _HEADER_BYTES).split(b"\n")[0]
    others = [word for word, separator in SEPARATORS.items() if separator.encode() in header]
    if others and "commas" not in others:
        hint = f"say how it is written with --csv {others[0]}, in Python with Source(path, Dialect(...))"
        raise unreadable(path, f"its columns are separated by {others[0]}", hint)


def _wrongly_encoded(path: Path, dialect: Dialect) -> UnreadableFileError:
    encoding = "UTF-8" if dialect.encoding in (None, "utf-8") else str(dialect.encoding)
    hint = "say its encoding, such as --csv windows-1252, or convert it with iconv"
    return unreadable(path, f"its text is not {encoding}", hint)


def _word(separator: str | None) -> str:
    return next(word for word, each in SEPARATORS.items() if each == separator)


def _options(
    path: Path,
    dialect: Dialect,
    refused: list[pyarrow.csv.InvalidRow],
    *,
    use_threads: bool,
    part_bytes: int = _LONG_ROW_BYTES,
) -> tuple[pyarrow.csv.ReadOptions, pyarrow.csv.ParseOptions, pyarrow.csv.ConvertOptions]:
    """Return the options that keep every column text, and note the lines that are refused."""

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        refused.append(row)
        return "error"

    names, lines_before = _names(path, dialect)
    reading = pyarrow.csv.ReadOptions(use_threads=use_threads, block_size=part_bytes, skip_rows=lines_before)
    types = dict.fromkeys(names, pa.string())
    converting = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return reading, _parsing(dialect, refuse, empty_rows=len(names) == 1), converting


def _parsing(
    dialect: Dialect, handler: Callable[[pyarrow.csv.InvalidRow], str], *, empty_rows: bool = False
) -> pyarrow.csv.ParseOptions:
    """Return how lines become rows; in a table of one column an empty line is a row with an empty field."""
    return pyarrow.csv.ParseOptions(
        delimiter=dialect.separator or ",",
        newlines_in_values=True,
        ignore_empty_lines=not empty_rows,
        invalid_row_handler=handler,
    )


def _names(path: Path, dialect: Dialect) -> tuple[list[str], int]:
    """Return the names in the header, and how many lines stand before it.

    Arrow guesses the type of every column from the first block, which for many columns takes as long as to
    read the whole of it. So the block has two lines, unless they are no rows: a field may have several.
    """
    with _opened(path, dialect) as file:
        head = file.read(_HEADER_BYTES)
    lines_before = 1 if _TOLD_SEPARATOR.match(head) else 0
    end = 0
    for _ in range(lines_before + 2):
        end = head.find(b"\n", end) + 1 or len(head)
    try:
        names = _names_before(path, dialect, lines_before, end or _HEADER_BYTES)
    except pa.ArrowInvalid:
        names = _names_before(path, dialect, lines_before, _LONG_ROW_BYTES)
    if len(names) == 1:  # of such a table an empty line is a row, and would be the header
        found = _BEFORE_HEADER.match(head)
        lines_before += len(re.findall(rb"\r\n?|\n", found[1])) if found else 0
    return names, lines_before


def _names_before(path: Path, dialect: Dialect, lines_before: int, block_bytes: int) -> list[str]:
    reading = pyarrow.csv.ReadOptions(use_threads=False, block_size=block_bytes, skip_rows=lines_before)
    parsing = _parsing(dialect, lambda _: "skip")  # the next reading refuses it
    names: list[str] = pyarrow.csv.open_csv(_opened(path, dialect), reading, parsing).schema.names
    return names


def _opened(path: Path, dialect: Dialect) -> pa.NativeFile:
    """Return a file as UTF-8, unpacked if it is compressed.

    Arrow reads a CSV file ahead in another thread, for a moment also after its reader is gone. So nobody may
    close it: the file that is opened next would have its descriptor, and lose what is read to nobody. It is
    closed once nothing refers to it.
    """
    return _unpacked(pa.OSFile(str(path)), path, dialect)


def _unpacked(packed: pa.NativeFile, path: Path, dialect: Dialect) -> pa.NativeFile:
    """Return the text of a file as UTF-8, which reads from it."""
    codec = codec_of(path)
    file = packed if codec is None else pa.CompressedInputStream(packed, codec)
    if dialect.encoding in (None, "utf-8"):
        return file
    return pa.transcoding_input_stream(file, dialect.encoding, "utf8")


def table_from(data: Any) -> pa.Table:
    """Return the table at a path or `Source`, or the Arrow table or data frame (pandas, polars) in memory.

    The index of a data frame of pandas is no column, as in scikit-learn: that of a part of a frame would be
    one that other parts have not.

    Raises
    ------
    InputError
        If the table cannot be read, or is none.
    """
    if isinstance(data, str | Path | Source):
        return read_table(data)
    return table_in_memory(data)
