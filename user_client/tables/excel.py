"""Read a sheet of an Excel workbook row by row, as text.

What a cell holds becomes the text that a CSV file would have, so that the schema alone decides what it means.
An empty cell is a null.
"""

from __future__ import annotations

import datetime as dt
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from itertools import islice, repeat
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import ParseError

import pyarrow as pa

from user_client.errors import MissingExtraError
from user_client.tables.files import rows_of_a_part, unreadable

_BLOCK_BYTES: Final = 2**20
_EXACT: Final = 2.0**53
"""Below it, a whole number in a cell is written without a point."""


def excel_parts(path: Path, sheet: str | None) -> Iterator[pa.Table]:
    """Yield a sheet part by part, the first without rows.

    Its first row that is not empty has the names of the columns; later rows that are empty are left out, but
    for those of a table of one column between others.

    Raises
    ------
    UnreadableFileError
        If the file is no workbook, it is not clear which sheet is meant, or a cell cannot be read.
    MissingExtraError
        If the library is not installed.
    """
    try:
        with ExitStack() as stack:
            rows = _numbered_rows(path, sheet, stack)
            begins, names = _names(path, rows)
            if len(names) == 1:
                rows = _with_empty(rows, begins)
            schema = pa.schema([(name, pa.string()) for name in names])
            yield schema.empty_table()
            while part := list(islice(rows, rows_of_a_part(len(names)))):
                texts = zip(*(_fitting(path, number, row, len(names)) for number, row in part), strict=True)
                yield pa.Table.from_arrays([pa.array(column, pa.string()) for column in texts], schema=schema)
    except (zipfile.BadZipFile, zlib.error, EOFError, ParseError, KeyError, ValueError, TypeError):
        hint = "save it again as .xlsx, without a password, or as CSV"
        raise unreadable(path, "not an Excel workbook", hint) from None


def _numbered_rows(path: Path, sheet: str | None, stack: ExitStack) -> Iterator[tuple[int, list[str | None]]]:
    """Yield the rows of a sheet that are not empty, as text, with their numbers."""
    values = _cells(path, sheet, stack, data_only=True)
    formulas: Iterable[Any] = repeat(())
    if _may_have_formulas(
        path
    ):  # then it is read twice: an empty value alone does not tell one from the other
        formulas = _cells(path, sheet, stack, data_only=False)
    for number, (row, formulas_of_row) in enumerate(zip(values, formulas, strict=False), 1):
        for cell, formula in zip(row, formulas_of_row, strict=False):
            # a saved result that is an empty text has the type of texts, and is an empty field
            if cell.value is None and cell.data_type != "str" and formula.data_type == "f":
                reason = f"row {number} of the sheet has a formula whose value was not saved"
                raise unreadable(path, reason, "open it in Excel or LibreOffice and save it again")
        texts = [_text(cell.value) for cell in row]
        if any(text is not None for text in texts):
            yield number, texts


def _cells(path: Path, sheet: str | None, stack: ExitStack, *, data_only: bool) -> Iterator[Any]:
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise MissingExtraError("an Excel workbook", "excel") from None
    warnings.filterwarnings("ignore", module="openpyxl")  # its warnings quote cells
    file = stack.enter_context(path.open("rb"))  # openpyxl leaves one open that it cannot read
    book = stack.enter_context(closing(load_workbook(file, read_only=True, data_only=data_only)))
    found = {each.title: each for each in book.worksheets}
    if sheet is None and len(found) == 1:
        sheet = next(iter(found))
    if sheet is None:
        raise unreadable(path, f"it has {len(found)} sheets", "say which one with --sheet NAME")
    if sheet not in found:
        raise unreadable(path, f"it has no sheet '{sheet}'", "name one of its sheets with --sheet")
    found[sheet].reset_dimensions()  # some programs write wrong ones
    return iter(found[sheet].iter_rows())


def _may_have_formulas(path: Path) -> bool:
    """Return whether a sheet has a formula, ``<f`` or with a prefix ``:f``, or what looks like one."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                with archive.open(name) as file:
                    last = b""
                    while block := file.read(_BLOCK_BYTES):
                        if b"<f" in last + block or b":f" in last + block:
                            return True
                        last = block[-1:]
    return False


def _with_empty(
    rows: Iterator[tuple[int, list[str | None]]], begins: int
) -> Iterator[tuple[int, list[str | None]]]:
    """Yield rows and the empty ones before each of them, below the row of the names."""
    for number, row in rows:
        for empty in range(begins + 1, number):
            yield empty, [None]
        yield number, row
        begins = number


def _names(path: Path, rows: Iterator[tuple[int, list[str | None]]]) -> tuple[int, list[str]]:
    """Return the names of the columns, and the number of their row."""
    number, row = next(rows, (0, []))
    if not row:
        raise unreadable(path, "the sheet is empty", "say which sheet has the table with --sheet NAME")
    while row[-1] is None:
        row.pop()
    if None in row:
        reason = f"row {number} of the sheet, the first one, has no name for column {row.index(None) + 1}"
        raise unreadable(
            path, reason, "begin the sheet with one row of names, and leave no column without one"
        )
    return number, [name for name in row if name is not None]


def _fitting(path: Path, number: int, row: list[str | None], width: int) -> list[str | None]:
    """Return a row as wide as the names."""
    if any(text is not None for text in row[width:]):
        reason = f"row {number} of the sheet has a cell in a column without a name"
        raise unreadable(
            path,
            reason,
            "give the column a name, or empty the cell; rows above the names, such as a title, have to go",
        )
    return (row + [None] * width)[:width]


def _text(value: Any) -> str | None:
    """Return what is in a cell as a CSV file has it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.datetime):
        is_day = value.time() == dt.time()
        return (
            value.date().isoformat()
            if is_day
            else value.isoformat(" ", "microseconds" if value.microsecond else "seconds")
        )
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return str(value)
