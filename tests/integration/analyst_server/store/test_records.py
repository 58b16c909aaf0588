from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect
from sqlalchemy.exc import IntegrityError, OperationalError

from analyst_server.store import (
    Collaboration,
    Downlink,
    Enrolled,
    LedgerRow,
    Member,
    Records,
    Unit,
    Uplink,
)
from analyst_server.store import records as records_module
from analyst_server.store.tables import Base
from protocol.codec import encode
from protocol.envelope import Signed
from protocol.ledger import LedgerEntry, check_chain
from protocol.states import State

LIMIT_S = 30
"""Longer than any of this takes; it only ends a test that would hang."""


@pytest.fixture(params=["file", "memory"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    """A database of one thread, in a file and in memory."""
    yield from opened(f"sqlite:///{tmp_path / 'odc.sqlite'}" if request.param == "file" else "sqlite://")


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Records]:
    """A database that several connections open at once: one in memory belongs to its thread."""
    yield from opened(f"sqlite:///{tmp_path / 'odc.sqlite'}")


def opened(url: str) -> Iterator[Records]:
    made = Records(url)
    made.migrate()
    yield made
    made.dispose()


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
    with pytest.raises(OperationalError), opened.begin():
        pass


def test_a_disk_that_fails_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def execute(self, _pragma: str) -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    with pytest.raises(sqlite3.OperationalError, match="disk"):
        records_module._keep_a_write_ahead_log(Failing())  # type: ignore[arg-type]  # as far as it is used


def collaboration(number: int = 1, **changed: Any) -> Collaboration:
    values: dict[str, Any] = {
        "id": f"{number:032x}",
        "title": "Readmission",
        "state": "draft",
        "terms": b"terms",
        "terms_digest": bytes(32),
        "created_at": number,
        "updated_at": number,
    }
    return Collaboration(**{**values, **changed})


def uplink(number: int, *, party: str = "hospital-a", **changed: Any) -> Uplink:
    values: dict[str, Any] = {
        "id": f"{number:032x}",
        "collaboration_id": f"{1:032x}",
        "party": party,
        "manifest": b"manifest",
        "manifest_digest": bytes(32),
        "rows": 3,
        "payload_bytes": 100,
        "created_at": number,
    }
    return Uplink(**{**values, **changed})


def put(records: Records, *rows: Any) -> None:
    with records.begin(write=True) as unit:
        for row in rows:
            unit.add(row)


def get(records: Records, number: int = 1) -> Collaboration | None:
    with records.begin() as unit:
        return unit.collaboration(f"{number:032x}")


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
    with pytest.raises(IntegrityError):
        put(records, collaboration())


# two at a time


def test_a_second_writer_waits_and_sees_what_the_first_wrote(on_disk: Records) -> None:
    put(on_disk, collaboration())
    first_is_in, seen = threading.Event(), []

    def second() -> None:
        assert first_is_in.wait(LIMIT_S)
        with on_disk.begin(write=True) as unit:
            row = unit.collaboration(f"{1:032x}")
            seen.append(row.state if row else None)

    thread = threading.Thread(target=second)
    thread.start()
    with on_disk.begin(write=True) as unit:
        row = unit.collaboration(f"{1:032x}")
        assert row is not None
        first_is_in.set()
        thread.join(0.05)  # it stands before its transaction
        assert seen == []
        row.state = "enrolling"
    thread.join(LIMIT_S)
    assert seen == ["enrolling"]


def test_many_writers_at_once_lose_no_change(on_disk: Records) -> None:
    put(on_disk, collaboration(updated_at=0))

    def count() -> None:
        for _ in range(5):
            with on_disk.begin(write=True) as unit:
                row = unit.collaboration(f"{1:032x}")
                assert row is not None
                row.updated_at += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    found = get(on_disk)
    assert found is not None
    assert found.updated_at == 20


def test_a_reader_does_not_wait_for_a_writer(on_disk: Records) -> None:
    put(on_disk, collaboration())
    with on_disk.begin(write=True) as unit:
        row = unit.collaboration(f"{1:032x}")
        assert row is not None
        row.state = "enrolling"
        found = get(on_disk)
    assert found is not None
    assert found.state == "draft"


def test_a_writer_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "BUSY_TIMEOUT_S", 0)
    records = Records(f"sqlite:///{tmp_path / 'odc.sqlite'}")
    records.migrate()
    try:
        with records.begin(write=True), pytest.raises(OperationalError, match="locked"):
            put(records, collaboration())
    finally:
        records.dispose()


# migrations


def test_the_migrations_make_the_tables_of_the_code(records: Records) -> None:
    with records._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_tables_of_this_version_are_known_without_a_migration(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("migrated again")

    monkeypatch.setattr(command, "upgrade", fail)
    put(records, collaboration())
    records.migrate()
    assert get(records) is not None


def test_a_migration_is_named_by_its_revision() -> None:
    folder = Path(records_module.__file__).parent / "migrations" / "versions"
    for path in folder.glob("*.py"):
        assert f'revision = "{path.name[:4]}"' in path.read_text()


def test_a_migrated_database_is_found_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'odc.sqlite'}"
    for _ in range(2):
        records = Records(url)
        records.migrate()
        records.dispose()
    engine = create_engine(url)
    assert set(Base.metadata.tables) <= set(inspect(engine).get_table_names())
    engine.dispose()


def test_a_history_of_before_becomes_a_ledger_that_holds(tmp_path: Path) -> None:
    records = Records(f"sqlite:///{tmp_path / 'odc.sqlite'}")
    records.migrate("0003")
    signed_acceptance = encode(Signed(kind="k", payload=b"acceptance", certificate=b"c", signature=b"s"))
    steps = [
        ("publish terms", None, 1, "enrolling"),
        ("accept terms", "lead", 2, "enrolling"),
        ("accept terms", "lead", 3, "enrolling"),
        ("publish anchor", "lead", 4, "anchored"),
        ("begin uplink", "hospital-a", 5, "collecting"),
        ("accept uplink", "hospital-a", 6, "collecting"),
    ]
    put(records, collaboration(), uplink(5, receipt=b"r", received_at=6, manifest_digest=b"m" * 32))
    put(
        records,
        Member(
            collaboration_id=f"{1:032x}",
            party="lead",
            acceptance=signed_acceptance,
            accepted_at=3,
            anchor_commitment=b"a" * 32,
        ),
    )
    with records._engine.begin() as connection:
        for event, party, at, state in steps:
            connection.exec_driver_sql(
                "INSERT INTO history (collaboration_id, event, party, at, state) VALUES (?, ?, ?, ?, ?)",
                (f"{1:032x}", event, party, at, state),
            )
    records.migrate()
    with records.begin() as unit:
        rows = unit.ledger(f"{1:032x}")
    records.dispose()
    entries = [LedgerEntry(**{name: getattr(row, name) for name in LedgerEntry.model_fields}) for row in rows]
    assert [(one.event, one.party, one.at, one.state) for one in entries] == steps
    assert [row.digest for row in rows] == check_chain(f"{1:032x}", entries)[1:]
    signed = hashlib.sha256(b"acceptance").digest()
    assert [row.subject for row in rows] == [bytes(32), None, signed, b"a" * 32, b"m" * 32, b"m" * 32]


def test_a_commit_is_on_the_disk_before_it_returns(on_disk: Records) -> None:
    with on_disk._engine.connect() as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert found == ["wal", 2, 1]


# what services ask


def test_collaborations_are_listed_oldest_first(records: Records) -> None:
    put(records, collaboration(2), collaboration(1))
    with records.begin() as unit:
        assert [row.created_at for row in unit.collaborations()] == [1, 2]


def test_collaborations_of_a_party_are_those_it_is_a_member_of(records: Records) -> None:
    put(records, collaboration(1), collaboration(2), Member(collaboration_id=f"{2:032x}", party="b"))
    with records.begin() as unit:
        assert [row.created_at for row in unit.collaborations("b")] == [2]


def test_collaborations_in_a_state_come_by_their_last_change(records: Records) -> None:
    put(
        records,
        collaboration(1, state="sealed", updated_at=9),
        collaboration(2, state="sealed", updated_at=5),
        collaboration(3, state="draft"),
    )
    with records.begin() as unit:
        assert [row.created_at for row in unit.in_states(["sealed"])] == [2, 1]


def test_members_come_by_name(records: Records) -> None:
    members = [Member(collaboration_id=f"{1:032x}", party=party) for party in ("c", "a", "b")]
    put(records, collaboration(), *members)
    with records.begin() as unit:
        assert [row.party for row in unit.members(f"{1:032x}")] == ["a", "b", "c"]


def test_received_uplinks_are_those_with_a_receipt_by_party(records: Records) -> None:
    put(
        records,
        collaboration(),
        uplink(1, party="b", receipt=b"r"),
        uplink(2, party="a"),
        uplink(3, party="a", receipt=b"r"),
    )
    with records.begin() as unit:
        assert [int(row.id, 16) for row in unit.received_uplinks(f"{1:032x}")] == [3, 1]


def test_uplinks_of_a_party_come_oldest_first(records: Records) -> None:
    put(records, collaboration(), uplink(2), uplink(1), uplink(3, party="b"))
    with records.begin() as unit:
        assert [row.created_at for row in unit.uplinks_of(f"{1:032x}", "hospital-a")] == [1, 2]


def test_a_downlink_takes_the_place_of_an_earlier_one(records: Records) -> None:
    put(records, collaboration())
    for manifest in (b"one", b"two"):
        with records.begin(write=True) as unit:
            unit.put_downlink(
                Downlink(collaboration_id=f"{1:032x}", party="a", manifest=manifest, fetched_at=None)
            )
    with records.begin() as unit:
        row = unit.downlink(f"{1:032x}", "a")
    assert row is not None
    assert row.manifest == b"two"


def test_pending_enrolments_are_those_without_certificate(records: Records) -> None:
    for number, certificate in ((1, None), (2, b"pem")):
        put(
            records,
            Enrolled(
                invitation_id=f"{number:032x}",
                role="institution",
                party="a",
                request=b"r",
                certificate=certificate,
                created_at=number,
            ),
        )
    with records.begin() as unit:
        assert [row.created_at for row in unit.enrolments(pending=True)] == [1]
        assert [row.created_at for row in unit.enrolments(pending=False)] == [1, 2]


def entry(index: int, **changed: Any) -> LedgerRow:
    values: dict[str, Any] = {
        "collaboration_id": f"{1:032x}",
        "index": index,
        "at": 5,
        "event": "accept terms",
        "party": None,
        "state": "enrolling",
        "previous": bytes(32),
        "digest": bytes(32),
    }
    return LedgerRow(**{**values, **changed})


def test_the_ledger_comes_in_order_from_where_it_is_asked(records: Records) -> None:
    put(records, collaboration(), entry(0), entry(2, party="a"), entry(1, party="a"))
    with records.begin() as unit:
        assert [row.index for row in unit.ledger(f"{1:032x}")] == [0, 1, 2]
        assert [row.index for row in unit.ledger(f"{1:032x}", start=1, limit=1)] == [1]
        last = unit.last_of_ledger(f"{1:032x}")
        assert last is not None
        assert last.index == 2
        assert unit.count_of_ledger(f"{1:032x}", "a") == 2
        assert unit.last_of_ledger("x") is None


def test_a_place_in_the_ledger_is_given_once(records: Records) -> None:
    put(records, collaboration(), entry(0))
    with pytest.raises(IntegrityError):
        put(records, entry(0, event="cancel"))


def test_what_is_not_there_is_none(records: Records) -> None:
    with records.begin() as unit:
        assert unit.collaboration("x") is None
        assert unit.member("x", "y") is None
        assert unit.uplink("x") is None
        assert unit.enrolment("x") is None


def test_the_records_say_where_they_are(on_disk: Records, tmp_path: Path) -> None:
    assert repr(on_disk) == f"<Records in sqlite:///{tmp_path / 'odc.sqlite'}>"
