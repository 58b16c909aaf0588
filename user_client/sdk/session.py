"""An institution at work: its state directory, its identity and its line to the analyst."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from protocol.codec import M, Message
from protocol.envelope import Verified, decode_stored, sign, verify
from protocol.errors import MalformedMessageError, NotPermittedError, UnsupportedVersionError
from protocol.identity import Identity
from protocol.operations import COLLABORATION_STATUS, LIST_COLLABORATIONS
from user_client.custody.home import Home, Membership
from user_client.errors import ChoiceNeededError, NotPreparedError
from user_client.sdk.discovery import meet
from user_client.transport import ATTEMPTS, AnalystConnection, Traffic


def unix_now() -> int:
    return int(time.time())


class Session:
    """Opens the connection when it is first needed; close it, or use it as a context manager.

    Parameters
    ----------
    home : Path
        The state directory.
    clock : callable
        Unix seconds.
    passphrase : callable, optional
        Asked for the passphrase of a protected directory, once, when a secret is needed.
    attempts : int
        How often a request is sent until the analyst answers, with growing pauses.
    """

    def __init__(
        self,
        home: Path,
        clock: Callable[[], int] = unix_now,
        passphrase: Callable[[], str] | None = None,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.home = Home(home, passphrase)
        self.clock = clock
        self._attempts = attempts
        self._connection: AnalystConnection | None = None

    def __repr__(self) -> str:
        return f"<Session in {self.home.path}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_exc: object) -> None:
        if exc_type is not None and issubclass(exc_type, UnsupportedVersionError):
            self.home.analyst_path.unlink(missing_ok=True)  # what it said is not so any more
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.__exit__()
            self._connection = None

    def is_joined(self) -> bool:
        return self.home.is_joined()

    def is_connected(self) -> bool:
        """Whether there was anything to ask the analyst."""
        return self._connection is not None

    @property
    def membership(self) -> Membership:
        """Who we are; raises `NotJoinedError`."""
        return self.home.membership()

    @property
    def connection(self) -> AnalystConnection:
        """The line to the analyst, with our certificate."""
        if self._connection is None:
            membership = self.membership
            with ExitStack() as unless_met:
                connection = AnalystConnection(
                    membership.analyst_url,
                    self.home.root_path.read_text(),
                    (self.home.certificate_path, self.home.key_path),
                    Traffic(self.home.traffic_path),
                    revocations=self.home.revocations_path if self.home.revocations_path.exists() else None,
                    key_password=self.home.key_password(),
                    attempts=self._attempts,
                )
                unless_met.enter_context(connection)
                meet(connection, membership.analyst_url, self.home.analyst_path, self.clock())
                unless_met.pop_all()
            self._connection = connection
        return self._connection

    def certificate_ends_in_s(self) -> int:
        """Return the seconds until our certificate ends; negative afterwards."""
        return int(self.home.certificate().not_valid_after_utc.timestamp()) - self.clock()

    def sign(self, message: Message) -> bytes:
        return sign(message, self.home.key(), self.home.certificate())

    def verify(self, kind: type[M], data: bytes) -> Verified[M]:
        """Verify a signed message of our consortium, now."""
        return verify(kind, data, self.home.root(), at=self.clock())

    def verify_from_analyst(self, kind: type[M], data: bytes) -> Verified[M]:
        """Verify a signed message that only the analyst may have made."""
        verified = self.verify(kind, data)
        require_role(verified.author, "analyst", kind.__name__)
        return verified

    def choose(self, collaboration_id: str | None) -> str:
        """Return the collaboration a command means: the one named, or the only one there is.

        Collaborations this directory already works on come first, so that most commands need no
        question to the analyst.
        """
        if collaboration_id is not None:
            return collaboration_id
        directory = self.home.path / "collaborations"
        known = sorted(path.parent.name for path in directory.glob("*/terms.odc"))
        rows = [] if len(known) == 1 else self.collaborations()
        if not known:
            known = [row["collaboration_id"] for row in rows]
        if len(known) > 1:  # those that were given up need no choice
            known = [row["collaboration_id"] for row in rows if row["state"] not in ("cancelled", "closed")]
        if not known:
            error = NotPreparedError("no collaboration names this institution yet")
            error.hint = "wait until the analyst has published the terms: `odc status`"
            raise error
        if len(known) > 1:
            raise ChoiceNeededError(f"collaborations: {', '.join(known)}")
        return known[0]

    def collaborations(self) -> list[dict[str, Any]]:
        """Return the status of every collaboration we are a member of."""
        rows = self.connection.ask_json(LIST_COLLABORATIONS).get("collaborations")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise MalformedMessageError("answer", "lists no collaborations; is this an ODC analyst?")
        return rows

    def status(self, collaboration_id: str) -> dict[str, Any]:
        return self.connection.ask_json(COLLABORATION_STATUS, collaboration_id=collaboration_id)

    def stored(self, collaboration_id: str, kind: type[M], name: str, step: str) -> tuple[M, bytes]:
        """Return a signed message of an earlier step; raises `NotPreparedError` naming the step.

        It was verified when it was stored, so its certificate may have ended since.
        """
        path = self.home.collaboration(collaboration_id) / name
        if not path.exists():
            error = NotPreparedError(f"this step needs an earlier one: {step}")
            error.hint = f"run `{step}` first"
            raise error
        data = path.read_bytes()
        return decode_stored(kind, data), data


def require_role(author: Identity, role: str, what: str) -> None:
    """Raise `NotPermittedError` unless the author has a role."""
    if author.role != role:
        raise NotPermittedError(f"{what} was signed by {author.name}, who is no {role}")
