"""A PostgreSQL server of its own, in a folder of its own, reached by a socket there, with a password."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

OWNER, PASSWORD = "clinic", "correct horse battery staple"


@dataclass(frozen=True)
class PostgreSql:
    """A running server."""

    folder: Path
    programs: Path

    @property
    def url(self) -> str:
        return f"postgresql://{OWNER}@/postgres?host={self.folder}"

    def psql(self, script: str) -> None:
        """Run statements, and COPY FROM STDIN, as a person would."""
        words: list[str | Path] = [self.programs / "psql", "-v", "ON_ERROR_STOP=1", "-q", self.url]
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        subprocess.run(words, input=script, text=True, check=True, env=environment)


@contextmanager
def postgresql() -> Iterator[PostgreSql]:
    """Yield a server; the tests that need it are skipped where none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [
        Path(path) for path in [shutil.which("initdb")] if path
    ]
    if not found:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    # the server refuses to run as root
    as_user: dict[str, Any] = {"user": "postgres", "cwd": "/"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="odc-pg-", dir="/tmp"))  # a socket's path must be short
    try:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if as_user:
            shutil.chown(folder, "postgres")
        run: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, **as_user}
        data = folder / "data"
        initdb: list[str | Path] = [
            found[-1],
            "-D",
            data,
            "-U",
            OWNER,
            "-A",
            "scram-sha-256",
            f"--pwfile={secret}",
            "-N",
            "-E",
            "UTF8",
        ]
        subprocess.run(initdb, **run)
        control: list[str | Path] = [found[-1].with_name("pg_ctl"), "-D", data, "-w"]
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        subprocess.run([*control, "-l", folder / "log", "-o", options, "start"], **run)
        try:
            yield PostgreSql(folder, found[-1].parent)
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **run)
    finally:
        shutil.rmtree(folder)
