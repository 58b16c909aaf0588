"""The lead's watch: approve requests as they come, with time as an argument."""

from __future__ import annotations

import pytest

from tests.harness.in_process import HOSPITAL, PASSPHRASE, Consortium
from user_client.errors import ConnectionFailedError, PassphraseError, TlsFailedError
from user_client.sdk import Approval, certificate_requests, join
from user_client.sdk.approval import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    AnalystUnreachable,
    ApprovalEvent,
    RequestRefused,
    RequestSigned,
)
from user_client.sdk.consortium import Member, members
from user_client.sdk.session import Session


class Watch:
    """An approval whose pauses move the clock, and what happens in them."""

    def __init__(self, consortium: Consortium) -> None:
        self.events: list[ApprovalEvent] = []
        self.pauses: list[float] = []
        self.approval = Approval(consortium.lead, lambda: PASSPHRASE, report=self.events.append)

    def run(self, seconds: float) -> list[str]:
        """Watch, and return for whom was signed."""
        approved = self.approval.watch(seconds, pause=self.pause, clock=lambda: sum(self.pauses))
        return [one.identity.name for one in approved]

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def away(
    consortium: Consortium,
    monkeypatch: pytest.MonkeyPatch,
    error: ConnectionFailedError,
    times: int | None = None,
) -> None:
    """Let the analyst not answer the lead, for ever or for so many requests."""
    ask_json = consortium.lead.connection.ask_json
    asked: list[object] = []

    def ask(*args: object, **ids: object) -> object:
        asked.append(args)
        if times is None or len(asked) <= times:
            raise error
        return ask_json(*args, **ids)  # type: ignore[arg-type]

    monkeypatch.setattr(consortium.lead.connection, "ask_json", ask)


def test_a_watch_ends_when_all_who_are_invited_have_joined(consortium: Consortium) -> None:
    invitation, watch = consortium.invitation(), Watch(consortium)

    def arrive(seconds: float) -> None:
        watch.pauses.append(seconds)
        join(consortium.hospital, invitation)

    watch.pause = arrive  # type: ignore[method-assign]
    assert watch.run(3600) == [HOSPITAL]
    assert watch.pauses == [FIRST_PAUSE_S]
    (event,) = watch.events
    assert isinstance(event, RequestSigned)
    assert event.request.identity.name == HOSPITAL


def test_a_watch_ends_when_its_time_is_up(consortium: Consortium) -> None:
    consortium.invitation()
    watch = Watch(consortium)
    assert watch.run(30) == []
    assert 30 <= sum(watch.pauses) < 30 + LONGEST_PAUSE_S
    assert watch.pauses[-1] == LONGEST_PAUSE_S


def test_a_watch_for_one_party_does_not_wait_for_others(consortium: Consortium) -> None:
    consortium.invitation()
    consortium.invitation("hospital-b")
    join(consortium.hospital, consortium.invitation())
    watch = Watch(consortium)
    watch.approval = Approval(consortium.lead, lambda: PASSPHRASE, parties=[HOSPITAL])
    assert watch.run(3600) == [HOSPITAL]
    assert watch.pauses == []


def test_the_certificates_issued_so_far_are_read_once_for_all_who_wait(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def counted(session: Session) -> list[Member]:
        reads.append(session)
        return members(session)

    monkeypatch.setattr(certificate_requests, "members", counted)
    watch = Watch(consortium)
    assert watch.approval.waiting() == []
    assert len(reads) == 0
    for name in ("hospital-b", "hospital-c", "hospital-d"):
        with consortium.session(name) as newcomer:
            join(newcomer, consortium.invitation(name))
    assert len(watch.approval.waiting()) == 3
    assert len(reads) == 1


def test_a_watch_goes_on_where_the_analyst_is_not_there_yet(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(consortium.hospital, consortium.invitation())
    away(consortium, monkeypatch, ConnectionFailedError("analyst does not answer"), times=4)
    watch = Watch(consortium)
    assert watch.run(3600) == [HOSPITAL]
    assert watch.events[0] == AnalystUnreachable("analyst does not answer")
    assert len(watch.events) == 2
    assert watch.pauses == pytest.approx([0.1, 0.125, 0.15625, 0.1953125])


def test_a_watch_that_never_reached_the_analyst_fails_when_its_time_is_up(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.invitation()
    away(consortium, monkeypatch, ConnectionFailedError("analyst does not answer"))
    watch = Watch(consortium)
    with pytest.raises(ConnectionFailedError, match="does not answer"):
        watch.run(1)
    assert len(watch.events) == 1


def test_a_certificate_that_is_not_believed_ends_a_watch(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.invitation()
    away(consortium, monkeypatch, TlsFailedError("not of this consortium"))
    watch = Watch(consortium)
    with pytest.raises(TlsFailedError):
        watch.run(3600)
    assert (watch.pauses, watch.events) == ([], [])


def test_a_wrong_passphrase_ends_a_watch_before_it_begins(consortium: Consortium) -> None:
    consortium.invitation()
    watch = Watch(consortium)
    watch.approval = Approval(consortium.lead, lambda: "not the passphrase")
    with pytest.raises(PassphraseError):
        watch.run(3600)
    assert watch.pauses == []


def test_a_request_that_cannot_be_signed_is_reported_once(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    join(consortium.hospital, invitation)
    (path,) = (consortium.lead.home.consortium_path / "invitations").glob("*.json")
    path.unlink()
    consortium.invitation("hospital-b")  # somebody to wait for
    watch = Watch(consortium)
    assert watch.run(5) == []
    assert len(watch.pauses) > 1
    (event,) = watch.events
    assert isinstance(event, RequestRefused)
    assert watch.approval.refused == [event.reason]
