from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.envelope import join_mac, sign, verify
from protocol.errors import CertificateRefusedError, InvitationError
from protocol.identity import fingerprint
from protocol.invitation import Invitation, is_analyst_url
from protocol.limits import MAX_MESSAGE_BYTES
from protocol.messages import InvitationTicket
from tests.harness import certificates as fakes

TICKET = InvitationTicket(
    consortium_id=fakes.CONSORTIUM_ID,
    invitation_id="f" * 32,
    role="institution",
    party="hospital-b",
    expires_at=fakes.NOW + 1000,
)


def make(**changes: Any) -> Invitation:
    root, lead = fakes.shared_root(), fakes.shared_member("lead", "hospital-a")
    fields: dict[str, Any] = {
        "consortium": "Northern hospitals",
        "consortium_id": fakes.CONSORTIUM_ID,
        "role": "institution",
        "party": "hospital-b",
        "analyst_url": "https://analyst.example:8443",
        "invitation_id": TICKET.invitation_id,
        "join_secret": "5e" * 32,
        "expires_at": TICKET.expires_at,
        "root_fingerprint": fingerprint(root.certificate),
        "root_certificate": root.pem.decode(),
        "ticket": base64.b64encode(sign(TICKET, lead.key, lead.certificate)).decode(),
    }
    return Invitation(**{**fields, **changes})


def test_an_invitation_comes_back_from_its_file() -> None:
    invitation = make()
    assert Invitation.from_json(invitation.to_json()) == invitation


def test_the_repr_of_an_invitation_shows_no_secret() -> None:
    shown = repr(make())
    assert "5e5e" not in shown
    assert "ticket" not in shown


def test_an_invitation_carries_the_root_to_trust() -> None:
    assert make().trust_root().certificate == fakes.shared_root().certificate


def test_the_answer_has_the_ticket_the_new_key_and_a_mac_of_both() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    enrolment = make().answer(key)
    ticket = verify(InvitationTicket, enrolment.ticket, fakes.shared_root().trust_root, at=fakes.NOW)
    assert ticket.message == TICKET
    csr = x509.load_der_x509_csr(enrolment.csr)
    assert csr.is_signature_valid
    assert csr.public_key() == key.public_key()
    assert enrolment.mac == join_mac(b"\x5e" * 32, enrolment.ticket, enrolment.csr)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "not json", "[" * 100_000, " " * (MAX_MESSAGE_BYTES + 1)],
    ids=["empty", "no fields", "a list", "no json", "deep", "large"],
)
def test_another_file_is_no_invitation(text: str) -> None:
    with pytest.raises(InvitationError):
        Invitation.from_json(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("odc_invitation", 2),
        ("party", "Hospital B"),
        ("role", "observer"),
        ("analyst_url", "http://analyst.example"),
        ("analyst_url", "https://analyst.example/path"),
        ("join_secret", "5E" * 32),
        ("join_secret", "5e" * 31),
        ("extra", 1),
    ],
)
def test_a_file_with_a_wrong_field_is_refused_without_quoting_it(name: str, value: object) -> None:
    text = json.dumps({**json.loads(make().to_json()), name: value})
    with pytest.raises(InvitationError) as caught:
        Invitation.from_json(text)
    assert "5e5e" not in str(caught.value)


@pytest.mark.parametrize("ticket", ["", "not base64!", "ünicode", "AAA"])
def test_a_damaged_ticket_is_said_in_words(ticket: str) -> None:
    with pytest.raises(InvitationError, match="the file is damaged"):
        make(ticket=ticket).answer(ec.generate_private_key(ec.SECP256R1()))


def test_a_root_that_was_exchanged_does_not_fit_its_fingerprint() -> None:
    other = fakes.make_root().pem.decode()
    with pytest.raises(InvitationError, match="its fingerprint is not that of its root"):
        make(root_certificate=other).trust_root()


@pytest.mark.parametrize("label", ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"])
def test_a_second_root_behind_the_one_that_is_compared_is_refused(label: str) -> None:
    second = fakes.make_root().pem.decode().replace("CERTIFICATE", label)
    both = make(root_certificate=fakes.shared_root().pem.decode() + second)
    with pytest.raises(CertificateRefusedError, match="more than one certificate"):
        both.trust_root()


def test_a_root_of_another_consortium_is_refused() -> None:
    with pytest.raises(InvitationError, match="its root is of another consortium"):
        make(consortium_id="f" * 32).trust_root()


@pytest.mark.parametrize("url", ["https://a.example", "https://a.example:8443", "https://[::1]:9/"])
def test_an_address_of_an_analyst_is_https_with_a_host(url: str) -> None:
    assert is_analyst_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "http://a.example",
        "https://",
        "https://a/x",
        "https://a:99999",
        "https://a:b",
        "https://a b",
    ],
)
def test_another_address_is_none_of_an_analyst(url: str) -> None:
    assert not is_analyst_url(url)
