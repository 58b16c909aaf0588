from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.envelope import decode_stored, sign
from protocol.errors import (
    AlreadyExistsError,
    CertificateRefusedError,
    CertificateRevokedError,
    InputError,
    InvitationError,
)
from protocol.identity import TrustRoot, certificate_request, fingerprint, public_key
from protocol.messages import Renewal
from protocol.operations import PUBLISH_REVOCATIONS, REQUEST_RENEWAL, Operation
from protocol.terms import Terms
from tests.harness.certificates import NOW
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, Consortium
from user_client.custody.authority import MEMBER_VALIDITY
from user_client.custody.home import revocations_der
from user_client.errors import NotJoinedError
from user_client.sdk import (
    Session,
    approve_pending,
    approve_request,
    invitations,
    invite,
    join,
    members,
    renew,
    renew_in_time,
    renew_own,
    revoke,
    update_revocations,
)
from user_client.sdk.approval import approve_waiting, waiting_requests
from user_client.sdk.certificate_requests import check_request
from user_client.sdk.consortium import unlock_root
from user_client.sdk.membership import RENEW_BEFORE_S
from user_client.transport import AnalystConnection

VALIDITY_S = int(MEMBER_VALIDITY.total_seconds())


def ends(session: Session) -> Any:
    return session.home.certificate().not_valid_after_utc


# renewing


def test_a_certificate_is_renewed_without_an_invitation(consortium: Consortium) -> None:
    consortium.until_joined()
    before, key = ends(consortium.hospital), consortium.hospital.home.key_path.read_bytes()
    consortium.clock.forward(1000)
    assert renew(consortium.hospital) is None
    (approved,) = approve_pending(consortium.lead, PASSPHRASE)
    assert approved.identity.name == HOSPITAL
    assert renew(consortium.hospital) is not None
    assert (ends(consortium.hospital) - before).total_seconds() == 1000
    assert consortium.hospital.home.key_path.read_bytes() == key


def test_asking_again_goes_on_with_the_same_request(consortium: Consortium) -> None:
    consortium.until_joined()
    renew(consortium.hospital)
    renew(consortium.hospital)
    assert len(approve_pending(consortium.lead, PASSPHRASE)) == 1


def test_the_last_month_renews_by_itself(consortium: Consortium) -> None:
    consortium.until_joined()
    before = ends(consortium.hospital)
    consortium.clock.forward(VALIDITY_S - RENEW_BEFORE_S + 1)
    renew_in_time(consortium.hospital)
    approve_pending(consortium.lead, PASSPHRASE)
    renew_in_time(consortium.hospital)
    assert ends(consortium.hospital) > before


def test_before_the_last_month_nothing_is_asked(consortium: Consortium) -> None:
    consortium.until_joined()
    consortium.clock.forward(VALIDITY_S - RENEW_BEFORE_S - 1)
    renew_in_time(consortium.hospital)
    assert not consortium.hospital.home.renewal_path.exists()


def test_what_does_not_renew_is_told_and_stops_no_command(
    consortium: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    consortium.until_joined()
    consortium.clock.forward(VALIDITY_S)
    renew_in_time(consortium.hospital)
    assert "0 days and could not be renewed: our certificate has ended" in caplog.text


def test_the_lead_is_told_to_renew_with_its_passphrase(
    consortium: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    consortium.clock.forward(VALIDITY_S - 86400)
    renew_in_time(consortium.lead)
    assert "run `odc renew`" in caplog.text
    renew_own(consortium.lead, PASSPHRASE)
    assert consortium.lead.certificate_ends_in_s() == VALIDITY_S


def test_an_ended_certificate_asks_for_an_invitation_and_joins_with_its_old_key(
    consortium: Consortium,
) -> None:
    consortium.until_joined()
    key = consortium.hospital.home.key_path.read_bytes()
    consortium.clock.forward(VALIDITY_S)
    with pytest.raises(CertificateRefusedError, match="has ended") as caught:
        renew(consortium.hospital)
    assert "new invitation" in caught.value.hint
    renew_own(consortium.lead, PASSPHRASE)
    consortium.hospital.close()
    consortium.lead.close()
    join(consortium.hospital, consortium.invitation())
    approve_pending(consortium.lead, PASSPHRASE)
    join(consortium.hospital, None)
    assert consortium.hospital.certificate_ends_in_s() == VALIDITY_S
    assert consortium.hospital.home.key_path.read_bytes() == key


def test_a_request_that_somebody_else_signed_is_refused(consortium: Consortium) -> None:
    consortium.until_joined()
    renew(consortium.hospital)
    stolen = consortium.hospital.home.renewal_path.read_bytes()
    with pytest.raises(Exception, match="sent a message signed by hospital-a"):
        consortium.lead.connection.ask(REQUEST_RENEWAL, stolen)


@pytest.mark.parametrize("role", ["analyst", "institution"])
def test_a_renewal_for_another_key_is_not_signed(consortium: Consortium, role: str) -> None:
    """An analyst relays such requests: one that it has made up would bring a key that nobody has compared."""
    consortium.until_joined()
    home, analyst = consortium.hospital.home, consortium.analyst
    key, certificate = (
        (analyst.key, analyst.certificate) if role == "analyst" else (home.key(), home.certificate())
    )
    new, believed = ec.generate_private_key(ec.SECP256R1()), consortium.lead.home.analyst_keys()
    made_up = Renewal(
        consortium_id=analyst.root.consortium_id,
        renewal_id="ee" * 16,
        csr=certificate_request(new, "new key"),
    )
    with pytest.raises(InvitationError, match="for another key than it has"):
        check_request(consortium.lead, sign(made_up, key, certificate))
    assert consortium.lead.home.analyst_keys() == believed


def test_an_id_is_used_for_one_request(consortium: Consortium) -> None:
    consortium.until_joined()
    hospital = consortium.hospital
    renew(hospital)
    renewal = decode_stored(Renewal, hospital.home.renewal_path.read_bytes())
    with pytest.raises(AlreadyExistsError):
        hospital.connection.ask(REQUEST_RENEWAL, hospital.sign(renewal))


def test_joining_again_forgets_a_renewal_that_came_too_late(consortium: Consortium) -> None:
    consortium.until_joined()
    assert renew(consortium.hospital) is None  # nobody approves it in time
    consortium.clock.forward(VALIDITY_S)
    renew_own(consortium.lead, PASSPHRASE)
    consortium.hospital.close()
    consortium.lead.close()
    join(consortium.hospital, consortium.invitation())
    with suppress(InvitationError):  # the old renewal is refused, the new request is not
        approve_pending(consortium.lead, PASSPHRASE)
    join(consortium.hospital, None)
    consortium.hospital.close()
    assert renew(consortium.hospital) is None
    with suppress(InvitationError):
        approve_pending(consortium.lead, PASSPHRASE)
    assert renew(consortium.hospital) is not None


def test_a_renewed_institution_gets_no_name_of_a_server(consortium: Consortium) -> None:
    consortium.until_joined()
    renew(consortium.hospital)
    request = consortium.hospital.home.renewal_path.read_bytes()
    issued = approve_request(consortium.lead, request, PASSPHRASE, hosts=["localhost"]).certificate
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == []


# revoking


def test_a_revoked_member_is_refused_on_its_open_connection(consortium: Consortium) -> None:
    consortium.until_joined()
    consortium.hospital.collaborations()
    assert revoke(consortium.lead, HOSPITAL, PASSPHRASE).certificates == 1
    with pytest.raises(CertificateRevokedError) as caught:
        consortium.hospital.collaborations()
    assert "new invitation" in caught.value.hint
    assert consortium.lead.collaborations() == []


def test_the_list_is_kept_by_the_analyst(consortium: Consortium) -> None:
    consortium.until_joined()
    revoke(consortium.lead, HOSPITAL, PASSPHRASE)
    with consortium.analyst.records.begin() as unit:
        row = unit.revocations()
    assert row is not None
    assert row.der == revocations_der(consortium.lead.home.revocations_path.read_bytes())


def test_revoking_again_sends_the_list_again_and_changes_nothing(consortium: Consortium) -> None:
    consortium.until_joined()
    revoke(consortium.lead, HOSPITAL, PASSPHRASE)
    kept = consortium.lead.home.revocations_path.read_bytes()
    assert revoke(consortium.lead, HOSPITAL, PASSPHRASE).certificates == 1
    assert consortium.lead.home.revocations_path.read_bytes() == kept


def test_a_renewed_member_loses_both_certificates(consortium: Consortium) -> None:
    consortium.until_joined()
    renew(consortium.hospital)
    approve_pending(consortium.lead, PASSPHRASE)
    renew(consortium.hospital)
    assert revoke(consortium.lead, HOSPITAL, PASSPHRASE).certificates == 2


def test_a_second_revocation_keeps_the_first(consortium: Consortium) -> None:
    consortium.until_joined()
    revoke(consortium.lead, HOSPITAL, PASSPHRASE)
    revoke(consortium.lead, "analyst", PASSPHRASE)
    states = {member.identity.name: member.state for member in members(consortium.lead)}
    assert states == {LEAD: "valid", HOSPITAL: "revoked", "analyst": "revoked"}


def test_a_revoked_party_comes_back_with_a_new_key_only(consortium: Consortium, tmp_path: Any) -> None:
    consortium.until_joined()
    revoke(consortium.lead, HOSPITAL, PASSPHRASE)
    (consortium.hospital.home.path / "membership.json").unlink()  # as if it had never joined
    join(consortium.hospital, consortium.invitation())
    with pytest.raises(InvitationError, match="a key that was revoked"):
        approve_pending(consortium.lead, PASSPHRASE)
    fresh = consortium.session("hospital-a-again")
    join(fresh, consortium.invitation())  # replaces the old request
    assert len(approve_pending(consortium.lead, PASSPHRASE)) == 1
    joined = join(fresh, None)
    assert joined is not None
    assert joined.party == HOSPITAL
    assert fresh.collaborations() == []


def test_a_member_learns_of_revocations_from_the_analyst_or_from_a_file(consortium: Consortium) -> None:
    consortium.until_joined()
    assert update_revocations(consortium.hospital) == 0
    revoke(consortium.lead, "analyst", PASSPHRASE)
    assert update_revocations(consortium.hospital) == 1
    der = consortium.lead.home.revocations_path.read_bytes()
    other = consortium.session("other")
    other.home.root_path.parent.mkdir()
    other.home.root_path.write_bytes(consortium.hospital.home.root_path.read_bytes())
    assert update_revocations(other, der) == 1


def test_two_revocations_at_once_revoke_both(consortium: Consortium) -> None:
    consortium.until_joined()
    come_together = threading.Barrier(2)

    def revoke_one(party: str) -> int:
        session = consortium.session(LEAD)  # as another command
        come_together.wait()
        return revoke(session, party, PASSPHRASE).certificates

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(revoke_one, [HOSPITAL, "analyst"])) == [1, 1]
    states = {member.identity.name: member.state for member in members(consortium.lead)}
    assert states == {LEAD: "valid", HOSPITAL: "revoked", "analyst": "revoked"}


def test_a_list_that_was_overtaken_on_its_way_ends_no_command(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined()
    ask, overtaking = AnalystConnection.ask, ["analyst"]

    def overtaken(connection: AnalystConnection, operation: Operation, *rest: Any, **more: Any) -> Any:
        if operation is PUBLISH_REVOCATIONS and overtaking:
            assert revoke(consortium.session(LEAD), overtaking.pop(), PASSPHRASE).certificates == 1
        return ask(connection, operation, *rest, **more)

    monkeypatch.setattr(AnalystConnection, "ask", overtaken)
    assert revoke(consortium.session(LEAD), HOSPITAL, PASSPHRASE).certificates == 1
    assert {row.state for row in members(consortium.lead) if row.identity.name != LEAD} == {"revoked"}


def test_an_older_list_that_is_still_being_written_replaces_no_newer_one(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined()
    lists = list[bytes]()
    for party in (HOSPITAL, "analyst"):
        revoke(consortium.lead, party, PASSPHRASE)
        lists.append(consortium.lead.home.revocations_path.read_bytes())
    is_read, is_newer_stored = threading.Event(), threading.Event()
    adopt = TrustRoot.adopt

    def slowly(root: TrustRoot, der: bytes) -> None:
        adopt(root, der)
        if der == revocations_der(lists[0]):
            is_read.set()
            is_newer_stored.wait(0.5)  # for ever, if whoever stores it has to wait for us

    monkeypatch.setattr(TrustRoot, "adopt", slowly)
    with ThreadPoolExecutor(1) as thread:
        older = thread.submit(update_revocations, consortium.session(HOSPITAL), lists[0])
        assert is_read.wait(60)
        assert update_revocations(consortium.session(HOSPITAL), lists[1]) == 2
        is_newer_stored.set()
        older.result()
    assert consortium.hospital.home.revocations_path.read_bytes() == lists[1]


def test_what_a_revoked_analyst_signs_is_believed_no_more(consortium: Consortium) -> None:
    consortium.until_accepted()
    terms = (consortium.directory_of(consortium.hospital) / "terms.odc").read_bytes()
    revoke(consortium.lead, "analyst", PASSPHRASE)
    update_revocations(consortium.hospital)
    with pytest.raises(CertificateRevokedError, match="analyst was revoked"):
        consortium.hospital.verify_from_analyst(Terms, terms)


@pytest.mark.parametrize(("party", "says"), [(LEAD, "cannot revoke itself"), ("nobody", "no certificate")])
def test_who_cannot_be_revoked_is_said(consortium: Consortium, party: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        revoke(consortium.lead, party, PASSPHRASE)


def test_a_member_revokes_nobody(consortium: Consortium) -> None:
    consortium.until_joined()
    with pytest.raises(NotJoinedError, match="not the lead"):
        revoke(consortium.hospital, LEAD, PASSPHRASE)
    with pytest.raises(Exception, match="not the lead institution"):
        consortium.hospital.connection.request("PUT", "/v1/revocations", content=b"list")


# who is who


@pytest.mark.parametrize("party", [LEAD, "analyst"])
def test_nobody_is_invited_under_the_name_of_the_lead_or_the_analyst(
    consortium: Consortium, party: str
) -> None:
    with pytest.raises(InputError, match=f"{party} is the name of the"):
        invite(consortium.lead, party)


def test_a_party_that_holds_a_certificate_is_not_invited_again(consortium: Consortium) -> None:
    consortium.until_joined()
    with pytest.raises(InputError, match="has a valid certificate already") as caught:
        invite(consortium.lead, HOSPITAL)
    assert f"odc consortium revoke {HOSPITAL}" in caught.value.hint


def test_a_name_under_invitation_is_not_invited_again_by_chance(consortium: Consortium) -> None:
    first = invite(consortium.lead, HOSPITAL)
    with pytest.raises(InputError, match="there is an unused invitation") as caught:
        invite(consortium.lead, HOSPITAL)
    assert "--replace" in caught.value.hint
    second = invite(consortium.lead, HOSPITAL, replace_earlier=True)
    assert [one.invitation_id for one in invitations(consortium.lead)] == [second.invitation_id]
    join(consortium.hospital, first)
    with pytest.raises(InvitationError, match="was used or withdrawn"):
        approve_pending(consortium.lead, PASSPHRASE)


def test_an_invitation_that_has_expired_takes_no_name(consortium: Consortium) -> None:
    invite(consortium.lead, HOSPITAL)
    consortium.clock.forward(15 * 86400)
    assert invite(consortium.lead, HOSPITAL).party == HOSPITAL
    assert len(invitations(consortium.lead)) == 1


def test_a_name_that_was_certified_is_given_again_on_purpose_only(consortium: Consortium) -> None:
    consortium.until_joined()
    revoke(consortium.lead, HOSPITAL, PASSPHRASE)
    with pytest.raises(InputError, match="had a certificate before, now revoked"):
        invite(consortium.lead, HOSPITAL)
    assert invite(consortium.lead, HOSPITAL, replace_earlier=True).party == HOSPITAL


def test_revoking_withdraws_the_invitations_that_were_not_used(consortium: Consortium) -> None:
    join(consortium.hospital, invite(consortium.lead, HOSPITAL))
    assert revoke(consortium.lead, HOSPITAL, "not needed").invitations == 1
    assert invitations(consortium.lead) == []
    with pytest.raises(InvitationError, match="was used or withdrawn"):
        approve_pending(consortium.lead, PASSPHRASE)


def test_what_was_looked_at_is_what_is_signed(consortium: Consortium) -> None:
    join(consortium.hospital, invite(consortium.lead, HOSPITAL))
    waiting, refused = waiting_requests(consortium.lead)
    assert [(one.identity.name, one.kind, one.hosts, one.since) for one in waiting] == [
        (HOSPITAL, "invitation", (), NOW)
    ]
    assert refused == []
    later = consortium.session("hospital-b")
    join(later, invite(consortium.lead, "hospital-b"))
    (approved,) = approve_waiting(consortium.lead, waiting, unlock_root(consortium.lead, PASSPHRASE))
    assert public_key(approved.certificate) == consortium.hospital.home.key().public_key()
    assert join(later, None) is None


def test_the_lead_lists_members_and_open_invitations(consortium: Consortium) -> None:
    consortium.until_joined()
    invite(consortium.lead, "hospital-b")
    assert [member.identity.name for member in members(consortium.lead)] == ["analyst", HOSPITAL, LEAD]
    assert [invitation.party for invitation in invitations(consortium.lead)] == ["hospital-b"]
    shown = {fingerprint(member.certificate) for member in members(consortium.lead)}
    assert fingerprint(consortium.hospital.home.certificate()) in shown


@pytest.mark.parametrize("data", [b"-----BEGIN X509 CRL-----\nnothing", b"nothing"])
def test_a_file_that_is_no_list_is_refused_and_nothing_kept(consortium: Consortium, data: bytes) -> None:
    consortium.until_joined()
    with pytest.raises(CertificateRefusedError, match="cannot be read"):
        update_revocations(consortium.hospital, data)
    assert not consortium.hospital.home.revocations_path.exists()
