"""A file of SQLite that the disk has changed is found at the start, and said in words."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from analyst_server.store import Records
from protocol.errors import StorageError, UnreadableFileError
from tests.harness.world import new_database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with enough rows that its tables and indexes have several pages."""
    found = tmp_path / "odc.sqlite"
    new_database(found)
    with closing(sqlite3.connect(found)) as connection, connection:
        connection.executemany(
            "INSERT INTO uplinks (id, collaboration_id, party, manifest, manifest_digest, rows,"
            " payload_bytes, created_at) VALUES (?, 'c', ?, x'00', x'00', 1, 1, 1)",
            [(f"{number:032x}", f"hospital-{number}") for number in range(2000)],
        )
    return found


def checked(path: Path) -> None:
    records = Records(f"sqlite:///{path}")
    try:
        records.migrate()
        records.check()
    finally:
        records.dispose()


def test_a_database_that_is_whole_passes(path: Path) -> None:
    checked(path)


def test_a_new_database_passes(tmp_path: Path) -> None:
    checked(tmp_path / "odc.sqlite")


def test_a_database_in_memory_passes() -> None:
    records = Records("sqlite://")
    records.check()
    records.dispose()


@pytest.mark.parametrize("damage", ["a page in the middle", "its end", "its head", "all of it"])
def test_a_damaged_database_is_said_in_words(path: Path, damage: str) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    match damage:
        case "a page in the middle":
            data[middle : middle + 4096] = bytes(4096)
        case "its end":
            del data[middle:]
        case "its head":
            data[:100] = bytes(100)
        case _:
            data[:] = b"no database at all" * 1000
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError, match="SQLite finds it damaged") as caught:
        checked(path)
    assert "backup" in caught.value.hint


def test_a_database_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "odc.sqlite").mkdir()
    records = Records(f"sqlite:///{tmp_path / 'odc.sqlite'}")
    with pytest.raises(StorageError, match="unable to open"):
        records.check()
