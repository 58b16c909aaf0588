"""What kind a file is by its name, and the errors of one that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from protocol.errors import UnreadableFileError

_PART_FIELDS: Final = 3 * 2**18
"""Fields of one part of a Parquet file, or of a table in memory."""
_FEWEST_ROWS, _MOST_ROWS = 2**8, 2**16
"""Of such a part, however many columns there are."""

_LOOKED_AT_BYTES: Final = 256
_COMPRESSED: Final = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
_WORKBOOKS: Final = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
_OTHER_KINDS: Final = (".xls", ".xlsb", ".ods", ".numbers")
_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def is_parquet(path: Path) -> bool:
    """Return whether a file is a Parquet file by its name."""
    return path.suffix.lower() in (".parquet", ".pq")


def is_arrow(path: Path) -> bool:
    """Return whether a file is one of Arrow, or Feather, by its name."""
    return path.suffix.lower() in (".feather", ".arrow", ".ipc")


def is_excel(path: Path) -> bool:
    """Return whether a file is an Excel workbook by its name."""
    return path.suffix.lower() in (".xlsx", ".xlsm")


def codec_of(path: Path) -> str | None:
    """Return what compresses a file, by the end of its name; None if nothing does."""
    return _CODECS.get(path.suffix.lower())


def is_csv(path: Path) -> bool:
    """Return whether a file is a CSV file by its name: every one is that is of no other kind."""
    return not (is_parquet(path) or is_arrow(path) or is_excel(path))


def rows_of_a_part(columns: int) -> int:
    """Return how many rows of a table become one part where the file does not say."""
    return min(max(_PART_FIELDS // max(columns, 1), _FEWEST_ROWS), _MOST_ROWS)


def head_of(path: Path, most: int) -> bytes:
    """Return the first bytes of a file, unpacked if it is compressed."""
    with pa.input_stream(str(path), compression=codec_of(path)) as file:
        return bytes(file.read(most))


def unreadable(path: object, reason: str, hint: str) -> UnreadableFileError:
    """Return an error that says what to do about a file."""
    error = UnreadableFileError(path, reason)
    error.hint = hint
    return error


def refuse_other_kinds(path: Path, encoding: str) -> None:
    """Raise `UnreadableFileError` for what people take for a CSV file of this encoding and that is none."""
    with path.open("rb") as file:
        begins = file.read(_LOOKED_AT_BYTES)
    if not begins:
        raise unreadable(path, "it is not a table, because it is empty", "export the table again")
    if begins.startswith(_WORKBOOKS):
        hint = "save the sheet as CSV UTF-8, or name the file .xlsx if it is an Excel workbook"
        raise unreadable(path, "it is an Excel workbook, or another archive, and no CSV file", hint)
    is_wide = "16" in encoding or "32" in encoding
    if b"\0" in begins and not is_wide and not begins.startswith(_COMPRESSED):
        hint = "say so with --csv utf-16, or save it as CSV UTF-8"
        raise unreadable(path, f"its text is UTF-16, not {encoding.upper()}", hint)


@contextmanager
def readable_file(path: Path) -> Iterator[None]:
    """Turn whatever fails in reading a file into an `UnreadableFileError`."""
    if not path.exists():
        raise UnreadableFileError(path, "no such file")
    if not path.is_file():  # a pipe too, because a CSV file is opened more than once
        raise UnreadableFileError(path, "not a regular file")
    if path.suffix.lower() in _OTHER_KINDS:
        raise unreadable(path, "a spreadsheet of this kind is not read", "save it as .xlsx or as CSV")
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow's message quotes the offending line, which may be a patient's record
        found = UnreadableFileError(path, f"not a table ({type(error).__name__})")
        if getattr(error, "errno", None) is None:  # Arrow says so of a damaged file too
            found.hint = "it is damaged, or of another kind than its name says: export it again"
        raise found from None
