"""An institution at work: its state directory, its identity and its connection to the analyst."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlencode

from protocol.answers import Status
from protocol.codec import M, Message, decode
from protocol.envelope import Signed, Verified, decode_stored, sign, verify
from protocol.errors import (
    CertificateRefusedError,
    LimitExceededError,
    NotFoundError,
    NotPermittedError,
    UnsupportedVersionError,
)
from protocol.identity import Identity, load_der_certificate
from protocol.operations import LIST_COLLABORATIONS
from protocol.states import ENDED
from protocol.terms import Terms
from protocol.version import negotiate
from runtime.files import read_text, write_whole
from user_client.custody.home import Home, Membership
from user_client.custody.round_directory import ACCEPTANCE_FILE, DOWNLINK_FILE, TERMS_FILE
from user_client.errors import ChoiceNeededError, NotPreparedError
from user_client.sdk import analyst_key
from user_client.sdk.answers import statuses_in
from user_client.sdk.watching import StatusWatch
from user_client.transport import ATTEMPTS, AnalystConnection, Traffic

if TYPE_CHECKING:
    from user_client.sdk.round import Round

CLOCKS_APART_S: Final = 300
"""How far the clocks of two machines may be apart."""
REMEMBERED_S: Final = 24 * 3600
"""For so long the wire versions of the analyst are not asked for again."""
SHORT_ID: Final = 8
"""Digits of an id that people are shown."""
MOST_COLLABORATIONS: Final = 2**16
"""Of a list: far more than anybody has."""
_PREFIX: Final = re.compile("[0-9a-f]{4,31}")


def unix_now() -> int:
    """Return the time in whole Unix seconds."""
    return int(time.time())


class Session:
    """Opens the connection when it is first needed; close it, or use it as a context manager.

    Parameters
    ----------
    home : Path or str
        The state directory.
    clock : callable
        Returns Unix seconds.
    passphrase : callable, optional
        Returns the passphrase of a protected directory; called once, when a secret is needed.
    attempts : int
        How often a request is sent until the analyst answers, with growing pauses.
    timeout_s : float, optional
        How long each step of a request may take; minutes are given to a slow line if it is not said.
    """

    def __init__(
        self,
        home: Path | str,
        clock: Callable[[], int] = unix_now,
        passphrase: Callable[[], str] | None = None,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
    ) -> None:
        self.home = Home(Path(home), passphrase)
        self.clock = clock
        self._attempts, self._timeout_s = attempts, timeout_s
        self._connection: AnalystConnection | None = None
        self._titles: dict[str, str] = {}
        self._watches: dict[str, StatusWatch] = {}

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
            self._watches.clear()  # each asks over that connection

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
                    read_text(self.home.root_path),
                    (self.home.certificate_path, self.home.key_path),
                    Traffic(self.home.traffic_path),
                    revocations=self.home.revocations_path if self.home.revocations_path.exists() else None,
                    key_password=self.home.key_password(),
                    attempts=self._attempts,
                    timeout_s=self._timeout_s,
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

    def signed_now(self, kind: type[Message], data: bytes) -> bytes:
        """Return a message that we have signed, signed anew if our certificate of then has ended."""
        if self.clock() <= _end_of_certificate(data):
            return data
        return self.sign(decode_stored(kind, data))

    def verify(self, kind: type[M], data: bytes) -> Verified[M]:
        """Verify a message that a member of our consortium has signed, with a certificate valid now."""
        return verify(kind, data, self.home.root(), at=self.clock())

    def verify_kept(self, kind: type[M], data: bytes) -> Verified[M]:
        """Verify what was signed earlier and kept: its author's certificate may have ended since.

        docs/protocol.md, "When a signature is judged".
        """
        return verify(kind, data, self.home.root(), at=min(self.clock(), _end_of_certificate(data)))

    def verify_from_analyst(
        self, kind: type[M], data: bytes, terms: Terms | None = None, *, is_new: bool = False
    ) -> Verified[M]:
        """Verify a signed message that only the analyst may have made, with the key that we know.

        ``terms`` are those of the round that the message belongs to, once we have them. What ``is_new`` was
        signed for this answer, so that its certificate must be valid now.
        """
        verified = (self.verify if is_new else self.verify_kept)(kind, data)
        require_role(verified.author, "analyst", kind.__name__)
        analyst_key.check_now(self.home, terms, data, kind.__name__)
        return verified

    def watch(self, collaboration_id: str) -> StatusWatch:
        """Return the watch over a collaboration, the same one for as long as this session lasts."""
        if collaboration_id not in self._watches:
            self._watches[collaboration_id] = StatusWatch(self.connection, collaboration_id)
        return self._watches[collaboration_id]

    def collaborations(self, *, begins: str = "") -> list[Status]:
        """Return the status of every collaboration we are a member of, as the analyst reports it.

        With ``begins``, only of those whose id begins so. Raises `LimitExceededError` for a list without end.
        """
        if begins:  # an analyst of an earlier version lists all
            listed, _ = self._listed(f"begins={begins}")
        else:
            listed = list(self._all_listed().values())
        self._titles.update({row["collaboration_id"]: row["title"] for row in listed})
        return [row for row in listed if row["collaboration_id"].startswith(begins)]

    def _all_listed(self) -> dict[str, Status]:
        """Return the status of each collaboration by its id, asked for page by page."""
        found: dict[str, Status] = {}
        after: object = ""
        while isinstance(after, str):
            listed, after = self._listed(urlencode({"after": after}))
            page = {row["collaboration_id"]: row for row in listed}
            if page.keys() <= found.keys():  # an analyst that repeats itself says nothing more
                break
            found |= page
            if len(found) > MOST_COLLABORATIONS:
                raise LimitExceededError("collaborations of a list", MOST_COLLABORATIONS, len(found))
        return found

    def _listed(self, query: str) -> tuple[list[Status], object]:
        """Return one answer of the list, and where the next begins; an earlier version gives all in one."""
        answer = self.connection.ask_json(LIST_COLLABORATIONS, query=query)
        return statuses_in(answer.get("collaborations")), answer.get("next")

    def round(
        self,
        collaboration_id: str | None = None,
        *,
        running: bool = False,
        accepted: bool = False,
        received: bool = False,
        listed: Sequence[Status] = (),
    ) -> Round:
        """Return our side of a collaboration: the one with this id, or the only one that can be meant.

        Parameters
        ----------
        collaboration_id : str, optional
            Its first four digits are enough, as long as no other begins with them.
        running : bool
            Unless an id is given, ask the analyst, and leave out what was closed or cancelled, and of several
            those whose downlink is here. Otherwise one in the state directory is meant; of several, one that
            was neither closed nor cancelled.
        accepted : bool
            Unless an id is given, prefer the collaborations whose terms we have signed.
        received : bool
            Unless an id is given, prefer those whose downlink is in the state directory. Where it is one, the
            analyst is not asked, whatever else has been published since.
        listed : sequence of Status
            What `collaborations` has returned just now, so that the analyst is not asked again.

        Raises
        ------
        ChoiceNeededError
            If no id is given and there are several, or several begin with it.
        NotPreparedError
            If no id is given and there is none.
        """
        from user_client.sdk.round import Round  # here, because a round is made of a session

        if collaboration_id is None:
            if running:
                return Round(self, self._running(accepted=accepted, listed=listed))
            files = [ACCEPTANCE_FILE if accepted else TERMS_FILE]
            return Round(self, self._stored([DOWNLINK_FILE, *files] if received else files, listed))
        return Round(self, self._with_prefix(collaboration_id))

    def title_of(self, collaboration_id: str) -> str:
        """Return the title of a collaboration that the analyst has listed in this session, else nothing."""
        return self._titles.get(collaboration_id, "")

    def _with_prefix(self, given: str) -> str:
        if not _PREFIX.fullmatch(given):
            return given  # refused where its directory is named
        known = self.home.collaborations_with(TERMS_FILE)
        found = [each for each in known if each.startswith(given)]
        if not found:
            found = [row["collaboration_id"] for row in self.collaborations(begins=given)]
        if not found:
            raise NotFoundError(f"no collaboration of ours has an id that begins with {given}")
        return self._one_of(found)

    def _running(self, *, accepted: bool, listed: Sequence[Status]) -> str:
        """Return the id of the only collaboration that runs.

        Those that we have signed come first if that is wanted, and those whose model is here come last.
        """
        rows = listed or self.collaborations()
        found = _alive(rows)
        if accepted:
            signed = self.home.collaborations_with(ACCEPTANCE_FILE)
            found = [each for each in signed if each in found] or found
        ended_for_us = self.home.collaborations_with(DOWNLINK_FILE)
        found = [each for each in found if each not in ended_for_us] or found
        if not found:
            raise _none_can_be_meant(rows)
        return self._one_of(found)

    def _stored(self, files: Sequence[str], listed: Sequence[Status]) -> str:
        """Return the id of the only collaboration in the state directory; of several the one that runs.

        Meant are those with the first of ``files``; without any, those with the next one. Where it is the
        only one, the analyst is not asked. What it lists is meant only if there is none.
        """
        known = next(filter(None, map(self.home.collaborations_with, files)), [])
        if len(known) == 1:
            return known[0]
        rows = listed or self.collaborations()
        known = known or [row["collaboration_id"] for row in rows]
        if not known:
            raise _none_can_be_meant(rows)
        alive = _alive(rows)
        return self._one_of([each for each in known if each in alive] or known)

    def _one_of(self, found: Sequence[str]) -> str:
        if len(found) > 1:
            names = [named(self.title_of(each), each) for each in found]
            raise ChoiceNeededError(f"more than one collaboration could be meant: {', '.join(names)}")
        return found[0]


def named(title: str, collaboration_id: str) -> str:
    """Return how people are told which collaboration is meant."""
    return f"{title} ({collaboration_id[:SHORT_ID]})" if title else collaboration_id[:SHORT_ID]


def _alive(rows: Sequence[Status]) -> list[str]:
    return [row["collaboration_id"] for row in rows if row["state"] not in ENDED]


def _none_can_be_meant(rows: Sequence[Status]) -> NotPreparedError:
    if rows:
        last = rows[-1]
        name = named(last["title"], last["collaboration_id"])
        error = NotPreparedError(f"no collaboration is running: {name} is {last['state']}")
        error.hint = "wait until the analyst has published new terms, or name one with --collaboration ID"
        return error
    error = NotPreparedError("no collaboration names this institution yet")
    error.hint = "wait until the analyst has published the terms: `odc status`"
    return error


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


def require_signed_by(data: bytes, entered_at: int) -> None:
    """Raise unless the certificate of a verified message had not ended when the ledger has an entry of it."""
    if entered_at - CLOCKS_APART_S > _end_of_certificate(data):
        raise CertificateRefusedError("the certificate had ended before the ledger says that it signed")


def _end_of_certificate(data: bytes) -> int:
    certificate = load_der_certificate(decode(Signed, data).certificate)
    return int(certificate.not_valid_after_utc.timestamp())
