from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import decode, encode
from protocol.errors import AlreadyExistsError, CertificateRefusedError, InputError, InvitationError
from protocol.messages import Enrolment, InvitationTicket
from protocol.operations import REQUEST_CERTIFICATE, Operation
from tests.harness import certificates as fakes
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, URL, Consortium
from user_client.errors import NotJoinedError, PassphraseError
from user_client.sdk import (
    Session,
    approve_pending,
    approve_request,
    create_consortium,
    invitations,
    invite,
    invite_all,
    join,
    revoke,
)
from user_client.sdk.certificate_requests import check_request
from user_client.sdk.consortium import INVITATION_VALIDITY_S
from user_client.transport import AnalystConnection


def founded(tmp_path: Path, consortium: Consortium, **changed: Any) -> None:
    values = {"name": "Other", "party": LEAD, "analyst_url": URL, "passphrase": PASSPHRASE}
    create_consortium(Session(tmp_path / "other", consortium.clock), **{**values, **changed})


# founding


def test_the_founder_is_the_lead(consortium: Consortium) -> None:
    assert consortium.lead.membership.role == "lead"
    assert consortium.lead.membership.party == LEAD


def test_the_root_key_lies_locked(consortium: Consortium) -> None:
    assert (consortium.lead.home.consortium_path / "root.locked").read_bytes().startswith(b"odc-scrypt")


def test_a_directory_that_belongs_to_a_consortium_founds_no_other(consortium: Consortium) -> None:
    with pytest.raises(InputError, match="belongs to a consortium already"):
        create_consortium(consortium.lead, name="N", party=LEAD, analyst_url=URL, passphrase=PASSPHRASE)


@pytest.mark.parametrize(
    "changed",
    [
        {"passphrase": "short"},
        {"party": "Not A Name"},
        {"party": "-x"},
        {"analyst_url": "http://analyst:8443"},
        {"analyst_url": "analyst:8443"},
        {"analyst_url": "https://"},
    ],
    ids=str,
)
def test_a_wrong_name_address_or_passphrase_founds_nothing(
    tmp_path: Path, consortium: Consortium, changed: dict[str, str]
) -> None:
    with pytest.raises(InputError):
        founded(tmp_path, consortium, **changed)
    assert not Session(tmp_path / "other").is_joined()


# inviting


def test_an_invitation_says_who_may_join_and_where(consortium: Consortium) -> None:
    found = consortium.invitation()
    assert (found.party, found.role, found.analyst_url) == (HOSPITAL, "institution", URL)
    assert found.expires_at == consortium.clock() + INVITATION_VALIDITY_S


def test_two_invitations_have_two_secrets(consortium: Consortium) -> None:
    assert consortium.invitation().join_secret != consortium.invitation().join_secret


def test_only_the_lead_invites(consortium: Consortium) -> None:
    consortium.until_joined()
    with pytest.raises(NotJoinedError, match="not the lead"):
        invite(consortium.hospital, "hospital-b")


def test_many_are_invited_at_once(consortium: Consortium) -> None:
    names = [f"clinic-{number}" for number in range(5)]
    found = invite_all(consortium.lead, names)
    assert [one.party for one in found] == names
    assert len({one.join_secret for one in found}) == len(names)
    assert {one.invitation_id for one in invitations(consortium.lead)} >= {one.invitation_id for one in found}


def test_who_is_invited_again_among_others_keeps_the_invitation(consortium: Consortium) -> None:
    first = consortium.invitation("clinic-b")
    again = invite_all(consortium.lead, ["clinic-a", "clinic-b"])[1]
    assert again == first
    consortium.clock.forward(15 * 24 * 3600)
    assert invite_all(consortium.lead, ["clinic-b"])[0].join_secret != first.join_secret


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("clinic-a", "twice"),
        (LEAD, "no new institution"),
        ("analyst", "no new institution"),
        (HOSPITAL, "valid certificate already"),
        ("No Name", "party"),
    ],
)
def test_of_many_names_none_is_invited_if_one_is_refused(
    consortium: Consortium, name: str, says: str
) -> None:
    consortium.until_joined()
    with pytest.raises(InputError, match=says):
        invite_all(consortium.lead, ["clinic-a", "clinic-b", name])
    assert [one.party for one in invitations(consortium.lead) if one.party.startswith("clinic")] == []


def test_a_party_with_a_wrong_name_is_not_invited(consortium: Consortium) -> None:
    with pytest.raises(InputError):
        consortium.invitation("Hospital A")


# joining


def test_who_was_approved_is_a_member(consortium: Consortium) -> None:
    consortium.until_joined()
    assert consortium.hospital.membership.party == HOSPITAL
    assert consortium.hospital.membership.consortium_id == consortium.lead.membership.consortium_id


def test_who_was_not_approved_waits(consortium: Consortium) -> None:
    waits: list[float] = []
    assert join(consortium.hospital, consortium.invitation(), wait_s=3, pause=waits.append) is None
    assert sum(waits) == 3
    assert not consortium.hospital.is_joined()


def test_who_waits_for_an_hour_asks_some_twenty_times(consortium: Consortium) -> None:
    waits: list[float] = []
    assert join(consortium.hospital, consortium.invitation(), wait_s=3600, pause=waits.append) is None
    assert len(waits) <= 25


def test_who_waits_is_let_in_once_approved(consortium: Consortium) -> None:
    def approve(_seconds: float) -> None:
        approve_pending(consortium.lead, PASSPHRASE)

    assert join(consortium.hospital, consortium.invitation(), wait_s=3, pause=approve) is not None


def test_our_key_can_be_compared_while_we_wait(consortium: Consortium) -> None:
    happened: list[str] = []

    def asked() -> None:
        assert consortium.hospital.home.key() is not None
        happened.append("asked")

    invitation = consortium.invitation()
    join(consortium.hospital, invitation, wait_s=1, pause=lambda _s: happened.append("wait"), asked=asked)
    assert happened[:2] == ["asked", "wait"]


def test_a_directory_of_one_institution_joins_as_no_other(consortium: Consortium) -> None:
    consortium.until_joined()
    with pytest.raises(InvitationError, match=f"belongs to {HOSPITAL}") as refused:
        join(consortium.hospital, consortium.invitation("hospital-b"))
    assert "--home" in refused.value.hint


def test_an_invitation_is_not_taken_for_a_request(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    with pytest.raises(InputError, match="is an invitation") as refused:
        check_request(consortium.lead, invitation.to_json().encode())
    assert "analyst-request.odc" in refused.value.hint


def test_the_secret_of_the_invitation_is_erased_after_joining(consortium: Consortium) -> None:
    consortium.until_joined()
    assert not consortium.hospital.home.invitation_path.exists()
    assert not (consortium.hospital.home.path / "request.odc").exists()


def test_joining_again_shows_the_membership(consortium: Consortium) -> None:
    consortium.until_joined()
    assert join(consortium.hospital, None) == consortium.hospital.membership


def test_joining_again_keeps_the_request(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    join(consortium.hospital, invitation)
    join(consortium.hospital, invitation)
    assert len(approve_pending(consortium.lead, PASSPHRASE)) == 1


def test_a_new_invitation_takes_the_place_of_one_that_expired(consortium: Consortium) -> None:
    join(consortium.hospital, consortium.invitation())
    consortium.clock.forward(INVITATION_VALIDITY_S)
    assert join(consortium.hospital, consortium.invitation()) is None
    request = consortium.hospital.home.path / "request.odc"
    found = decode(Enrolment, request.read_bytes())
    approved = approve_request(consortium.lead, encode(found), PASSPHRASE)
    assert approved.identity.name == HOSPITAL


def test_an_invitation_joins_one_key(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    join(consortium.hospital, invitation)
    with pytest.raises(AlreadyExistsError) as caught:
        join(consortium.session("thief"), invitation)
    assert "somebody else has it: telephone the lead institution" in caught.value.hint


def test_an_expired_invitation_is_refused(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    consortium.clock.forward(INVITATION_VALIDITY_S)
    with pytest.raises(InvitationError, match="expired"):
        join(consortium.hospital, invitation)


@pytest.mark.parametrize("label", ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"])
def test_only_the_certificate_with_the_fingerprint_of_an_invitation_is_trusted(
    consortium: Consortium, label: str
) -> None:
    """TLS would believe a second root behind it, and with that anybody who answers to the analyst's name."""
    good, second = consortium.invitation(), fakes.make_root().pem.decode().replace("CERTIFICATE", label)
    both = good.model_copy(update={"root_certificate": good.root_certificate + second})
    with pytest.raises(CertificateRefusedError, match="more than one certificate"):
        join(consortium.hospital, both)
    assert not consortium.hospital.is_connected()
    assert not consortium.hospital.home.invitation_path.exists()  # nothing was asked, and nothing kept


def test_the_analysts_invitation_is_not_for_an_institution(tmp_path: Path, consortium: Consortium) -> None:
    founded(tmp_path, consortium)
    invitation = invite(Session(tmp_path / "other", consortium.clock), "analyst", role="analyst")
    with pytest.raises(InvitationError, match="odc-analyst join"):
        join(consortium.hospital, invitation)


def test_without_an_invitation_there_is_nothing_to_join(consortium: Consortium) -> None:
    with pytest.raises(NotJoinedError):
        join(consortium.hospital, None)


def test_a_member_of_one_consortium_joins_no_other(tmp_path: Path, consortium: Consortium) -> None:
    consortium.until_joined()
    founded(tmp_path, consortium)
    foreign = invite(Session(tmp_path / "other", consortium.clock), HOSPITAL)
    with pytest.raises(InvitationError, match="belongs to hospital-a of Heart"):
        join(consortium.hospital, foreign)


@pytest.mark.parametrize("which", ["name", "key"])
def test_a_certificate_that_is_not_ours_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    other = consortium.session("hospital-b")
    party = "hospital-b" if which == "name" else HOSPITAL
    ours = consortium.invitation()
    join(other, consortium.invitation(party))
    (issued,) = approve_pending(consortium.lead, PASSPHRASE)
    pem = issued.certificate.public_bytes(Encoding.PEM)
    plain = AnalystConnection.ask_json

    def answer(connection: AnalystConnection, operation: Operation, *sent: Any, **ids: Any) -> Any:
        if operation is REQUEST_CERTIFICATE:
            return {"certificate": pem.decode()}
        return plain(connection, operation, *sent, **ids)

    monkeypatch.setattr(AnalystConnection, "ask_json", answer)
    with pytest.raises(CertificateRefusedError, match=f"for .*{'party' if which == 'name' else 'key'}"):
        join(consortium.hospital, ours)
    assert not consortium.hospital.is_joined()


# approving


def test_without_requests_no_passphrase_is_needed(consortium: Consortium) -> None:
    assert approve_pending(consortium.lead, "wrong") == []


def test_the_passphrase_is_needed_to_approve(consortium: Consortium) -> None:
    join(consortium.hospital, consortium.invitation())
    with pytest.raises(PassphraseError):
        approve_pending(consortium.lead, "wrong")


def test_an_institution_cannot_approve(consortium: Consortium) -> None:
    consortium.until_joined()
    with pytest.raises(NotJoinedError, match="not the lead"):
        approve_request(consortium.hospital, b"", PASSPHRASE)


def test_a_request_without_the_join_secret_is_not_approved(consortium: Consortium) -> None:
    """The analyst knows the ticket; it could make a request with a key of its own."""
    invitation = consortium.invitation()
    forged = invitation.model_copy(update={"join_secret": "00" * 32})
    key = consortium.session("mallory").home.make_key()
    with pytest.raises(InvitationError, match="was not made with its join secret"):
        approve_request(consortium.lead, encode(forged.answer(key)), PASSPHRASE)


def test_a_request_after_the_end_of_its_invitation_is_not_approved(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    request = encode(invitation.answer(consortium.hospital.home.make_key()))
    consortium.clock.forward(INVITATION_VALIDITY_S)
    with pytest.raises(InvitationError, match="has expired"):
        approve_request(consortium.lead, request, PASSPHRASE)


def test_an_invitation_of_somebody_else_is_not_approved(consortium: Consortium) -> None:
    consortium.until_joined()
    invitation = consortium.invitation("hospital-b")
    ticket = InvitationTicket(
        consortium_id=invitation.consortium_id,
        invitation_id=invitation.invitation_id,
        role="institution",
        party="hospital-b",
        expires_at=invitation.expires_at,
    )
    signed = base64.b64encode(consortium.hospital.sign(ticket)).decode()
    forged = invitation.model_copy(update={"ticket": signed})
    key = consortium.session("hospital-b").home.make_key()
    with pytest.raises(InvitationError, match="of another party"):
        approve_request(consortium.lead, encode(forged.answer(key)), PASSPHRASE)


def analyst_request(consortium: Consortium) -> bytes:
    revoke(consortium.lead, "analyst", PASSPHRASE)
    invitation = invite(consortium.lead, "analyst", role="analyst", replace_earlier=True)
    return encode(invitation.answer(consortium.session("another-analyst").home.make_key()))


def test_an_analyst_answers_to_its_address_and_to_the_names_the_lead_adds(consortium: Consortium) -> None:
    request = analyst_request(consortium)
    hosts = ("localhost", "192.0.2.7", "::1")
    issued = approve_request(consortium.lead, request, PASSPHRASE, hosts=hosts).certificate
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["analyst", "localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7", "::1"]


@pytest.mark.parametrize("host", ["", "https://analyst", "analyst:8443", "two words", "-x", "*"])
def test_what_names_no_machine_gets_into_no_certificate(consortium: Consortium, host: str) -> None:
    with pytest.raises(InputError, match="not the name or address"):
        approve_request(consortium.lead, analyst_request(consortium), PASSPHRASE, hosts=[host])


def test_an_institution_gets_no_name_of_a_server(consortium: Consortium) -> None:
    request = encode(consortium.invitation().answer(consortium.hospital.home.make_key()))
    issued = approve_request(consortium.lead, request, PASSPHRASE, hosts=["localhost"]).certificate
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == []


def test_an_invitation_is_open_until_it_is_answered(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    assert [one.party for one in invitations(consortium.lead)] == [HOSPITAL]
    join(consortium.hospital, invitation)
    approve_pending(consortium.lead, PASSPHRASE)
    assert invitations(consortium.lead) == []


def test_the_lead_remembers_its_invitations_in_files_only_it_can_read(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    path = consortium.lead.home.consortium_path / "invitations" / f"{invitation.invitation_id}.json"
    assert path.stat().st_mode & 0o077 == 0
    assert json.loads(path.read_text())["join_secret"] == invitation.join_secret


def test_a_file_that_is_approved_again_gets_the_same_certificate(consortium: Consortium) -> None:
    request = encode(consortium.invitation().answer(consortium.hospital.home.make_key()))
    first, again = (approve_request(consortium.lead, request, PASSPHRASE).certificate for _ in range(2))
    assert first == again


def test_a_used_invitation_is_for_no_other_key(consortium: Consortium) -> None:
    invitation = consortium.invitation()
    for name in (HOSPITAL, "thief"):
        request = encode(invitation.answer(consortium.session(name).home.make_key()))
        if name == HOSPITAL:
            approve_request(consortium.lead, request, PASSPHRASE)
    with pytest.raises(InvitationError, match="was used"):
        approve_request(consortium.lead, request, PASSPHRASE)
