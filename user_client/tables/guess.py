"""Guess how a CSV file is written, from its beginning.

A guess is for a person to see before it is used. What the beginning does not tell is refused, or left open:
`dialect.with_points` refuses the field that needs to know.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from protocol.errors import UnreadableFileError
from user_client.tables.dialect import (
    COMMA_FRACTION,
    COMMA_GROUP,
    GROUPED_WITH_COMMA,
    GROUPED_WITH_POINT,
    POINT_FRACTION,
    POINT_GROUP,
    SEPARATORS,
    Dialect,
)
from user_client.tables.files import head_of, readable_file, unreadable

_HEAD_BYTES: Final = 2**18
_MARKS: Final = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NUMBERS: Final = {
    name: re.compile(pattern)
    for name, pattern in {
        "comma": COMMA_FRACTION,
        "point": POINT_FRACTION,
        "comma or thousands": COMMA_GROUP,
        "point or thousands": POINT_GROUP,
        "comma, thousands": GROUPED_WITH_COMMA,
        "point, thousands": GROUPED_WITH_POINT,
    }.items()
}


def guess_dialect(path: Path, said: Dialect) -> Dialect:
    """Return how a CSV file is written: as it was said, and for the rest as its beginning looks.

    Raises
    ------
    UnreadableFileError
        If the file cannot be read, or several separators, encodings or decimal marks fit what was looked at.
    """
    with readable_file(path):
        head = head_of(path, _HEAD_BYTES)
    encoding = said.encoding or _encoding(path, head)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head).removeprefix("\ufeff")
    if len(head) == _HEAD_BYTES:  # its last line is not whole
        text = text[: text.rfind("\n") + 1] or text
    said = replace(said, encoding=encoding)
    separator = _that_separates(path, text, said.separator) if said.separator else _separator(path, text)
    said = replace(said, separator=separator)
    if said.decimal is not None:
        return said
    rows = _rows(text, separator)
    return _with_decimal(path, said, {field for row in rows[1:] for field in row})


def _encoding(path: Path, head: bytes) -> str:
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        raise unreadable(path, "its text has null bytes", "say --csv utf-16-le or utf-16-be if it is UTF-16")
    for encoding in ("utf-8", "windows-1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(head)
        except UnicodeDecodeError:
            continue
        return encoding
    raise unreadable(
        path, "its text is neither UTF-8 nor Windows-1252", "say the encoding, such as --csv mac-roman"
    )


def _that_separates(path: Path, text: str, said: str) -> str:
    """Return a separator that was said, unless it leaves one column and another one several in every row."""
    if len(next(iter(_rows(text, said)), [])) == 1:
        widths = {
            word: {len(row) for row in rows}
            for word, separator in SEPARATORS.items()
            if len(rows := _rows(text, separator)) > 1
        }
        if others := [word for word, found in widths.items() if len(found) == 1 and min(found) > 1]:
            mine = "".join(_words([said])) or f"'{said}'"
            raise unreadable(
                path,
                f"with {mine} it has one column, with {others[0]} {min(widths[others[0]])}",
                f"say --csv {others[0]}, or leave it out: it is guessed, and shown",
            )
    return said


def _separator(path: Path, text: str) -> str:
    """Return what separates the columns: all rows have as many as the header, and more than one."""
    if told := re.match(r"sep=([,;\t|])\r?\n", text):  # what Excel writes for itself
        return told[1]
    widths = {}
    for separator in SEPARATORS.values():
        rows = _rows(text, separator)
        if rows and len(rows[0]) > 1:
            widths[separator] = {len(row) for row in rows}
    fitting = [separator for separator, found in widths.items() if len(found) == 1] or list(widths)
    if len(fitting) > 1:
        raise unreadable(
            path,
            "several characters may separate its columns",
            f"say which with --csv {' or '.join(_words(fitting))}",
        )
    return fitting[0] if fitting else ","


def _words(separators: Iterable[str]) -> list[str]:
    return [word for word, separator in SEPARATORS.items() if separator in separators]


def _rows(text: str, separator: str) -> list[list[str]]:
    """Return the rows of a text, quoted line ends and all; empty lines are none, as for Arrow."""
    lines = io.StringIO(re.sub(r"\Asep=.\r?\n", "", text), newline="")
    try:
        return [row for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:  # an open quote that takes in too much; the reading refuses it
        return []


def _with_decimal(path: Path, said: Dialect, fields: set[str]) -> Dialect:
    """Return a dialect with the decimal mark that the numbers have, None if none shows it."""
    seen = {name for name, number in _NUMBERS.items() for field in fields if number.search(field)}
    commas = any(_is_comma(field) for field in fields) or "comma, thousands" in seen
    points = any(_is_point(field) for field in fields) or "point, thousands" in seen
    if said.separator == ",":
        return replace(said, decimal="," if commas and not points else ".")
    if commas and points:
        raise _cannot_tell(path, "it has numbers with decimal commas and with decimal points")
    if commas or points:
        thousands = said.thousands
        if thousands is None and seen & {"comma, thousands", "point, thousands"}:
            thousands = True
        return replace(said, decimal="," if commas else ".", thousands=thousands)
    if "comma or thousands" in seen or "point or thousands" in seen:
        raise _cannot_tell(path, "its numbers such as 1.234 may have thousands or fractions")
    return said


def _is_comma(field: str) -> bool:
    return bool(_NUMBERS["comma"].search(field)) and not _NUMBERS["comma or thousands"].search(field)


def _is_point(field: str) -> bool:
    return bool(_NUMBERS["point"].search(field)) and not _NUMBERS["point or thousands"].search(field)


def _cannot_tell(path: Path, reason: str) -> UnreadableFileError:
    return unreadable(
        path,
        reason,
        "say --csv decimal-comma or --csv decimal-point, and with it thousands or no-thousands: whether the"
        " other one stands between thousands",
    )
