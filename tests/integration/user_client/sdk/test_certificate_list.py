"""Every member can look for its own name among the certificates that the analyst knows of."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import pack_list
from protocol.envelope import decode_stored, sign
from protocol.errors import CertificateRefusedError
from protocol.identity import Identity
from protocol.messages import Acceptance
from tests.harness.certificates import shared_root
from tests.harness.in_process import HOSPITAL, LEAD, PASSPHRASE, Consortium, answer_instead
from user_client.sdk import analyst_key, list_certificates, revoke
from user_client.sdk.consortium import unlock_root


def names(consortium: Consortium) -> list[tuple[str, str, bool | None]]:
    found = list_certificates(consortium.hospital)
    return [(one.member.identity.name, one.member.state, one.is_expected) for one in found]


def test_the_list_has_whom_the_lead_certified_through_the_analyst_and_who_signed(
    consortium: Consortium,
) -> None:
    consortium.until_joined()
    assert names(consortium) == [("analyst", "valid", None), (HOSPITAL, "valid", True)]
    consortium.publish()
    for session in consortium.sessions:
        session.round(consortium.id).accept()
    assert names(consortium) == [
        ("analyst", "valid", True),
        (HOSPITAL, "valid", True),
        (LEAD, "valid", None),
    ]


def test_an_institution_finds_its_impostor(consortium: Consortium) -> None:
    """The lead certifies a key of its own in our name, and signs with it in a round of ours."""
    consortium.until_joined().publish()
    consortium.hospital_round.accept()
    key = ec.generate_private_key(ec.SECP256R1())
    name = Identity(consortium.lead.membership.consortium_id, "institution", HOSPITAL)
    issued = unlock_root(consortium.lead, PASSPHRASE).issue(key.public_key(), name, now=consortium.clock())
    with consortium.analyst.records.begin(write=True) as unit:
        member = unit.member(consortium.id, HOSPITAL)
        assert member is not None
        assert member.acceptance is not None
        member.acceptance = sign(decode_stored(Acceptance, member.acceptance), key, issued)
    assert (HOSPITAL, "valid", False) in names(consortium)
    assert (HOSPITAL, "valid", True) in names(consortium)


def test_a_second_analyst_is_not_the_expected_one(consortium: Consortium) -> None:
    consortium.until_joined()
    analyst_key.believe(consortium.hospital.home, "0" * 64)
    assert names(consortium)[0] == ("analyst", "valid", False)


def test_a_revoked_certificate_is_listed_as_such(consortium: Consortium) -> None:
    consortium.until_joined()
    revoke(consortium.lead, "analyst", PASSPHRASE)
    found = list_certificates(consortium.lead)
    assert [one.member.state for one in found if one.member.identity.role == "analyst"] == ["revoked"]


def test_a_certificate_of_another_root_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_joined()
    answer_instead(
        monkeypatch, consortium.hospital, pack_list([shared_root().certificate.public_bytes(Encoding.DER)])
    )
    with pytest.raises(CertificateRefusedError):
        list_certificates(consortium.hospital)
