from __future__ import annotations

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server.services import certificates
from protocol.errors import (
    AlreadyExistsError,
    CertificateRefusedError,
    InvitationError,
    LimitExceededError,
    MalformedMessageError,
    NotFoundError,
    NotPermittedError,
)
from protocol.identity import Identity, TrustRoot, load_certificate
from protocol.limits import MAX_PARTIES, MAX_PENDING_ENROLMENTS
from tests.harness import certificates as fakes
from tests.harness.certificates import CONSORTIUM_ID, NOW, issue_for, make_root
from tests.harness.enrolments import INVITATION_ID, certificate, request
from tests.harness.world import HOSPITAL, LEAD, World, identity


def issue(world: World, pem: bytes, *, by: str = LEAD, invitation_id: str = INVITATION_ID) -> None:
    certificates.issue(world.analyst, identity(by), invitation_id, pem)


@pytest.fixture
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def test_a_first_request_is_kept_and_waits(world: World) -> None:
    status, created = certificates.request(world.analyst, request())
    assert (created, status["state"], status["certificate"]) == (True, "pending", None)


def test_the_same_request_again_is_acknowledged_again(world: World) -> None:
    body = request()
    certificates.request(world.analyst, body)
    status, created = certificates.request(world.analyst, body)
    assert (created, status["state"]) == (False, "pending")


def test_a_second_key_for_one_invitation_is_refused(world: World) -> None:
    certificates.request(world.analyst, request())
    with pytest.raises(AlreadyExistsError):
        certificates.request(world.analyst, request())


@pytest.mark.parametrize("by", [HOSPITAL, "analyst"])
def test_a_ticket_that_is_not_the_leads_is_refused(world: World, by: str) -> None:
    with pytest.raises(InvitationError):
        certificates.request(world.analyst, request(by=by))


def test_a_ticket_for_another_consortium_is_refused(world: World) -> None:
    with pytest.raises(InvitationError):
        certificates.request(world.analyst, request(consortium_id="9" * 32))


@pytest.mark.parametrize("late_s", [0, 1])
def test_an_expired_ticket_is_refused(world: World, late_s: int) -> None:
    with pytest.raises(InvitationError, match="expired"):
        certificates.request(world.analyst, request(expires_at=NOW - late_s))


def test_a_request_that_is_no_message_is_refused(world: World) -> None:
    with pytest.raises(MalformedMessageError):
        certificates.request(world.analyst, b"nothing")


def test_requests_beyond_the_limit_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MAX_PENDING_ENROLMENTS", 1)
    certificates.request(world.analyst, request())
    with pytest.raises(LimitExceededError):
        certificates.request(world.analyst, request(invitation_id="2b" * 16, party="hospital-b"))


def test_all_parties_of_the_largest_collaboration_may_wait_at_once() -> None:
    assert MAX_PENDING_ENROLMENTS >= MAX_PARTIES


def test_the_lead_sees_who_waits_with_the_request_as_it_came(world: World) -> None:
    body = request()
    certificates.request(world.analyst, body)
    (row,) = certificates.pending(world.analyst, identity(LEAD))["enrolments"]
    assert (row["party"], row["role"], row["invitation_id"]) == (HOSPITAL, "institution", INVITATION_ID)
    assert base64.b64decode(row["request"]) == body


def test_only_the_lead_sees_who_waits(world: World) -> None:
    with pytest.raises(NotPermittedError):
        certificates.pending(world.analyst, identity(HOSPITAL))


def test_an_issued_certificate_is_shown_to_who_knows_the_invitation(
    world: World, key: ec.EllipticCurvePrivateKey
) -> None:
    certificates.request(world.analyst, request(key))
    pem = certificate(key)
    issue(world, pem)
    shown = certificates.status(world.analyst, INVITATION_ID)
    assert shown["state"] == "issued"
    assert shown["certificate"] is not None
    assert load_certificate(shown["certificate"].encode()) == load_certificate(pem)


def test_a_request_no_longer_waits_once_it_has_its_certificate(
    world: World, key: ec.EllipticCurvePrivateKey
) -> None:
    certificates.request(world.analyst, request(key))
    issue(world, certificate(key))
    assert certificates.pending(world.analyst, identity(LEAD))["enrolments"] == []


def test_only_the_lead_issues(world: World, key: ec.EllipticCurvePrivateKey) -> None:
    certificates.request(world.analyst, request(key))
    with pytest.raises(NotPermittedError):
        issue(world, certificate(key), by=HOSPITAL)


def test_a_certificate_for_another_key_is_refused(world: World, key: ec.EllipticCurvePrivateKey) -> None:
    certificates.request(world.analyst, request())
    with pytest.raises(CertificateRefusedError):
        issue(world, certificate(key))


@pytest.mark.parametrize(("party", "role"), [("hospital-b", "institution"), (HOSPITAL, "analyst")])
def test_a_certificate_for_another_name_or_role_is_refused(
    world: World, key: ec.EllipticCurvePrivateKey, party: str, role: str
) -> None:
    certificates.request(world.analyst, request(key))
    with pytest.raises(CertificateRefusedError):
        issue(world, certificate(key, party, role=role))


def test_a_certificate_of_another_root_is_refused(world: World, key: ec.EllipticCurvePrivateKey) -> None:
    certificates.request(world.analyst, request(key))
    names = [x509.UniformResourceIdentifier(Identity(CONSORTIUM_ID, "institution", HOSPITAL).urn)]
    foreign = issue_for(make_root(), key.public_key(), names)
    with pytest.raises(CertificateRefusedError):
        issue(world, foreign.public_bytes(Encoding.PEM))


def test_an_unknown_invitation_has_no_status(world: World) -> None:
    with pytest.raises(NotFoundError):
        certificates.status(world.analyst, "0" * 32)


def test_a_certificate_for_an_unknown_invitation_is_refused(
    world: World, key: ec.EllipticCurvePrivateKey
) -> None:
    with pytest.raises(NotFoundError):
        issue(world, certificate(key))


# revocation


def revocations(*, number: int = 1) -> bytes:
    return fakes.revoke(fakes.shared_root(), fakes.shared_member().certificate, number=number)


def test_a_list_is_kept_and_shown(world: World) -> None:
    certificates.publish_revocations(world.analyst, identity(LEAD), revocations())
    assert certificates.newest_revocations(world.analyst) == revocations_of(world)


def revocations_of(world: World) -> bytes:
    with world.analyst.records.begin() as unit:
        row = unit.revocations()
    assert row is not None
    return row.der


def test_without_a_list_there_is_none_to_show(world: World) -> None:
    with pytest.raises(NotFoundError):
        certificates.newest_revocations(world.analyst)


def test_a_process_that_starts_again_holds_to_the_newest_list(world: World) -> None:
    for number in (1, 2):
        certificates.publish_revocations(world.analyst, identity(LEAD), revocations(number=number))
    world.analyst.root.revocations = None
    certificates.load_revocations(world.analyst)
    held: TrustRoot = world.analyst.root
    assert held.revocations is not None
    assert held.revocations.number == 2


def test_an_older_list_is_refused_and_the_newer_kept(world: World) -> None:
    certificates.publish_revocations(world.analyst, identity(LEAD), revocations(number=2))
    with pytest.raises(CertificateRefusedError, match="older"):
        certificates.publish_revocations(world.analyst, identity(LEAD), revocations(number=1))
    assert world.analyst.root.revocations is not None
    assert world.analyst.root.revocations.number == 2


def test_of_two_lists_with_one_number_the_first_is_kept(world: World) -> None:
    first, second = revocations(), fakes.revoke(fakes.shared_root(), number=1)
    certificates.publish_revocations(world.analyst, identity(LEAD), first)
    with pytest.raises(CertificateRefusedError, match="another revocation list with the number 1"):
        certificates.publish_revocations(world.analyst, identity(LEAD), second)
    assert revocations_of(world) == certificates.newest_revocations(world.analyst) == first


def test_the_same_list_again_is_acknowledged_again(world: World) -> None:
    published = revocations()
    for _ in range(2):
        certificates.publish_revocations(world.analyst, identity(LEAD), published)
    assert revocations_of(world) == published


@pytest.mark.parametrize("number", [1, 2])
def test_another_process_goes_by_the_list_that_was_kept(world: World, number: int) -> None:
    kept, late = revocations(number=2), fakes.revoke(fakes.shared_root(), number=number)
    other = replace(world.analyst, root=TrustRoot(world.analyst.root.certificate))
    certificates.publish_revocations(world.analyst, identity(LEAD), kept)
    with pytest.raises(CertificateRefusedError):
        certificates.publish_revocations(other, identity(LEAD), late)
    assert certificates.newest_revocations(other) == revocations_of(world) == kept


def test_of_lists_that_come_at_once_the_highest_number_stays(world: World) -> None:
    lists = [revocations(number=number) for number in range(1, 9)]
    come_together = threading.Barrier(len(lists))

    def publish(der: bytes) -> None:
        come_together.wait()
        with suppress(CertificateRefusedError):  # one that is older than what came just before
            certificates.publish_revocations(world.analyst, identity(LEAD), der)

    with ThreadPoolExecutor(len(lists)) as threads:
        list(threads.map(publish, lists))
    assert certificates.newest_revocations(world.analyst) == revocations_of(world) == lists[-1]


@pytest.mark.parametrize("sender", [HOSPITAL, "analyst"])
def test_the_lead_alone_publishes_a_list(world: World, sender: str) -> None:
    with pytest.raises(NotPermittedError):
        certificates.publish_revocations(world.analyst, identity(sender), revocations())
    assert world.analyst.root.revocations is None
