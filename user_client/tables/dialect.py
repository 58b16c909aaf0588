"""How a CSV file is written: what separates its columns, its decimal mark, its encoding.

Fields stay text, but a number with a decimal comma is written with a point before the schema sees it. A field
that may be two different numbers is refused, unless a person has said which one it is.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from protocol.errors import InputError

SEPARATORS: Final = {"commas": ",", "semicolons": ";", "tabs": "\t", "bars": "|"}
_DECIMALS: Final = {"decimal-point": ".", "decimal-comma": ","}
_THOUSANDS: Final = {"thousands": True, "no-thousands": False}
_SIGN, _EXPONENT = r"^(\s*[+-]?)", r"((?:[eE][+-]?[0-9]+)?\s*)$"
COMMA_FRACTION: Final = rf"{_SIGN}([0-9]+),([0-9]+){_EXPONENT}"
POINT_FRACTION: Final = rf"{_SIGN}([0-9]+)\.([0-9]+){_EXPONENT}"
COMMA_GROUP: Final = r"^\s*[+-]?[1-9][0-9]{0,2},[0-9]{3}\s*$"
"""1,234: one thousand and more, or one and a fraction."""
POINT_GROUP: Final = r"^\s*[+-]?[1-9][0-9]{0,2}\.[0-9]{3}\s*$"
GROUPED_WITH_COMMA: Final = rf"{_SIGN}([1-9][0-9]{{0,2}}(?:\.[0-9]{{3}})+),([0-9]+)(\s*)$"
"""1.234,5, which is one thousand and more."""
GROUPED_WITH_POINT: Final = rf"{_SIGN}([1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+)\.([0-9]+)(\s*)$"
_POINT_GROUPS: Final = r"^\s*[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+(,[0-9]+)?\s*$"
_COMMA_GROUPS: Final = r"^\s*[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?\s*$"
_FRACTION: Final = r"^\s*[+-]?[0-9]+([.,][0-9]{3})*[.,][0-9]+([eE][+-]?[0-9]+)?\s*$"


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written; None is what nobody has said.

    Attributes
    ----------
    separator : str, optional
        Between columns.
    decimal : {".", ","}, optional
        As long as it is None, a number with a fraction is refused.
    thousands : bool, optional
        Whether the other one of comma and point groups the digits of large numbers. As long as it is None,
        1.234 is refused where the decimal mark is a comma.
    encoding : str, optional
        As Python names it.
    """

    separator: str | None = None
    decimal: str | None = None
    thousands: bool | None = None
    encoding: str | None = None

    @property
    def words(self) -> str:
        """How ``--csv`` says it."""
        said = [
            *(word for word, separator in SEPARATORS.items() if separator == self.separator),
            *(word for word, decimal in _DECIMALS.items() if decimal == self.decimal),
            *(word for word, thousands in _THOUSANDS.items() if thousands is self.thousands),
        ]
        return ",".join([*said, self.encoding] if self.encoding else said)


PLAIN: Final = Dialect(",", ".", None, "utf-8")
"""What a file is read as if nothing is said of it, with or without a byte order mark."""


def parse_dialect(words: str) -> Dialect:
    """Return what the words of ``--csv`` say; raises `InputError`."""
    said: dict[str, str | bool] = {}
    for word in words.lower().replace(" ", "").split(","):
        name, value = _meaning(word)
        if name in said:
            raise InputError(f"--csv says the {name} twice")
        said[name] = value
    return Dialect(**said)  # type: ignore[arg-type]  # each part has the kind of its name


def _meaning(word: str) -> tuple[str, str | bool]:
    """Return which part of a dialect a word is about, and what it says."""
    known: dict[str, Mapping[str, str | bool]] = {
        "separator": SEPARATORS,
        "decimal": _DECIMALS,
        "thousands": _THOUSANDS,
    }
    for name, values in known.items():
        if word in values:
            return name, values[word]
    try:
        b"a".decode(word, "replace")  # refuses a codec that is not one of text
        return "encoding", codecs.lookup(word).name if word != "windows-1252" else word
    except (LookupError, ValueError):
        words = ", ".join(word for values in known.values() for word in values)
        raise InputError(
            f"--csv takes words with commas between them: {words}, or an encoding such as utf-16"
        ) from None


class AmbiguousNumberError(ValueError):
    """A field that may be two different numbers, at a column and a row of a part."""

    def __init__(self, column: str, row: int, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.column, self.row, self.hint = column, row, hint


def with_points(part: pa.Table, dialect: Dialect) -> pa.Table:
    """Return a table of texts with decimal points, and nothing between thousands, in all its numbers.

    Raises
    ------
    AmbiguousNumberError
        If a field may be two different numbers.
    """
    if dialect.decimal == "." and not dialect.thousands:
        return part
    columns = [
        _with_points(values, name, dialect) for name, values in zip(part.column_names, part, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=part.schema)


def with_marks(part: pa.Table, dialect: Dialect) -> pa.Table:
    """Return a table as a dialect writes its numbers: undoes `with_points`, but for marks between thousands.

    Where numbers have decimal commas, columns of fractions become texts, (n,) each as before.
    """
    if dialect.decimal != ",":
        return part
    for at, field in enumerate(part.schema):
        values = part.column(at)
        if pa.types.is_floating(field.type):
            values = pc.replace_substring(pc.cast(values, pa.string()), ".", ",")
        elif pa.types.is_string(field.type) and dialect.thousands is not False:  # else they had points before
            values = _replaced(values, ".", POINT_FRACTION, r"\1\2,\3\4")
        part = part.set_column(at, field.name, values)
    return part


def _with_points(values: pa.ChunkedArray, name: str, dialect: Dialect) -> pa.ChunkedArray:
    if dialect.decimal is None:
        _refuse(
            values,
            name,
            _FRACTION,
            "whether its numbers have decimal points or decimal commas cannot be told",
            "say --csv decimal-point or --csv decimal-comma",
        )
        return values
    if dialect.decimal == ".":
        return _without_groups(values, _COMMA_GROUPS, ",") if dialect.thousands else values
    if dialect.thousands is None:
        _refuse(
            values,
            name,
            POINT_GROUP,
            "a point before three digits may group thousands, or be a decimal point",
            "say --csv thousands if 1.234 is more than a thousand, --csv no-thousands if its point stays",
        )
        values = _without_groups(values, GROUPED_WITH_COMMA, ".")
    elif dialect.thousands:
        values = _without_groups(values, _POINT_GROUPS, ".")
    return _replaced(values, ",", COMMA_FRACTION, r"\1\2.\3\4")


def _without_groups(values: pa.ChunkedArray, grouped: str, mark: str) -> pa.ChunkedArray:
    """Return a column whose grouped numbers have no mark between their groups."""
    chosen = pc.match_substring_regex(values, grouped)
    if not pc.any(chosen).as_py():
        return values
    return pc.if_else(chosen, pc.replace_substring(values, mark, ""), values)


def _replaced(values: pa.ChunkedArray, mark: str, pattern: str, replacement: str) -> pa.ChunkedArray:
    if not pc.any(pc.match_substring(values, mark)).as_py():  # much faster than the pattern
        return values
    return pc.replace_substring_regex(values, pattern, replacement)


def _refuse(values: pa.ChunkedArray, name: str, pattern: str, reason: str, hint: str) -> None:
    row = pc.index(pc.match_substring_regex(values, pattern), True).as_py()
    if row >= 0:
        raise AmbiguousNumberError(name, row + 1, reason, hint)
