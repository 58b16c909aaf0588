"""What takes longer than a page may: one piece of work at a time, in a thread, with its progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from protocol.errors import NotFoundError, OdcError
from runtime.start_up import as_ours
from user_client.errors import BusyError
from user_client.sdk.membership import renew_in_time
from user_client.sdk.round import Round
from user_client.sdk.session import Session
from user_client.tables import Source

Kind = Literal["anchor", "check", "prepare", "contribute", "receive", "predict", "explain"]
_WORDS: Final[dict[Kind, str]] = {
    "anchor": "The anchor is created and sealed for every member",
    "check": "The table is compared with the terms",
    "prepare": "The table is prepared, and attacked as others could attack it",
    "contribute": "The uplink is sent",
    "receive": "The model is fetched and checked",
    "predict": "The table is predicted",
    "explain": "The answers are explained",
}
_ANSWERS_IN_S: Final = 5.0


@dataclass
class Work:
    """One piece of work, while it runs and afterwards."""

    kind: Kind
    collaboration_id: str
    table: str = ""
    """Which table it is about, in words; empty if it is about none."""
    done: int = 0
    total: int = 0
    is_over: bool = False
    error: OdcError | None = None

    @property
    def words(self) -> str:
        """What is done, for people."""
        return _WORDS[self.kind]

    def progress(self, done: int, total: int) -> None:
        """Note how much of what is to be sent has left, in bytes."""
        self.done, self.total = done, total

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "table": self.table,
            "done": self.done,
            "total": self.total,
            "is_over": self.is_over,
            "error": self.error.to_problem() if self.error else None,
        }


@dataclass(frozen=True)
class Named:
    """A table as a person has named it in a form."""

    source: Source
    csv: str
    """What was said of how a CSV file is written; empty if all of it was guessed."""

    @property
    def words(self) -> str:
        """Which table it is, for people."""
        sheet = f"sheet {self.source.sheet}" if self.source.sheet else None
        return ", ".join(filter(None, (str(self.source.place), sheet, self.source.query)))


@dataclass(frozen=True)
class Result:
    """What a piece of work has found, and the table it was found of."""

    table: str
    value: Any


@dataclass
class Found:
    """What was chosen and found of one collaboration since the pages were started; it is in memory alone."""

    rows: Named | None = None
    """The table of our rows that a person has named last,"""
    predicted: Named | None = None
    """and the one to predict."""
    results: dict[Kind, Result] = field(default_factory=dict)

    def of(self, kind: Kind) -> Result | None:
        """Return what the last work of a kind has found; None if there was none, or it has failed."""
        return self.results.get(kind)


class Desk:
    """The institution whose pages these are.

    Every page and every piece of work opens the state directory as a command of its own would; a page waits
    for the one before it, and work runs beside them.

    Parameters
    ----------
    home : Path
        The state directory.
    passphrase : callable
        Returns the passphrase of a protected directory without asking anybody any more.
    """

    def __init__(self, home: Path, passphrase: Callable[[], str]) -> None:
        self._home, self._passphrase = home, passphrase
        self._pages, self._one = threading.RLock(), threading.Lock()
        # an analyst that does not answer is said on the page, and not waited for: all pages wait behind one
        self._session = Session(home, passphrase=passphrase, attempts=1, timeout_s=_ANSWERS_IN_S)
        self._found: dict[str, Found] = {}
        self._works: dict[str, Work] = {}
        self._running: Work | None = None

    def __repr__(self) -> str:
        return f"<Desk in {self._home}>"

    @property
    def is_busy(self) -> bool:
        """Whether work is under way."""
        return self._running is not None

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Yield the session of the pages, to one page at a time."""
        with self._pages:
            try:
                yield self._session
            except OdcError:
                self._session.close()  # the next page asks over a new connection
                raise

    @contextmanager
    def round(self, collaboration_id: str) -> Iterator[tuple[Session, Round]]:
        """Yield our side of a collaboration; raises `NotFoundError` if its id cannot be one."""
        if len(collaboration_id) != 32 or set(collaboration_id) - set("0123456789abcdef"):
            raise NotFoundError("there is no such collaboration")
        with self.session() as session:
            yield session, session.round(collaboration_id)

    def found(self, collaboration_id: str) -> Found:
        """Return what was found of a collaboration so far."""
        return self._found.setdefault(collaboration_id, Found())

    def last(self, collaboration_id: str) -> Work | None:
        """Return the last work of a collaboration, running or over."""
        return self._works.get(collaboration_id)

    def start(
        self, kind: Kind, collaboration_id: str, do: Callable[[Session, Round, Work], Any], table: str = ""
    ) -> None:
        """Begin a piece of work, perhaps about a table; raises `BusyError` while another runs."""
        with self._one:
            if self._running is not None:
                error = BusyError(f"other work is under way: {self._running.words}")
                error.hint = "wait until it is over, then send the form again; nothing was changed"
                raise error
            work = self._running = self._works[collaboration_id] = Work(kind, collaboration_id, table)
        self.found(collaboration_id).results.pop(kind, None)
        threading.Thread(target=self._run, args=(work, do), name=f"odc-ui-{kind}", daemon=True).start()

    def _run(self, work: Work, do: Callable[[Session, Round, Work], Any]) -> None:
        try:
            with Session(self._home, passphrase=self._passphrase) as session:
                result = do(session, session.round(work.collaboration_id), work)
                self.found(work.collaboration_id).results[work.kind] = Result(work.table, result)
                if session.is_connected():
                    renew_in_time(session)
        except Exception as error:  # noqa: BLE001  # the page shows it; `as_ours` logs what is not ours
            work.error = as_ours(error)
        finally:
            with self._one:
                work.is_over, self._running = True, None

    def close(self) -> None:
        """Close the connection of the pages."""
        with self._pages:
            self._session.close()
