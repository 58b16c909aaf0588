"""What a database says when it cannot work, as our errors: nobody above this room knows SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm.exc import StaleDataError

from analyst_server.store import postgresql
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
_POSTGRES_OVERTAKEN: Final = ("23505", "40001", "40P01")
"""Unique violation, serialization failure, deadlock: another writer was in the way.

Services look before they add: a key that exists nevertheless was added since by another process.
"""
_POSTGRES_FAILING: Final = ("25006", "42501", "58030", "XX001", "XX002")
"""Read only, no privilege, input or output error, damaged table, damaged index."""
RETRY_AFTER_S: Final = 5
"""When a client may ask again: a request has waited for the database already."""
OVERTAKEN_RETRY_AFTER_S: Final = 1
"""When, after another writer was in the way: it has ended by now."""


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise what a database cannot do now as a `StorageError`; a wrong question stays what it is."""
    try:
        yield
    except (DBAPIError, PoolTimeoutError, StaleDataError) as error:
        found = _storage_error(error)
        if found is None:
            raise
        raise found from getattr(error, "orig", None) or error  # its own words, in one line


def busy() -> StorageBusyError:
    """Return the error of a writer that has waited for its turn in vain."""
    return StorageBusyError("the analyst's database is locked", retry_after_s=RETRY_AFTER_S)


def _full() -> DiskFullError:
    return DiskFullError("the disk of the analyst's database is full", retry_after_s=RETRY_FULL_DISK_S)


def _storage_error(error: DBAPIError | PoolTimeoutError | StaleDataError) -> StorageError | None:
    if isinstance(error, PoolTimeoutError):
        return StorageBusyError(
            "all connections to the analyst's database are in use", retry_after_s=RETRY_AFTER_S
        )
    if isinstance(error, StaleDataError):
        return _overtaken()
    if isinstance(error.orig, sqlite3.Error):
        return _of_sqlite(error.orig) if isinstance(error.orig, sqlite3.OperationalError) else None
    return _of_postgres(error)


def _of_postgres(error: DBAPIError) -> StorageError | None:
    code = getattr(error.orig, "sqlstate", None)
    if code in _POSTGRES_OVERTAKEN:
        return _overtaken()
    if code == postgresql.LOCK_NOT_AVAILABLE:
        return busy()
    if code == _POSTGRES_DISK_FULL:
        return _full()
    if code in _POSTGRES_FAILING:
        return StorageError(f"the analyst's database cannot be used (SQLSTATE {code})")
    if isinstance(error, OperationalError) or error.connection_invalidated:
        return StorageBusyError("the analyst's database does not answer", retry_after_s=RETRY_AFTER_S)
    return None


def _overtaken() -> StorageBusyError:
    return StorageBusyError("another process has changed the same", retry_after_s=OVERTAKEN_RETRY_AFTER_S)


def error_of_copy(error: sqlite3.OperationalError, path: Path) -> StorageError | None:
    """Return what to tell of a copy of a database that cannot be written to a file, if a disk is to blame."""
    code = error.sqlite_errorcode & 0xFF  # the higher bits say why
    if code == sqlite3.SQLITE_FULL:  # SQLite only reads what it copies
        return DiskFullError(f"the disk of {path} is full")
    if code in _SQLITE_FAILING:
        return StorageError(f"the analyst's database cannot be copied to {path}: {error}")
    return _of_sqlite(error)


def _of_sqlite(error: sqlite3.OperationalError) -> StorageError | None:
    code = error.sqlite_errorcode & 0xFF  # the higher bits say why
    if code in _SQLITE_BUSY:
        return busy()
    if code == sqlite3.SQLITE_FULL:
        return _full()
    if code in _SQLITE_FAILING:
        return StorageError(f"the analyst's database cannot be used: {error}")
    return None
