"""Transactions: opened, kept or undone as a whole, and one writer at a time."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from analyst_server.store import Member, Records, Unit, sqlite
from protocol.errors import StorageBusyError, StorageError
from protocol.states import State
from tests.harness.rows import collaboration, connection_of, get, put

TAKEN = (IntegrityError, StorageBusyError)
"""The second means that another process has added it since this one looked."""
LIMIT_S = 30
"""Longer than any of this takes; it only ends a test that would hang."""


def open_at_once(url: str, programs: int) -> None:
    """Open a database as several programs would that start at the same moment."""
    at_once = threading.Barrier(programs)

    def open_it(_: int) -> None:
        opened = Records(url)
        at_once.wait()
        with opened.begin():
            pass
        opened.dispose()

    with ThreadPoolExecutor(programs) as threads:
        list(threads.map(open_it, range(programs)))


def test_a_new_database_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    for number in range(30):
        open_at_once(f"sqlite:///{tmp_path / f'{number}.sqlite'}", programs=8)


def test_a_file_that_is_no_database_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odc.sqlite").mkdir()
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    opened = Records(f"sqlite:///{tmp_path / 'odc.sqlite'}")
    with pytest.raises(StorageError, match="unable to open database file"), opened.begin():
        pass


class FailingDisk(sqlite3.Connection):
    """Opens a file, but cannot give it a write-ahead log."""

    def execute(self, sql: str, /, *rest: Any) -> sqlite3.Cursor:
        if "journal_mode" not in sql:
            return super().execute(sql, *rest)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error


def test_a_disk_that_fails_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3.dbapi2, "connect", partial(sqlite3.connect, factory=FailingDisk))
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    opened = Records(f"sqlite:///{tmp_path / 'odc.sqlite'}")
    with pytest.raises(StorageError, match="disk I/O error"), opened.begin():
        pass


# transactions


def test_what_was_added_is_found_in_the_next_transaction(records: Records) -> None:
    put(records, collaboration())
    found = get(records)
    assert found is not None
    assert found.now_in is State.DRAFT


def test_a_change_of_a_row_is_kept(records: Records) -> None:
    put(records, collaboration())
    with records.begin(write=True) as unit:
        row = unit.collaboration(f"{1:032x}")
        assert row is not None
        row.state = "enrolling"
    found = get(records)
    assert found is not None
    assert found.state == "enrolling"


def test_a_transaction_that_raises_is_undone(records: Records) -> None:
    def add(unit: Unit) -> None:
        unit.add(collaboration())
        raise RuntimeError

    with pytest.raises(RuntimeError), records.begin(write=True) as unit:
        add(unit)
    assert get(records) is None


def test_a_change_in_a_transaction_that_raises_is_undone(records: Records) -> None:
    put(records, collaboration())

    def change(unit: Unit) -> None:
        row = unit.collaboration(f"{1:032x}")
        assert row is not None
        row.state = "cancelled"
        raise RuntimeError

    with pytest.raises(RuntimeError), records.begin(write=True) as unit:
        change(unit)
    found = get(records)
    assert found is not None
    assert found.state == "draft"


def test_a_row_outlives_its_transaction(records: Records) -> None:
    put(records, collaboration())
    with records.begin() as unit:
        row = unit.collaboration(f"{1:032x}")
    assert row is not None
    assert row.title == "Readmission"


def test_a_member_of_no_collaboration_is_refused(records: Records) -> None:
    with pytest.raises(IntegrityError):
        put(records, Member(collaboration_id="0" * 32, party="hospital-a"))


def test_an_id_is_given_once(records: Records) -> None:
    put(records, collaboration())
    with pytest.raises(TAKEN):
        put(records, collaboration())


# two at a time


def test_a_second_writer_waits_and_sees_what_the_first_wrote(shared: Records) -> None:
    put(shared, collaboration())
    first_is_in, seen = threading.Event(), []

    def second() -> None:
        assert first_is_in.wait(LIMIT_S)
        with shared.begin(write=True) as unit:
            row = unit.collaboration(f"{1:032x}")
            seen.append(row.state if row else None)

    thread = threading.Thread(target=second)
    thread.start()
    with shared.begin(write=True) as unit:
        row = unit.collaboration(f"{1:032x}")
        assert row is not None
        first_is_in.set()
        thread.join(0.05)  # it stands before its transaction
        assert seen == []
        row.state = "enrolling"
    thread.join(LIMIT_S)
    assert seen == ["enrolling"]


def test_many_writers_at_once_lose_no_change(shared: Records) -> None:
    put(shared, collaboration(updated_at=0))

    def count() -> None:
        for _ in range(5):
            with shared.begin(write=True) as unit:
                row = unit.collaboration(f"{1:032x}")
                assert row is not None
                row.updated_at += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    found = get(shared)
    assert found is not None
    assert found.updated_at == 20


def test_a_reader_does_not_wait_for_a_writer(shared: Records) -> None:
    put(shared, collaboration())
    with shared.begin(write=True) as unit:
        row = unit.collaboration(f"{1:032x}")
        assert row is not None
        row.state = "enrolling"
        found = get(shared)
    assert found is not None
    assert found.state == "draft"


def test_a_writer_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0)
    records = Records(f"sqlite:///{tmp_path / 'odc.sqlite'}")
    records.migrate()
    try:
        with records.begin(write=True), pytest.raises(StorageBusyError, match="locked"):
            put(records, collaboration())
    finally:
        records.dispose()


def test_a_commit_is_on_the_disk_before_it_returns(on_disk: Records) -> None:
    with connection_of(on_disk) as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert found == ["wal", 2, 1]


def test_the_records_say_where_they_are(on_disk: Records, tmp_path: Path) -> None:
    assert repr(on_disk) == f"<Records in sqlite:///{tmp_path / 'odc.sqlite'}>"
