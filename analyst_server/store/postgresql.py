"""What is particular about PostgreSQL: how a connection is made, what a reader sees, and who waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from protocol.errors import InputError, StorageBusyError

log = logging.getLogger(__name__)

DRIVER: Final = "postgresql+psycopg"
LOCK_NOT_AVAILABLE: Final = "55P03"
"""What PostgreSQL says to whoever has waited for a lock for as long as it wanted to."""
MIGRATION_WAIT_S: Final = 2.0
"""How long a change of the tables waits for those who read them: a request waits behind it no longer."""
MIGRATION_PAUSE_S: Final = 4.0
"""How long it then leaves the tables to all others."""
MIGRATION_BUDGET_S: Final = 60.0
"""How long it tries in all: less than the two minutes that our chart gives a start."""
WAIT_S: Final = 30
"""How long a writer waits for the lock of another, and whoever asks for a connection."""
KEPT_CONNECTIONS: Final = 5
MORE_CONNECTIONS: Final = 15
"""Beside those that are kept; closed after use. A server has 100 for all of its clients, unless set."""
_READS: Final = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
"""A reader sees everything as it was when it began, as SQLite shows it."""
_CONNECTION: Final[dict[str, Any]] = {
    "application_name": "odc-analyst",
    "connect_timeout": 10,
    # a server that has gone without a word, such as the old one of a failover, is noticed
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "options": f"-c lock_timeout={WAIT_S}s -c timezone=UTC",
}


def engine_of(url: URL) -> Engine:
    """Return an engine that tries a connection before it is used: the server may have restarted.

    Raises `InputError` if its driver is not installed, or is none that we know.
    """
    if url.drivername not in ("postgresql", DRIVER):
        raise InputError(f"the driver {url.drivername} is not known: begin the address with {DRIVER}://")
    given = {name: value for name, value in _CONNECTION.items() if name not in url.query}
    try:
        return create_engine(
            url.set(drivername=DRIVER),
            hide_parameters=True,  # messages, which no log should have
            pool_pre_ping=True,
            pool_size=KEPT_CONNECTIONS,
            max_overflow=MORE_CONNECTIONS,
            pool_timeout=WAIT_S,
            connect_args=given,
        )
    except ImportError:
        error = InputError("the driver of PostgreSQL is not installed")
        error.hint = "pip install 'orthonormal-data-collaboration[postgres]'"
        raise error from None


def reading(engine: Engine) -> Engine:
    """Return the same engine for transactions that write nothing."""
    return engine.execution_options(**_READS)


def migrate(engine: Engine, change: Callable[[Connection], None]) -> None:
    """Change the tables in one transaction, once nobody else is changing them.

    A change waits until nobody reads a table, and whoever comes meanwhile waits behind it: so it waits only
    for a moment, undoes what it has done, and tries again later.

    Raises `StorageBusyError` if that was in vain for `MIGRATION_BUDGET_S`.
    """
    ends_s = time.monotonic() + MIGRATION_BUDGET_S
    while not _is_changed(engine, change):
        if time.monotonic() >= ends_s:
            raise _in_use()
        log.info("another program reads the tables: they are changed as soon as it has ended")
        time.sleep(MIGRATION_PAUSE_S)


def _is_changed(engine: Engine, change: Callable[[Connection], None]) -> bool:
    """Return whether the tables could be changed; False if somebody held them."""
    try:
        with engine.begin() as connection:
            # nobody but another migration waits for this
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('migrations', 0))"))
            connection.execute(text(f"SET LOCAL lock_timeout = '{MIGRATION_WAIT_S * 1000:.0f}ms'"))
            change(connection)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        return False
    return True


def _in_use() -> StorageBusyError:
    error = StorageBusyError(
        "the tables have to be changed for this version, and another program has read them for"
        f" {MIGRATION_BUDGET_S:g} s"
    )
    error.hint = (
        "wait until it has ended (pg_dump, for example), then start the server again; nothing was changed"
    )
    return error
