"""An institution at work: its state directory, its identity and its connection to the analyst."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast

from protocol.codec import M, Message
from protocol.envelope import Verified, sign, verify
from protocol.errors import MalformedMessageError, NotPermittedError, UnsupportedVersionError
from protocol.identity import Identity
from protocol.operations import LIST_COLLABORATIONS, Status
from protocol.version import negotiate
from runtime.files import write_whole
from user_client.custody.home import Home, Membership
from user_client.custody.round_directory import TERMS_FILE
from user_client.errors import ChoiceNeededError, NotPreparedError
from user_client.transport import ATTEMPTS, AnalystConnection, Traffic

if TYPE_CHECKING:
    from user_client.sdk.round import Round

REMEMBERED_S: Final = 24 * 3600
"""For so long the wire versions of the analyst are not asked for again."""


def unix_now() -> int:
    """Return the time in whole Unix seconds."""
    return int(time.time())


class Session:
    """Opens the connection when it is first needed; close it, or use it as a context manager.

    Parameters
    ----------
    home : Path
        The state directory.
    clock : callable
        Returns Unix seconds.
    passphrase : callable, optional
        Returns the passphrase of a protected directory; called once, when a secret is needed.
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
            self.home.analyst_path.unlink(missing_ok=True)  # the remembered versions are out of date
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one; the next request opens another."""
        if self._connection is not None:
            self._connection.__exit__()
            self._connection = None

    def is_joined(self) -> bool:
        """Return whether this institution belongs to a consortium."""
        return self.home.is_joined()

    def is_connected(self) -> bool:
        """Return whether the connection to the analyst was opened."""
        return self._connection is not None

    @property
    def membership(self) -> Membership:
        """Who we are; raises `NotJoinedError`."""
        return self.home.membership()

    @property
    def connection(self) -> AnalystConnection:
        """The connection to the analyst, with our certificate."""
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
        """Return a message signed with our key."""
        return sign(message, self.home.key(), self.home.certificate())

    def verify(self, kind: type[M], data: bytes) -> Verified[M]:
        """Verify a message that a member of our consortium has signed, with a certificate valid now."""
        return verify(kind, data, self.home.root(), at=self.clock())

    def verify_from_analyst(self, kind: type[M], data: bytes) -> Verified[M]:
        """Verify a signed message that only the analyst may have made."""
        verified = self.verify(kind, data)
        require_role(verified.author, "analyst", kind.__name__)
        return verified

    def collaborations(self) -> list[Status]:
        """Return the status of every collaboration we are a member of, as the analyst reports it."""
        rows = self.connection.ask_json(LIST_COLLABORATIONS).get("collaborations")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise MalformedMessageError("answer", "lists no collaborations; is this an ODC analyst?")
        return cast("list[Status]", rows)

    def round(self, collaboration_id: str | None = None) -> Round:
        """Return our side of a collaboration: the one with this id, or the only one there is.

        Raises
        ------
        ChoiceNeededError
            If no id is given and there are several.
        NotPreparedError
            If no id is given and there is none.
        """
        from user_client.sdk.round import Round  # here, because a round is made of a session

        return Round(self, collaboration_id if collaboration_id is not None else self._only_collaboration())

    def _only_collaboration(self) -> str:
        """Return the id of the only collaboration that can be meant.

        Collaborations whose terms are in the state directory come first, so that most commands do not
        have to ask the analyst.
        """
        known = self.home.collaborations_with(TERMS_FILE)
        rows = [] if len(known) == 1 else self.collaborations()
        if not known:
            known = [row["collaboration_id"] for row in rows]
        if len(known) > 1:  # a collaboration that was given up is not meant
            known = [row["collaboration_id"] for row in rows if row["state"] not in ("cancelled", "closed")]
        if not known:
            error = NotPreparedError("no collaboration names this institution yet")
            error.hint = "wait until the analyst has published the terms: `odc status`"
            raise error
        if len(known) > 1:
            raise ChoiceNeededError(f"collaborations: {', '.join(known)}")
        return known[0]


def require_role(author: Identity, role: str, what: str) -> None:
    """Raise `NotPermittedError` unless the author has a role."""
    if author.role != role:
        raise NotPermittedError(f"{what} was signed by {author.name}, who is not the {role}")


def meet(connection: AnalystConnection, url: str, path: Path, now: int) -> None:
    """Make sure that we and the analyst at ``url`` speak a common version; remember its versions in ``path``.

    An analyst that is upgraded meanwhile answers `unsupported-version`, and is asked again after that.

    Raises
    ------
    UnsupportedVersionError
        If there is no common version; it says who has to upgrade.
    """
    versions = _remembered_versions(url, path, now)
    if versions is None:
        versions = connection.discover()["wire_versions"]
        remembered = {"analyst_url": url, "wire_versions": versions, "asked_at": now}
        write_whole(path, json.dumps(remembered).encode())
    negotiate(versions, peer="the analyst")


def _remembered_versions(url: str, path: Path, now: int) -> Sequence[int] | None:
    try:
        found = json.loads(path.read_text())
        is_fresh = found["analyst_url"] == url and 0 <= now - found["asked_at"] < REMEMBERED_S
        return [int(version) for version in found["wire_versions"]] if is_fresh else None
    except (OSError, ValueError, KeyError, TypeError):  # missing, damaged, or written by another version
        return None
