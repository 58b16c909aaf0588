"""Which revision the tables of a database have, and whether this version knows it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from protocol.errors import InputError, UnreadableFileError

MIGRATIONS: Final = Path(__file__).parent / "migrations"
KNOWN: Final = {path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py")}
NEWEST: Final = max(KNOWN)


def revision_of(connection: Connection) -> str | None:
    """Return the revision of the tables, None before the first.

    Raises `InputError` for one of a later version.
    """
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    _require_known(found)
    return found


def require_known_copy(path: Path) -> None:
    """Raise `InputError` for a copy of an SQLite database with tables of a later version.

    Only the file is read, and nothing is written beside it. Raises `UnreadableFileError` if it is no database
    with our tables.
    """
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        raise UnreadableFileError(path, f"it has no records of an analyst: {error}") from None
    _require_known(row[0] if row else None)


def earlier_tables(found: str) -> InputError:
    """Return the error of a command that finds tables of an earlier version, which a server may still use."""
    error = InputError(
        "these records were written by an earlier version of the analyst"
        f" (tables {found}, this version has {NEWEST}), and a command does not change them"
    )
    error.hint = (
        "start the server of this version, `odc-analyst serve`: it upgrades them. While one of the earlier"
        " version runs, give the commands of that version"
    )
    return error


def _require_known(revision: str | None) -> None:
    if revision is None or revision in KNOWN:
        return
    error = InputError(
        "these records were written by a later version of the analyst, which changed their tables"
    )
    error.hint = (
        "install that version again, or restore the backup that was made before the upgrade:"
        " docs/operations.md, backup and restore"
    )
    raise error
