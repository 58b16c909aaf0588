"""What a server of PostgreSQL does to a transaction, as errors that a client comes back after."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from analyst_server.store import Records
from protocol.errors import InputError, StorageBusyError, StorageError
from tests.harness.postgresql import PASSWORD, PostgreSql
from tests.harness.rows import collaboration, connection_of, get, put

LIMIT_S = 60
"""Longer than any of this takes; it only ends a test that would hang."""


@pytest.fixture
def url(postgres: PostgreSql) -> Iterator[str]:
    with postgres.records() as found:
        yield found


@contextmanager
def opened(url: str) -> Iterator[Records]:
    made = Records(url)
    try:
        yield made
    finally:
        made.dispose()


@pytest.fixture
def records(url: str) -> Iterator[Records]:
    with opened(url) as made:
        yield made


@contextmanager
def stopped(postgres: PostgreSql) -> Iterator[None]:
    postgres.stop()
    try:
        yield
    finally:
        postgres.start()


def change(records: Records, *numbers: int, between: threading.Barrier | None = None) -> None:
    """Lock rows in an order, and change them."""
    with records.begin(write=True) as unit:
        for number in numbers:
            row = unit.collaboration(f"{number:032x}")
            assert row is not None
            row.title = "changed"
            if between is not None and number == numbers[0]:
                between.wait(LIMIT_S)


def test_a_server_that_is_away_is_waited_for_by_the_client(postgres: PostgreSql, records: Records) -> None:
    put(records, collaboration())
    with stopped(postgres), pytest.raises(StorageBusyError, match="does not answer") as caught:
        get(records)
    assert caught.value.context["retry_after_s"] > 0
    assert get(records) is not None  # the connections of before are not used again


def test_a_restart_in_the_middle_undoes_the_transaction(postgres: PostgreSql, records: Records) -> None:
    def add_meanwhile() -> None:
        with records.begin(write=True) as unit:
            unit.add(collaboration())
            with stopped(postgres):
                pass
            unit.add(collaboration(2))

    with pytest.raises(StorageBusyError):
        add_meanwhile()
    assert get(records) is None
    put(records, collaboration())
    assert get(records) is not None


def test_of_two_that_wait_for_each_other_one_comes_again(records: Records) -> None:
    put(records, collaboration(1), collaboration(2))
    between = threading.Barrier(2)

    def told_to_come_again(*numbers: int) -> bool:
        try:
            change(records, *numbers, between=between)
        except StorageBusyError:
            return True
        return False

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(told_to_come_again, (1, 2), (2, 1), timeout=LIMIT_S))
    assert sorted(found) == [False, True]
    change(records, 1, 2)  # who came again before the other had ended could lock its first row once more


def test_of_two_that_note_the_first_id_one_is_overtaken(records: Records) -> None:
    """Also where the other has noted its own after this one has looked: nothing is put in its place."""

    def come_late() -> None:
        with records.begin(write=True) as late:
            assert late.store_id() is None
            with records.begin(write=True) as early:
                early.put_first_store_id("a" * 32)
            late.put_first_store_id("b" * 32)

    with pytest.raises(StorageBusyError):
        come_late()
    with records.begin() as unit:
        assert unit.store_id() == "a" * 32


def test_a_writer_does_not_wait_for_ever(url: str, records: Records) -> None:
    put(records, collaboration())
    with opened(f"{url}&options=-c lock_timeout=50ms") as hasty, records.begin(write=True) as unit:
        unit.collaboration(f"{1:032x}")
        with pytest.raises(StorageBusyError, match="is locked"):
            change(hasty, 1)


def test_whoever_finds_no_connection_comes_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("KEPT_CONNECTIONS", 1), ("MORE_CONNECTIONS", 0), ("WAIT_S", 0)):
        monkeypatch.setattr(f"analyst_server.store.postgresql.{name}", value)
    with (
        opened(url) as narrow,
        narrow.begin(),
        pytest.raises(StorageBusyError, match="all connections"),
        narrow.begin(),
    ):
        pass


def test_a_reader_sees_one_moment(records: Records) -> None:
    put(records, collaboration())
    with records.begin() as unit:
        assert len(unit.collaborations()) == 1
        put(records, collaboration(2))
        assert len(unit.collaborations()) == 1


def test_a_reader_writes_nothing(records: Records) -> None:
    with pytest.raises(StorageError, match="cannot be used"), records.begin() as unit:
        unit.add(collaboration())


def test_a_new_database_is_migrated_by_many_at_once(postgres: PostgreSql) -> None:
    with postgres.database() as name:

        def migrate(_: int) -> None:
            with opened(postgres.records_url(name)) as made:
                made.migrate()
                assert get(made) is None

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(migrate, range(4), timeout=LIMIT_S))


@pytest.fixture
def dumped(postgres: PostgreSql, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Connection]]:
    """Yield a database of an earlier version, and a connection that reads its tables as pg_dump does."""
    for name, value in (("MIGRATION_WAIT_S", 0.05), ("MIGRATION_PAUSE_S", 0.05)):
        monkeypatch.setattr(f"analyst_server.store.postgresql.{name}", value)
    with postgres.database() as name:
        url = postgres.records_url(name)
        with opened(url) as earlier, connection_of(earlier) as reader:
            earlier.migrate("0016")
            reader.execute(text("SELECT count(*) FROM collaborations"))
            yield url, reader


def test_an_upgrade_beside_a_dump_gives_up_with_the_reason(
    dumped: tuple[str, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyst_server.store.postgresql.MIGRATION_BUDGET_S", 0.2)
    with opened(dumped[0]) as records, pytest.raises(StorageBusyError, match="another program") as caught:
        records.migrate()
    assert "pg_dump" in caught.value.hint
    assert "another process has changed" not in caught.value.detail


def test_nobody_waits_behind_an_upgrade_that_waits_for_a_dump(dumped: tuple[str, Connection]) -> None:
    url, reader = dumped
    with opened(url) as records, opened(url) as others, ThreadPoolExecutor(1) as threads:
        upgrade = threads.submit(records.migrate)
        for _ in range(20):
            with others.begin() as unit:
                assert unit.by_state() == {}
            assert not upgrade.done()
        reader.rollback()
        upgrade.result(timeout=LIMIT_S)
        assert get(records) is None


# passwords


def test_a_password_is_in_no_text(postgres: PostgreSql, url: str) -> None:
    wrong = make_url(url).difference_update_query(["passfile"]).set(password="hunter2")
    with opened(wrong.render_as_string(hide_password=False)) as records:
        with pytest.raises(StorageBusyError, match="password authentication failed") as caught:
            records.migrate()
        assert "hunter2" not in repr(records)
    found: BaseException | None = caught.value
    while found is not None:
        assert "hunter2" not in f"{found} {found!r}"
        found = found.__cause__ or found.__context__


def test_a_password_may_be_in_the_address(postgres: PostgreSql, url: str) -> None:
    given = make_url(url).difference_update_query(["passfile"]).set(password=PASSWORD)
    with opened(given.render_as_string(hide_password=False)) as records:
        assert get(records) is None


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:hunter2",
        "mysql://odc:hunter2@db/odc",
        "postgresql+psycopg2://odc:hunter2@db/odc",
        "postgresql://odc:hunter2@db:port/odc",
    ],
)
def test_an_address_that_cannot_be_used_is_not_repeated(address: str) -> None:
    with pytest.raises(InputError) as caught:
        Records(address)
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__} {caught.value.hint}"
