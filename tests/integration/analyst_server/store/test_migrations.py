"""The tables of the database come from its migrations, whatever version it had."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect

from analyst_server.store import Enrolled, LedgerRow, Member, Records
from analyst_server.store import records as records_module
from analyst_server.store.revisions import revision_of
from analyst_server.store.tables import Base
from protocol.codec import encode
from protocol.envelope import Signed
from protocol.errors import InputError
from protocol.ledger import LedgerEntry, check_chain
from protocol.states import Event
from tests.harness.rows import collaboration, connection_of, get, put, uplink


def test_the_migrations_make_the_tables_of_the_code(records: Records) -> None:
    with connection_of(records) as connection:
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


def test_tables_of_a_later_version_are_refused_with_the_way_back(tmp_path: Path) -> None:
    records = Records(f"sqlite:///{tmp_path / 'odc.sqlite'}")
    records.migrate()
    with closing(sqlite3.connect(tmp_path / "odc.sqlite")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    with pytest.raises(InputError, match="a later version") as caught:
        records.migrate()
    assert "restore the backup" in caught.value.hint
    records.dispose()


def test_a_command_leaves_tables_of_an_earlier_version_to_the_server(records_in: Records) -> None:
    records_in.migrate("0016")
    with pytest.raises(InputError, match=r"an earlier version of the analyst \(tables 0016, this") as caught:
        records_in.migrate(upgrades=False)
    assert "odc-analyst serve" in caught.value.hint
    with connection_of(records_in) as connection:
        assert revision_of(connection) == "0016"
    records_in.migrate()
    records_in.migrate(upgrades=False)


def test_a_command_makes_the_tables_where_there_are_none(records_in: Records) -> None:
    records_in.migrate(upgrades=False)
    assert get(records_in) is None


@pytest.fixture
def records_in(tmp_path: Path) -> Iterator[Records]:
    """Records without tables."""
    made = Records(f"sqlite:///{tmp_path / 'odc.sqlite'}")
    yield made
    made.dispose()


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


def insert(connection: sqlite3.Connection, row: Base, *, came_later: Collection[str] = ()) -> None:
    """Write a row into a table of an earlier version, which lacks some columns."""
    columns = [column.name for column in row.__table__.columns if column.name not in came_later]
    quoted, marks = ", ".join(f'"{name}"' for name in columns), ", ".join("?" * len(columns))
    connection.execute(
        f"INSERT INTO {row.__tablename__} ({quoted}) VALUES ({marks})",  # noqa: S608  # names of our own
        [getattr(row, name) for name in columns],
    )


def test_a_history_of_before_becomes_a_ledger_that_holds(tmp_path: Path) -> None:
    path = tmp_path / "odc.sqlite"
    records = Records(f"sqlite:///{path}")
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
    member = Member(
        collaboration_id=f"{1:032x}",
        party="lead",
        acceptance=signed_acceptance,
        accepted_at=3,
        anchor_commitment=b"a" * 32,
    )
    sent = uplink(5, receipt=b"r", received_at=6, manifest_digest=b"m" * 32)
    with closing(sqlite3.connect(path)) as connection, connection:
        insert(
            connection,
            collaboration(),
            came_later=("kept", "unjudged", "computing", "lease_number", "cut_off"),
        )
        insert(connection, member, came_later=("rejected",))
        insert(connection, sent, came_later=("refused", "takeovers", "stored_as"))
        connection.executemany(
            "INSERT INTO history (collaboration_id, event, party, at, state) VALUES (?, ?, ?, ?, ?)",
            [(f"{1:032x}", *step) for step in steps],
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


def test_a_ledger_of_before_is_found_by_party(tmp_path: Path) -> None:
    path = tmp_path / "odc.sqlite"
    records = Records(f"sqlite:///{path}")
    records.migrate("0007")
    row = LedgerRow(
        collaboration_id=f"{1:032x}",
        index=0,
        at=5,
        event="accept terms",
        party="lead",
        state="enrolling",
        previous=bytes(32),
        digest=bytes(32),
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        insert(connection, collaboration(), came_later=("computing", "lease_number", "cut_off"))
        insert(connection, row)
    records.migrate()
    with records.begin() as unit:
        assert unit.has_step(f"{1:032x}", "lead", Event.ACCEPT_TERMS)
    with connection_of(records) as migrated:
        assert sorted(str(index["name"]) for index in inspect(migrated).get_indexes("ledger")) == [
            "ix_ledger_excluded",
            "ix_ledger_party",
        ]
    records.dispose()


def test_of_many_open_requests_of_before_a_party_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "odc.sqlite"
    records = Records(f"sqlite:///{path}")
    records.migrate("0008")

    def request(number: int, party: str, certificate: bytes | None = None) -> Enrolled:
        return Enrolled(
            invitation_id=f"{number:032x}",
            kind="renewal",
            role="institution",
            party=party,
            request=b"r",
            certificate=certificate,
            created_at=number,
        )

    rows = [request(1, "a", b"pem"), request(2, "a"), request(3, "b"), request(4, "a"), request(5, "a")]
    with closing(sqlite3.connect(path)) as connection, connection:
        for row in rows:
            insert(connection, row, came_later=("rejected",))
    records.migrate()
    with records.begin() as unit:
        assert [one.created_at for one in unit.open_enrolments((-1, ""), 10)] == [3, 5]
        assert unit.enrolment(f"{1:032x}") is not None
    records.dispose()
