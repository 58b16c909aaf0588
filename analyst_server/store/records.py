"""Records in a SQL database: SQLite by default, PostgreSQL by its address.

`Records.begin` opens a transaction as a `Unit`, whose methods are the questions of the services, so that
no service writes SQL. Nothing here decides anything.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from sqlalchemy import (
    Connection,
    Text,
    cast,
    create_engine,
    delete,
    exists,
    func,
    select,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from analyst_server.store import postgresql, sqlite
from analyst_server.store.acts import Acts
from analyst_server.store.enrolments import Enrolments
from analyst_server.store.faults import busy, storage_errors
from analyst_server.store.following import Following
from analyst_server.store.ledgers import Ledgers
from analyst_server.store.listings import Listings
from analyst_server.store.notices import Notices
from analyst_server.store.overview import Overview
from analyst_server.store.questions import is_of
from analyst_server.store.revisions import MIGRATIONS, NEWEST, earlier_tables, revision_of
from analyst_server.store.seen_ledgers import SeenLedgers
from analyst_server.store.store_ids import StoreIds
from analyst_server.store.tables import (
    Base,
    Collaboration,
    Downlink,
    Member,
    ScoreRow,
    Token,
    TrafficRow,
    Uplink,
)
from protocol.errors import InputError, StorageError, UnreadableFileError
from protocol.states import State

log = logging.getLogger(__name__)

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Unit(Listings, Ledgers, Following, Enrolments, Overview, SeenLedgers, Acts, Notices, StoreIds):
    """One transaction: all of its changes are kept, or none."""

    def add(self, row: Base) -> None:
        self._session.add(row)
        self._session.flush()

    def collaboration(self, collaboration_id: str) -> Collaboration | None:
        """Return the row of a collaboration; a writing transaction locks it until its end."""
        return self._get(Collaboration, collaboration_id)

    def in_states(self, states: Sequence[str]) -> Sequence[Collaboration]:
        """Return the collaborations in some states, the one that has not changed for longest first.

        A writer, who claims one of them, locks them; those that another has locked are none of them.
        """
        query = (
            select(Collaboration).where(Collaboration.state.in_(states)).order_by(Collaboration.updated_at)
        )
        return self._session.scalars(self._to_claim(query)).all()

    def member(self, collaboration_id: str, party: str) -> Member | None:
        return self._get(Member, (collaboration_id, party))

    def members(self, collaboration_id: str) -> Sequence[Member]:
        query = select(Member).where(Member.collaboration_id == collaboration_id).order_by(Member.party)
        return self._session.scalars(query).all()

    def acceptances(self, collaboration_id: str, after: str, most: int) -> Sequence[bytes]:
        """Return acceptances in the order of the parties' names, from the first name after ``after`` on."""
        query = (
            select(Member.acceptance)
            .where(Member.collaboration_id == collaboration_id, Member.party > after)
            .where(Member.acceptance.is_not(None))
            .order_by(Member.party)
            .limit(most)
        )
        return [acceptance for acceptance in self._session.scalars(query) if acceptance is not None]

    def uplink(self, upload_id: str) -> Uplink | None:
        return self._get(Uplink, upload_id)

    def uplinks_of(self, collaboration_id: str, party: str) -> Sequence[Uplink]:
        query = (
            select(Uplink)
            .where(Uplink.collaboration_id == collaboration_id, Uplink.party == party)
            .order_by(Uplink.created_at, Uplink.id)
        )
        return self._session.scalars(query).all()

    def received_uplinks(
        self, collaboration_id: str, after: str = "", most: int | None = None
    ) -> Sequence[Uplink]:
        """Return the complete uplinks, by party; so many at most, of the parties behind ``after``."""
        query = (
            select(Uplink)
            .where(Uplink.collaboration_id == collaboration_id, Uplink.receipt.is_not(None))
            .where(Uplink.party > after)
            .order_by(Uplink.party)
            .limit(most)
        )
        return self._session.scalars(query).all()

    def uplinks_taking_part(self, collaboration_id: str) -> list[Uplink]:
        """Return the complete uplinks of those that were not excluded, by party."""
        excluded = self.excluded(collaboration_id)
        return [row for row in self.received_uplinks(collaboration_id) if row.party not in excluded]

    def count_received(self, collaboration_id: str) -> int:
        """Return how many uplinks are complete, without reading them."""
        query = select(func.count()).where(
            Uplink.collaboration_id == collaboration_id, Uplink.received_at.is_not(None)
        )
        return self._session.scalar(query) or 0

    def waiting_latecomers(self) -> Sequence[Uplink]:
        """Return the complete uplinks of released rounds that have no downlink yet; oldest first.

        A writer locks the rounds as with `in_states`.
        """
        # asked several times a second: without late consumers no uplink is looked at
        taking = select(Collaboration.id).where(
            Collaboration.state == State.RELEASED, cast(Collaboration.kept, Text) != "null"
        )
        # locked before their uplinks are read: so what another worker has just done is seen
        rounds = self._session.scalars(self._to_claim(taking)).all()
        if not rounds:
            return []
        query = (
            select(Uplink)
            .where(
                Uplink.collaboration_id.in_(rounds),
                Uplink.receipt.is_not(None),
                Uplink.refused.is_(None),
                ~exists().where(
                    Downlink.collaboration_id == Uplink.collaboration_id, Downlink.party == Uplink.party
                ),
            )
            .order_by(Uplink.received_at, Uplink.id)
        )
        return self._session.scalars(query).all()

    def unjudged(self) -> Sequence[Collaboration]:
        """Return the computed rounds whose model is to be judged, oldest first; locked as by `in_states`."""
        query = (
            select(Collaboration)
            .where(Collaboration.unjudged.is_not(None))
            .order_by(Collaboration.updated_at, Collaboration.id)
        )
        return self._session.scalars(self._to_claim(query)).all()

    def lease_owners(self) -> Sequence[str]:
        """Return the workers in whose names leases are written down."""
        query = select(Collaboration.lease_owner).where(Collaboration.lease_owner.is_not(None))
        return [owner for owner in self._session.scalars(query) if owner is not None]

    def downlink(self, collaboration_id: str, party: str) -> Downlink | None:
        return self._get(Downlink, (collaboration_id, party))

    def downlinks(self, collaboration_id: str, most: int | None = None) -> Sequence[Downlink]:
        query = select(Downlink).where(Downlink.collaboration_id == collaboration_id).order_by(Downlink.party)
        return self._session.scalars(query.limit(most)).all()

    def put_downlink(self, row: Downlink) -> None:
        """Store a downlink, and replace one from an earlier run of the round."""
        self._session.merge(row)

    def forget_downlinks(self, collaboration_id: str, party: str | None = None) -> None:
        """Delete the downlinks of a round, or that of one party."""
        self._session.execute(
            delete(Downlink).where(
                Downlink.collaboration_id == collaboration_id, is_of(Downlink.party, party)
            )
        )

    def put_score(self, row: ScoreRow) -> None:
        """Store the score of an institution, and replace the one that it sent before."""
        self._session.merge(row)

    def scores(self, collaboration_id: str) -> Sequence[ScoreRow]:
        query = select(ScoreRow).where(ScoreRow.collaboration_id == collaboration_id).order_by(ScoreRow.party)
        return self._session.scalars(query).all()

    def token(self, token_id: str) -> Token | None:
        return self._get(Token, token_id)

    def tokens(self, party: str) -> Sequence[Token]:
        """Return the tokens of a party, or with "" of the operator; oldest first."""
        query = select(Token).where(Token.party == party).order_by(Token.created_at, Token.id)
        return self._session.scalars(query).all()

    def forget_tokens(self, party: str, *, before: int) -> None:
        """Delete the tokens of a party that have expired."""
        self._session.execute(delete(Token).where(Token.party == party, Token.expires_at <= before))

    def traffic_of(self, party: str, collaboration_id: str, kind: str) -> TrafficRow | None:
        return self._get(TrafficRow, (party, collaboration_id, kind))

    def traffic(self, collaboration_id: str) -> Sequence[TrafficRow]:
        """Return what was counted for a collaboration, or with "" for requests that name none."""
        query = (
            select(TrafficRow)
            .where(TrafficRow.collaboration_id == collaboration_id)
            .order_by(TrafficRow.party, TrafficRow.kind)
        )
        return self._session.scalars(query).all()


class Records:
    """The analyst's database."""

    def __init__(self, url: str) -> None:
        address = _parsed(url)
        self._is_sqlite = address.get_backend_name() == "sqlite"
        if self._is_sqlite:
            self._engine = create_engine(address, hide_parameters=True)  # messages, which no log should have
            sqlite.prepare(self._engine)
            reading = self._engine
        else:
            self._engine = postgresql.engine_of(address)
            reading = postgresql.reading(self._engine)
        self._reading = reading.execution_options(odc_write=False)
        self._writers = threading.Lock()
        """SQLite has one writer at a time; those of this process wait here, because one that waits for SQLite
        asks again and again, and the last to come may be the first to be let in."""
        self.on_open: Callable[[bool, float], None] = lambda _write, _seconds: None
        """Told of each transaction once it is open: whether it writes, and how long it has waited."""

    def __repr__(self) -> str:
        return f"<Records in {self._engine.url.render_as_string(hide_password=True)}>"

    def check(self) -> None:
        """Raise `UnreadableFileError` if SQLite finds its file damaged; PostgreSQL checks its own."""
        if not self._is_sqlite:
            return
        with (
            self._saying_if_damaged(),
            storage_errors(),
            self._reading.connect() as connection,
        ):
            found = str(connection.scalar(text("PRAGMA quick_check(1)")))
        if found != "ok":
            raise self._damaged(found)

    def ping(self) -> None:
        """Raise `StorageError` if the database does not answer, `UnreadableFileError` if it is damaged."""
        with self._saying_if_damaged(), self.begin() as unit:
            unit.revocations()

    def migrate(self, revision: str = "head", *, upgrades: bool = True) -> None:
        """Bring the tables to this version. If they are, this locks nothing.

        Without ``upgrades``, only make those of a database that has none: a server of an earlier version may
        use those that are there.

        Raises `UnreadableFileError` for a file of SQLite that is no database, or none any more,
        `StorageError` if the database cannot work now, and `InputError` for tables of a later version, and
        for those of an earlier one that are not to be upgraded.
        """
        try:
            with self._saying_if_damaged(), storage_errors():
                self._migrate(revision, upgrades=upgrades)
        except StorageError as error:
            if self._is_sqlite:
                raise
            # for the operator, who has just started something, and not for those who ask the server
            said = str(error.__cause__).partition("\n")[0] if error.__cause__ else ""
            told = type(error)(f"{error.detail}: {said}" if said else error.detail, **error.context)
            told.hint = error.hint
            raise told from error.__cause__

    def _migrate(self, revision: str, *, upgrades: bool) -> None:
        with self._reading.connect() as connection:
            found = revision_of(connection)
        if found == NEWEST:
            return
        if found is not None and not upgrades:
            raise earlier_tables(found)
        from alembic import command  # rarely needed, and as slow to load as SQLAlchemy
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        logging.getLogger("alembic").setLevel(logging.WARNING)  # it has a line for each revision and plugin
        wanted = NEWEST if revision == "head" else revision
        if found is None:
            log.info("making tables of revision %s", wanted)
        else:
            log.info("upgrading the tables from revision %s to %s", found, wanted)

        def change(connection: Connection) -> None:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)

        if not self._is_sqlite:
            postgresql.migrate(self._engine, change)
            return
        with self._engine.begin() as connection:
            change(connection)

    @contextmanager
    def begin(self, *, write: bool = False) -> Iterator[Unit]:
        """Open a transaction; it is undone if the block raises.

        Raises `StorageError` if the database cannot work now.
        """
        asked_at = time.perf_counter()
        with (
            self._turn() if write and self._is_sqlite else nullcontext(),
            storage_errors(),
            (self._engine if write else self._reading).connect() as connection,
            connection.begin(),
            Session(bind=connection, expire_on_commit=False) as session,
        ):
            self.on_open(write, time.perf_counter() - asked_at)
            yield Unit(session, lock_rows=write and not self._is_sqlite)
            session.flush()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._writers.acquire(timeout=sqlite.BUSY_TIMEOUT_S):
            raise busy()
        try:
            yield
        finally:
            self._writers.release()

    @contextmanager
    def _saying_if_damaged(self) -> Iterator[None]:
        try:
            yield
        except (DatabaseError, sqlite3.DatabaseError) as error:
            cause = getattr(error, "orig", error)
            if getattr(cause, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:  # the higher bits say why
                raise
            raise self._damaged(str(cause)) from error

    def _damaged(self, found: str) -> UnreadableFileError:
        error = UnreadableFileError(self._engine.url.database, f"SQLite finds it damaged: {found}")
        error.hint = "restore the data directory from a backup; nothing was changed"
        return error

    def copy_to(self, path: Path) -> None:
        """Write a copy of an SQLite database as it is at one moment, while others read and write."""
        with self._saying_if_damaged(), storage_errors(), self._engine.connect() as connection:
            sqlite.copy_database(connection, path)

    @property
    def connections_in_use(self) -> int:
        """How many transactions of this process are open; 0 for a database in memory."""
        pool = self._engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    def dispose(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _parsed(url: str) -> URL:
    """Return an address; raises `InputError`, without it, because a password may be in it."""
    try:
        found = make_url(url)
        known = found.get_backend_name() in ("sqlite", "postgresql")
    except (ArgumentError, ValueError):
        known = False
    if not known:
        error = InputError("the address of the database cannot be read, or is of another kind")
        error.hint = "sqlite:///PATH, or postgresql+psycopg://USER@HOST/NAME with the password in PGPASSFILE"
        raise error
    return found


def place_of(url: str) -> str:
    """Return where records are, without a user or a password; raises `InputError` as opening them does."""
    found = _parsed(url)
    return f"{found.get_backend_name()}://{found.host or ''}/{found.database or ''}"
