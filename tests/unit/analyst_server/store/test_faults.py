"""What a database says when it cannot work, as errors that people can act on."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.exc import IntegrityError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm.exc import StaleDataError

from analyst_server.store.faults import OVERTAKEN_RETRY_AFTER_S, RETRY_AFTER_S, storage_errors
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
        (OfPostgresError("55P03"), StorageBusyError),
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
    "said",
    [
        OperationalError("UPDATE", {}, OfPostgresError("40001")),
        OperationalError("UPDATE", {}, OfPostgresError("40P01")),
        IntegrityError("INSERT", {}, OfPostgresError("23505")),
        StaleDataError("expected to update 1 row"),
    ],
    ids=repr,
)
def test_who_was_overtaken_by_another_writer_comes_again_soon(said: Exception) -> None:
    with pytest.raises(StorageBusyError, match="another process") as caught, storage_errors():
        raise said
    assert caught.value.context["retry_after_s"] == OVERTAKEN_RETRY_AFTER_S


def test_a_lock_that_another_holds_is_not_called_a_change() -> None:
    with pytest.raises(StorageBusyError, match="is locked"), storage_errors():
        raise OperationalError("SELECT", {}, OfPostgresError("55P03"))


@pytest.mark.parametrize("code", ["25006", "58030", "XX001"])
def test_a_database_that_fails_is_not_called_busy(code: str) -> None:
    with pytest.raises(StorageError, match=code) as caught, storage_errors():
        raise InternalError("SELECT", {}, OfPostgresError(code))
    assert type(caught.value) is StorageError


def test_a_connection_that_was_lost_is_a_database_that_does_not_answer() -> None:
    with pytest.raises(StorageBusyError, match="does not answer"), storage_errors():
        raise InternalError("SELECT", {}, OfPostgresError(None), connection_invalidated=True)


def test_a_pool_without_a_connection_left_is_busy() -> None:
    with pytest.raises(StorageBusyError, match="all connections"), storage_errors():
        raise PoolTimeoutError


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("SELECT 1", {}, of_sqlite(sqlite3.SQLITE_ERROR)),
        IntegrityError("INSERT", {}, OfPostgresError("23503")),
        IntegrityError("INSERT", {}, sqlite3.IntegrityError("UNIQUE")),
    ],
)
def test_a_fault_of_ours_stays_one(error: Exception) -> None:
    with pytest.raises(type(error)), storage_errors():
        raise error
