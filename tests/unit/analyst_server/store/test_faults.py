"""What a database says when it cannot work, as errors that people can act on."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from analyst_server.store.faults import RETRY_AFTER_S, storage_errors
from protocol.errors import DiskFullError, StorageBusyError, StorageError
from runtime.storage import RETRY_FULL_DISK_S


def of_sqlite(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("its own words")
    error.sqlite_errorcode = code
    return error


class OfPostgresError(Exception):
    """What the driver raises; a server that is away sends no code."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("its own words")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (of_sqlite(sqlite3.SQLITE_BUSY), StorageBusyError),
        (of_sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT), StorageBusyError),
        (of_sqlite(sqlite3.SQLITE_FULL), DiskFullError),
        (of_sqlite(sqlite3.SQLITE_READONLY_DIRECTORY), StorageError),
        (of_sqlite(sqlite3.SQLITE_IOERR_FSYNC), StorageError),
        (of_sqlite(sqlite3.SQLITE_CANTOPEN), StorageError),
        (OfPostgresError("53100"), DiskFullError),
        (OfPostgresError("57P01"), StorageBusyError),
        (OfPostgresError(None), StorageBusyError),
    ],
    ids=repr,
)
def test_a_database_that_cannot_work_is_an_error_of_ours(said: Exception, error: type[StorageError]) -> None:
    with pytest.raises(StorageError) as caught, storage_errors():
        raise OperationalError("SELECT 1", {}, said)
    assert type(caught.value) is error
    assert caught.value.__cause__ is said  # for the log, in one line
    asked_s = {StorageBusyError: RETRY_AFTER_S, DiskFullError: RETRY_FULL_DISK_S}.get(error)
    assert caught.value.context.get("retry_after_s") == asked_s


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("SELECT 1", {}, of_sqlite(sqlite3.SQLITE_ERROR)),
        IntegrityError("INSERT", {}, sqlite3.IntegrityError("UNIQUE")),
    ],
)
def test_a_fault_of_ours_stays_one(error: Exception) -> None:
    with pytest.raises(type(error)), storage_errors():
        raise error
