"""Institutions with a PKI of their own: what they find out at home, and what the lead refuses."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from protocol.codec import decode, encode
from protocol.errors import CertificateRefusedError, InputError, InvitationError
from protocol.identity import public_key, same_key
from protocol.invitation import Invitation
from protocol.messages import Enrolment
from protocol.operations import REQUEST_CERTIFICATE
from protocol.own_pki import NameMapping
from tests.harness.certificates import NOW
from tests.harness.in_process import HOSPITAL, PASSPHRASE, Consortium
from tests.harness.own_pki import HOST, NAME, Ca, issue, make_ca, pem
from user_client.errors import PassphraseError
from user_client.sdk import (
    OwnCertificate,
    approve_pending,
    invite,
    invite_all,
    join,
    members,
    read_authority,
    read_own_certificate,
    read_own_key,
    renew,
    renew_in_time,
)
from user_client.sdk.approval import waiting_requests
from user_client.sdk.certificate_requests import check_request
from user_client.sdk.membership import RENEW_BEFORE_S

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
DAY_S = 24 * 3600


@cache
def root() -> Ca:
    return make_ca("Root CA")


@cache
def issuing() -> Ca:
    return make_ca("Issuing CA", root())


@cache
def stranger() -> Ca:
    return make_ca("Stranger's CA")


def own(key: Any = KEY, **changed: Any) -> OwnCertificate:
    return OwnCertificate(key, (issue(issuing(), key.public_key(), **changed), issuing().der))


def invited(consortium: Consortium, name: str = NAME, party: str = HOSPITAL) -> Invitation:
    mapping = NameMapping(root().certificate, name)
    return invite(consortium.lead, party, replace_earlier=True, mapping=mapping)


def joined(consortium: Consortium) -> Consortium:
    join(consortium.hospital, invited(consortium), own=own())
    approve_pending(consortium.lead, PASSPHRASE)
    join(consortium.hospital, None)
    return consortium


def send_unchecked(consortium: Consortium, *chain: bytes, key: Any = KEY) -> None:
    """What a client may send that does not look at its own certificate."""
    body = encode(invited(consortium).answer(key, chain))
    consortium.lead.connection.ask(REQUEST_CERTIFICATE, body)


def refusal(consortium: Consortium) -> str:
    """Why the lead does not sign the one request that waits."""
    waiting, (reason,) = waiting_requests(consortium.lead)
    assert waiting == []
    with pytest.raises(InvitationError):
        approve_pending(consortium.lead, PASSPHRASE)
    assert HOSPITAL not in {one.identity.name for one in members(consortium.lead)}
    return reason


# joining


def test_the_key_of_the_own_pki_becomes_the_identity_key(consortium: Consortium) -> None:
    joined(consortium)
    assert same_key(public_key(consortium.hospital.home.certificate()), KEY.public_key())
    assert consortium.hospital.membership.certificate_name == NAME


def test_the_lead_sees_what_was_checked(consortium: Consortium) -> None:
    join(consortium.hospital, invited(consortium), own=own())
    ((waiting,), _) = waiting_requests(consortium.lead)
    assert waiting.mapping == NameMapping(root().certificate, NAME)


def test_joining_again_keeps_the_request(consortium: Consortium) -> None:
    invitation, mine = invited(consortium), own()
    join(consortium.hospital, invitation, own=mine)
    join(consortium.hospital, invitation, own=mine)
    join(consortium.hospital, None)
    assert len(approve_pending(consortium.lead, PASSPHRASE)) == 1


def test_an_invitation_that_asks_for_nothing_stays_as_it_was(consortium: Consortium) -> None:
    assert "certificate_name" not in consortium.invitation().to_json()
    assert Invitation.from_json(invited(consortium).to_json()).certificate_name == NAME


def test_the_ca_does_not_travel(consortium: Consortium) -> None:
    assert "Root CA" not in repr(invited(consortium).to_json())
    assert len(invited(consortium).to_json()) < 1.1 * len(consortium.invitation().to_json())


def test_the_analyst_comes_without_a_pki(consortium: Consortium) -> None:
    with pytest.raises(InputError, match="only an institution"):
        invite(
            consortium.lead,
            "analyst",
            role="analyst",
            replace_earlier=True,
            mapping=NameMapping(root().certificate, NAME),
        )


# found at home, before anything is sent


def test_an_invitation_that_asks_for_a_certificate_is_not_answered_without(consortium: Consortium) -> None:
    with pytest.raises(InputError, match=f"asks for the certificate of our own PKI with the name {NAME}"):
        join(consortium.hospital, invited(consortium))
    assert not consortium.hospital.home.key_path.exists()


def test_an_invitation_that_asks_for_none_is_not_answered_with_one(consortium: Consortium) -> None:
    with pytest.raises(InputError, match="does not ask for a certificate"):
        join(consortium.hospital, consortium.invitation(), own=own())
    assert not consortium.hospital.home.key_path.exists()


def test_a_certificate_with_another_name_is_found_at_home(consortium: Consortium) -> None:
    with pytest.raises(InputError, match="does not carry the name that the lead expects"):
        join(consortium.hospital, invited(consortium, "dns:other.example"), own=own())


def test_an_invitation_with_a_name_of_no_known_kind_is_refused(consortium: Consortium) -> None:
    invitation = invited(consortium).model_copy(update={"certificate_name": "ip:10.0.0.1"})
    with pytest.raises(InputError, match="no name in a certificate"):
        join(consortium.hospital, invitation, own=own())


def test_a_certificate_of_another_ca_is_found_at_home(consortium: Consortium) -> None:
    with pytest.raises(InputError, match="does not lead to the CA"):
        join(consortium.hospital, invited(consortium), own=replace(own(), authority=stranger().certificate))


def test_a_certificate_for_another_key_is_found_at_home() -> None:
    with pytest.raises(InputError, match="not for our key"):
        OwnCertificate(OTHER_KEY, own().chain)


def test_a_chain_that_is_too_long_is_found_at_home() -> None:
    with pytest.raises(InputError, match="5 certificates"):
        OwnCertificate(KEY, own().chain + (issuing().der,) * 3)


def test_another_key_does_not_take_the_place_of_ours(consortium: Consortium) -> None:
    join(consortium.hospital, invited(consortium), own=own())
    with pytest.raises(InputError, match="another key already"):
        join(consortium.hospital, invited(consortium), own=own(OTHER_KEY))


# refused by the lead


@pytest.mark.parametrize(
    ("chain", "says"),
    [
        (lambda: (), "does not send the certificate"),
        (lambda: (issue(stranger(), KEY.public_key()),), "does not lead to the CA"),
        (lambda: (issue(issuing(), KEY.public_key()),), "does not lead to the CA"),
        (lambda: own(not_after=NOW - 1).chain, "not valid at validation time"),
        (lambda: own(names=[], subject=HOST).chain, f"does not carry the name {NAME}"),
        (lambda: own(OTHER_KEY).chain, "another key"),
        (lambda: (b"no certificate",), "cannot be read"),
    ],
    ids=["none", "another CA", "a gap", "ended", "another name", "another key", "no certificate"],
)
def test_the_lead_refuses_what_is_not_the_word_of_that_ca(
    consortium: Consortium, chain: Any, says: str
) -> None:
    send_unchecked(consortium, *chain())
    assert says in refusal(consortium)


def test_the_lead_refuses_a_certificate_that_nobody_asked_for(consortium: Consortium) -> None:
    body = encode(consortium.invitation().answer(KEY, own().chain))
    with pytest.raises(CertificateRefusedError, match="no CA and name were given"):
        check_request(consortium.lead, body)


def test_a_chain_that_the_join_secret_does_not_vouch_for_is_refused(consortium: Consortium) -> None:
    sent = invited(consortium).answer(KEY)
    swapped = Enrolment(ticket=sent.ticket, csr=sent.csr, chain=own().chain, mac=sent.mac)
    with pytest.raises(InvitationError, match="was not made with its join secret"):
        check_request(consortium.lead, encode(swapped))


def test_an_invitation_among_many_asks_for_nothing_that_an_expired_one_asked_for(
    consortium: Consortium,
) -> None:
    invited(consortium)
    consortium.clock.forward(15 * DAY_S)
    (invitation,) = invite_all(consortium.lead, [HOSPITAL])
    join(consortium.hospital, invitation)
    assert len(approve_pending(consortium.lead, PASSPHRASE)) == 1


def test_the_next_invitation_says_anew_what_is_asked_for(consortium: Consortium) -> None:
    invited(consortium)
    join(consortium.hospital, consortium.invitation())
    assert len(approve_pending(consortium.lead, PASSPHRASE)) == 1


def test_a_damaged_mapping_is_no_leave_to_sign(consortium: Consortium) -> None:
    send_unchecked(consortium, *own().chain)
    (path,) = consortium.lead.home.consortium_path.glob("mappings/*.json")
    path.write_text("{}")
    assert "it is damaged" in refusal(consortium)


def test_without_its_check_the_lead_would_sign(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NameMapping, "check", lambda *_args, **_named: None)
    send_unchecked(consortium, issue(stranger(), KEY.public_key()))
    assert len(approve_pending(consortium.lead, PASSPHRASE)) == 1


# renewing


def test_a_renewal_brings_the_certificate_that_holds_now(consortium: Consortium) -> None:
    joined(consortium)
    before = consortium.hospital.certificate_ends_in_s()
    consortium.clock.forward(DAY_S)
    fresh = own(not_before=consortium.clock() - DAY_S)
    assert renew(consortium.hospital, own=fresh) is None
    approve_pending(consortium.lead, PASSPHRASE)
    assert renew(consortium.hospital) is not None
    assert consortium.hospital.certificate_ends_in_s() >= before


def test_a_renewal_without_it_is_not_sent(consortium: Consortium) -> None:
    joined(consortium)
    with pytest.raises(InputError, match="requires a certificate from our own PKI again"):
        renew(consortium.hospital)


def test_the_last_month_says_what_to_do(consortium: Consortium, caplog: pytest.LogCaptureFixture) -> None:
    joined(consortium)
    consortium.clock.forward(consortium.hospital.certificate_ends_in_s() - RENEW_BEFORE_S + 1)
    renew_in_time(consortium.hospital)
    assert "odc renew --cert" in caplog.text
    assert waiting_requests(consortium.lead) == ([], [])


def test_the_lead_refuses_a_renewal_without_it(consortium: Consortium) -> None:
    joined(consortium)
    membership = replace(consortium.hospital.membership, certificate_name=None)
    home = consortium.hospital.home
    home.write_membership(membership, home.certificate(), home.root().certificate)
    assert renew(consortium.hospital) is None  # a client that keeps quiet about its PKI
    waiting, (reason,) = waiting_requests(consortium.lead)
    assert waiting == []
    assert "does not send the certificate" in reason


def test_the_lead_refuses_a_renewal_with_one_that_has_ended(consortium: Consortium) -> None:
    joined(consortium)
    consortium.clock.forward(2 * DAY_S)
    renew(consortium.hospital, own=own(not_after=NOW + DAY_S))
    waiting, (reason,) = waiting_requests(consortium.lead)
    assert waiting == []
    assert "not valid at validation time" in reason


# files


def private_pem(key: Any, protection: Any = None) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection or NoEncryption()))


def never() -> str:
    raise AssertionError("nobody is to be asked for a passphrase")


def test_a_key_without_a_passphrase_is_read_without_asking() -> None:
    assert same_key(read_own_key(private_pem(KEY), never).public_key(), KEY.public_key())


def test_a_key_with_a_passphrase_opens_with_it() -> None:
    locked = private_pem(KEY, BestAvailableEncryption(b"open"))
    assert same_key(read_own_key(locked, lambda: "open").public_key(), KEY.public_key())
    with pytest.raises(PassphraseError):
        read_own_key(locked, lambda: "wrong")
    with pytest.raises(PassphraseError):
        read_own_key(locked, lambda: "")


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["RSA", "P-384", "Ed25519"],
)
def test_a_key_of_another_kind_is_refused(key: Any) -> None:
    with pytest.raises(InputError, match="not for ECDSA P-256") as caught:
        read_own_key(private_pem(key), never)
    assert "openssl" in caught.value.hint


def test_files_that_hold_something_else_are_refused() -> None:
    with pytest.raises(InputError, match="no private key"):
        read_own_key(b"text", never)
    with pytest.raises(InputError, match="no certificate"):
        read_own_certificate(b"text", KEY)
    with pytest.raises(InputError, match="no certificate"):
        read_own_certificate(private_pem(KEY), KEY)
    with pytest.raises(InputError, match="expected only that of the CA"):
        read_authority(pem(root().der, issuing().der))


@pytest.mark.parametrize("as_pem", [True, False])
def test_a_chain_is_read_as_it_is_sent(as_pem: bool) -> None:
    leaf = own().chain[0]
    found = read_own_certificate(pem(leaf) if as_pem else leaf, KEY, root().pem)
    assert found.chain == (leaf,)
    assert found.authority == root().certificate
    assert "PrivateKey" not in repr(found)


def test_a_request_carries_the_chain(consortium: Consortium) -> None:
    mine = own()
    join(consortium.hospital, invited(consortium), own=mine)
    sent = decode(Enrolment, (consortium.hospital.home.path / "request.odc").read_bytes())
    assert sent.chain == mine.chain
