"""What is particular about SQLite: how it is set up, and how it is copied while it is in use."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import Connection, Engine, event

from analyst_server.store.faults import error_of_copy
from runtime.files import sync_directory, sync_file

BUSY_TIMEOUT_S: Final = 30
"""How long a writer waits for another: SQLite allows one at a time."""


def _keep_a_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Turn on the write-ahead log, if it is not on yet.

    Server and command may open a new database at the same time. SQLite refuses the second one at once,
    because its busy timeout does not cover the lock that this takes, so we wait here.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the higher bits say why
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def prepare(engine: Engine) -> None:
    """Give every connection a write-ahead log, full sync on commit, and one writer at a time."""

    @event.listens_for(engine, "connect")
    def on_connect(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.isolation_level = None  # `on_begin` starts the transactions
        pragmas = (f"busy_timeout={BUSY_TIMEOUT_S * 1000}", "synchronous=FULL", "foreign_keys=ON")
        for pragma in pragmas:
            dbapi_connection.execute(f"PRAGMA {pragma}")
        _keep_a_write_ahead_log(dbapi_connection)

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        # a transaction that starts by reading and then writes would fail instead of waiting
        writes = connection.get_execution_options().get("odc_write", True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def copy_database(connection: Connection, path: Path) -> None:
    """Write the database as it is at one moment to a new file, durably; writers need not wait for it.

    Raises `StorageError`, which names the file, if that cannot be written.
    """
    source = cast("sqlite3.Connection", connection.connection.driver_connection)
    try:
        with closing(sqlite3.connect(path)) as target:
            source.backup(target)
    except sqlite3.OperationalError as error:
        found = error_of_copy(error, path)
        if found is None:
            raise
        raise found from error
    path.chmod(0o600)
    sync_file(path)
    sync_directory(path.parent)
