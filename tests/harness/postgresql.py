"""A PostgreSQL server of its own, in a folder of its own, reached by a socket there, with a password."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

OWNER, PASSWORD = "clinic", "correct horse battery staple"
_EMPTY = "odc_tables"


@dataclass(frozen=True)
class PostgreSql:
    """A running server."""

    folder: Path
    programs: Path
    run: dict[str, Any]
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def url(self) -> str:
        return f"postgresql://{OWNER}@/postgres?host={self.folder}"

    def psql(self, script: str) -> None:
        """Run statements, and COPY FROM STDIN, as a person would."""
        words: list[str | Path] = [self.programs / "psql", "-v", "ON_ERROR_STOP=1", "-q", self.url]
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        subprocess.run(words, input=script, text=True, check=True, env=environment)

    def records_url(self, database: str = "postgres") -> str:
        """Return the address of a database as the analyst's settings have it; the password is in a file."""
        return (
            f"postgresql+psycopg://{OWNER}@/{database}?host={self.folder}&passfile={self.folder / 'pgpass'}"
        )

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement, outside of any transaction; return its rows."""
        with psycopg.connect(
            host=str(self.folder), user=OWNER, password=PASSWORD, dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self, *, has_tables: bool = False) -> Iterator[str]:
        """Yield the name of a new database, which is dropped afterwards; empty, or with our tables."""
        name, template = f"test_{next(self._numbers)}", self._with_tables() if has_tables else "template1"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield name
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def records(self) -> Iterator[str]:
        """Yield the address of a database with our tables, whose rows are deleted afterwards."""
        from analyst_server.store.tables import Base  # tables of institutions are read without the analyst

        yield self.records_url(self._with_tables())
        tables = reversed(Base.metadata.sorted_tables)
        self.execute("; ".join(f"DELETE FROM {table.name}" for table in tables), _EMPTY)  # noqa: S608

    def _with_tables(self) -> str:
        """Return the name of a database with empty tables.

        It is made once, because that takes longer than most tests.
        """
        from analyst_server.store import Records

        if not self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{_EMPTY}'"):  # noqa: S608
            self.execute(f"CREATE DATABASE {_EMPTY}")
            made = Records(self.records_url(_EMPTY))
            made.migrate()
            made.dispose()
        return _EMPTY

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self._control("-l", self.folder / "log", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; ``immediate`` is as if it had been killed."""
        self._control("-m", mode, "stop")

    def _control(self, *words: str | Path) -> None:
        control = [self.programs / "pg_ctl", "-D", self.folder / "data", "-w", *words]
        subprocess.run(control, **self.run)


@contextmanager
def postgresql(*locale: str) -> Iterator[PostgreSql]:
    """Yield a server; the tests that need it are skipped where none is installed.

    ``locale`` are options of ``initdb`` about the language.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [
        Path(path) for path in [shutil.which("initdb")] if path
    ]
    if not found:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    # the server refuses to run as root
    as_user: dict[str, Any] = {"user": "postgres", "cwd": "/"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="odc-pg-", dir="/tmp"))  # a socket's path must be short
    try:
        secret, passfile = folder / "password", folder / "pgpass"
        secret.write_text(PASSWORD)
        passfile.touch(0o600)
        passfile.write_text(f"*:*:*:*:{PASSWORD}")
        if as_user:
            shutil.chown(folder, "postgres")
        made = PostgreSql(folder, found[-1].parent, {"check": True, "stdout": subprocess.DEVNULL, **as_user})
        initdb: list[str | Path] = [
            found[-1],
            "-D",
            folder / "data",
            "-U",
            OWNER,
            "-A",
            "scram-sha-256",
            f"--pwfile={secret}",
            "-N",
            "-E",
            "UTF8",
            *locale,
        ]
        subprocess.run(initdb, **made.run)
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def analysts_postgresql() -> Iterator[PostgreSql]:
    """Yield a server for the analyst's records; it orders words as a dictionary does, without the hyphens."""
    with postgresql("--locale-provider=icu", "--icu-locale=en-US-u-ka-shifted") as made:
        yield made
