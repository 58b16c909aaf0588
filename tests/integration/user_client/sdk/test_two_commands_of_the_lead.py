"""Two commands of the lead at the same time: what one has used or withdrawn, the other does without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.errors import NotPermittedError, UnreadableFileError
from protocol.invitation import Invitation
from tests.harness.in_process import HOSPITAL, PASSPHRASE, Consortium
from user_client.custody.home import Home
from user_client.sdk import Session, approval, invitations, invite, join
from user_client.sdk import consortium as consortium_module
from user_client.sdk.consortium import Revoked, invitation_path


@pytest.fixture
def another_withdraws(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    """Withdraw every invitation as soon as a command has read them all."""

    def read(session: Session) -> list[Invitation]:
        found = invitations(session)
        for one in found:
            invitation_path(session.home, one.invitation_id).unlink()
        return found

    for module in (approval, consortium_module):
        monkeypatch.setattr(module, "invitations", read)


def test_an_invitation_that_is_withdrawn_meanwhile_is_not_listed(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("hospital-x", "hospital-y")
    made = sorted((invite(consortium.lead, name) for name in names), key=lambda one: one.invitation_id)
    read = Home.read_secret

    def withdrawing(home: Home, path: Path) -> bytes:
        invitation_path(home, made[1].invitation_id).unlink(missing_ok=True)
        return read(home, path)

    monkeypatch.setattr(Home, "read_secret", withdrawing)
    assert invitations(consortium.lead) == made[:1]


def test_an_invitation_that_cannot_be_read_is_no_withdrawn_one(consortium: Consortium) -> None:
    made = invite(consortium.lead, HOSPITAL)
    path = invitation_path(consortium.lead.home, made.invitation_id)
    path.unlink()
    path.mkdir()
    with pytest.raises(UnreadableFileError):
        invitations(consortium.lead)


def replace(consortium: Consortium) -> None:
    assert invite(consortium.lead, HOSPITAL, replace_earlier=True).party == HOSPITAL


def revoke(consortium: Consortium) -> None:
    assert consortium_module.revoke(consortium.lead, HOSPITAL, PASSPHRASE) == Revoked(0, 1)


def reject(consortium: Consortium) -> None:
    assert approval.reject(consortium.lead, HOSPITAL, "not before May") == 1
    with pytest.raises(NotPermittedError, match="not before May"):
        join(consortium.hospital, None)


@pytest.mark.usefixtures("another_withdraws")
@pytest.mark.parametrize("command", [replace, revoke, reject])
def test_a_command_goes_on_where_another_has_withdrawn_the_invitation(
    consortium: Consortium, command: Callable[[Consortium], None]
) -> None:
    join(consortium.hospital, invite(consortium.lead, HOSPITAL, replace_earlier=True))
    command(consortium)
