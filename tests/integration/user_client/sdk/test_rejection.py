"""The lead rejects a request with a reason, and who asked reads it; the lead reads all pages of requests."""

from __future__ import annotations

import logging

import pytest

from analyst_server.services import certificates
from protocol.errors import InputError, InvitationError, NotPermittedError
from tests.harness.in_process import HOSPITAL, PASSPHRASE, Consortium
from user_client.custody.authority import MEMBER_VALIDITY
from user_client.sdk import approve_pending, invitations, invite, join, reject, renew, renew_in_time
from user_client.sdk.membership import RENEW_BEFORE_S

VALIDITY_S = int(MEMBER_VALIDITY.total_seconds())
REASON = "call us first"


def test_who_joins_reads_why_it_was_rejected(consortium: Consortium) -> None:
    join(consortium.hospital, consortium.invitation())
    assert reject(consortium.lead, HOSPITAL, REASON) == 1
    with pytest.raises(NotPermittedError, match=REASON) as caught:
        join(consortium.hospital, None, wait_s=10)
    assert "invitation" in caught.value.hint
    assert invitations(consortium.lead) == []


def test_who_was_rejected_joins_with_another_invitation(consortium: Consortium) -> None:
    join(consortium.hospital, consortium.invitation())
    reject(consortium.lead, HOSPITAL, REASON)
    join(consortium.hospital, consortium.invitation())
    approve_pending(consortium.lead, PASSPHRASE)
    assert join(consortium.hospital, None) is not None


def test_a_rejection_withdraws_the_invitation_of_no_other_party(consortium: Consortium) -> None:
    other = invite(consortium.lead, "hospital-b")
    join(consortium.hospital, consortium.invitation())
    reject(consortium.lead, HOSPITAL, REASON)
    assert [one.invitation_id for one in invitations(consortium.lead)] == [other.invitation_id]


def test_a_member_reads_why_and_may_ask_again(consortium: Consortium) -> None:
    consortium.until_joined()
    renew(consortium.hospital)
    reject(consortium.lead, HOSPITAL, REASON)
    with pytest.raises(NotPermittedError, match=REASON):
        renew(consortium.hospital)
    assert renew(consortium.hospital) is None
    approve_pending(consortium.lead, PASSPHRASE)
    assert renew(consortium.hospital) is not None


def test_no_command_asks_again_by_itself(consortium: Consortium, caplog: pytest.LogCaptureFixture) -> None:
    consortium.until_joined()
    consortium.clock.forward(VALIDITY_S - RENEW_BEFORE_S)
    renew_in_time(consortium.hospital)
    reject(consortium.lead, HOSPITAL, REASON)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            renew_in_time(consortium.hospital)
    assert caplog.text.count(REASON) == 2
    assert approve_pending(consortium.lead, PASSPHRASE) == []


def test_a_request_that_does_not_wait_cannot_be_rejected(consortium: Consortium) -> None:
    with pytest.raises(InputError, match="no request of hospital-a waits"):
        reject(consortium.lead, HOSPITAL, REASON)


@pytest.mark.parametrize("reason", ["", "x" * 201, "\x1b[2J"])
def test_a_reason_is_a_line_of_text(consortium: Consortium, reason: str) -> None:
    with pytest.raises(InputError, match="reason"):
        reject(consortium.lead, HOSPITAL, reason)


def test_a_request_that_cannot_be_signed_can_be_rejected(consortium: Consortium) -> None:
    join(consortium.hospital, consortium.invitation())
    consortium.invitation()  # replaces the one that was answered
    with pytest.raises(InvitationError) as caught:
        approve_pending(consortium.lead, PASSPHRASE)
    assert "odc consortium reject" in caught.value.hint
    reject(consortium.lead, HOSPITAL, "the invitation was withdrawn")
    assert approve_pending(consortium.lead, PASSPHRASE) == []


def test_the_lead_reads_every_page(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MOST_OF_A_PAGE", 1)
    names = [HOSPITAL, "hospital-b", "hospital-c"]
    for name in names:
        join(consortium.session(name), consortium.invitation(name))
    approved = approve_pending(consortium.lead, PASSPHRASE)
    assert sorted(one.identity.name for one in approved) == names
