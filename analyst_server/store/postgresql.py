"""What is particular about PostgreSQL: how a connection is made, what a reader sees, and who waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import URL

from protocol.errors import InputError

DRIVER: Final = "postgresql+psycopg"
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


@contextmanager
def one_migration(engine: Engine) -> Iterator[Connection]:
    """Open a transaction for changes of the tables, once nobody else is changing them."""
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('migrations', 0))"))
        yield connection
