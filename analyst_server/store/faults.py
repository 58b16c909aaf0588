"""What a database says when it cannot work, as our errors: nobody above this room knows SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import OperationalError

from protocol.errors import DiskFullError, StorageBusyError, StorageError
from runtime.storage import RETRY_FULL_DISK_S

_SQLITE_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SQLITE_FAILING: Final = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
)
_POSTGRES_DISK_FULL: Final = "53100"
RETRY_AFTER_S: Final = 5
"""When a client may ask again: a request has waited for the database already."""


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise what a database cannot do now as a `StorageError`; a wrong question stays what it is."""
    try:
        yield
    except OperationalError as error:
        found = _storage_error(error)
        if found is None:
            raise
        raise found from error.orig  # its own words, in one line


def busy() -> StorageBusyError:
    """Return the error of a writer that has waited for its turn in vain."""
    return StorageBusyError("the analyst's database is locked", retry_after_s=RETRY_AFTER_S)


def _full() -> DiskFullError:
    return DiskFullError("the disk of the analyst's database is full", retry_after_s=RETRY_FULL_DISK_S)


def _storage_error(error: OperationalError) -> StorageError | None:
    if not isinstance(error.orig, sqlite3.OperationalError):
        if getattr(error.orig, "sqlstate", None) == _POSTGRES_DISK_FULL:
            return _full()
        return StorageBusyError("the analyst's database does not answer", retry_after_s=RETRY_AFTER_S)
    code = error.orig.sqlite_errorcode & 0xFF  # the higher bits say why
    if code in _SQLITE_BUSY:
        return busy()
    if code == sqlite3.SQLITE_FULL:
        return _full()
    if code in _SQLITE_FAILING:
        return StorageError(f"the analyst's database cannot be used: {error.orig}")
    return None
