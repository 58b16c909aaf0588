"""One open request of a party, in pages, each with an answer: no member keeps the others from joining."""

from __future__ import annotations

from itertools import count

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from analyst_server.services import certificates
from protocol.errors import AlreadyExistsError, MalformedMessageError, NotFoundError, NotPermittedError
from protocol.identity import certificate_request
from protocol.limits import MAX_CHAIN_CERTIFICATE_BYTES
from protocol.messages import Renewal
from tests.harness import certificates as fakes
from tests.harness.certificates import CONSORTIUM_ID
from tests.harness.enrolments import INVITATION_ID, certificate, request
from tests.harness.statements import statements
from tests.harness.world import HOSPITAL, LEAD, World, identity, signed

REASON = b'{"reason": "your PKI has revoked the key"}'
_numbers = count(1)


def renewal_id() -> str:
    return f"{next(_numbers):032x}"


def renew(
    world: World, party: str = HOSPITAL, *, found: str | None = None, chain: tuple[bytes, ...] = ()
) -> str:
    """Ask for a new certificate, and return the id of the request."""
    found = found or renewal_id()
    key = fakes.shared_member("institution", party).key
    message = Renewal(
        consortium_id=CONSORTIUM_ID, renewal_id=found, csr=certificate_request(key, party), chain=chain
    )
    certificates.request_renewal(world.analyst, identity(party), signed(party, message))
    return found


def waiting(world: World) -> list[str]:
    """Return the ids of all requests that wait, page by page."""
    found, after = list[str](), ""
    while True:
        page = certificates.pending(world.analyst, identity(LEAD), after)
        found += [row["invitation_id"] for row in page["enrolments"]]
        if page["next"] is None:
            return found
        after = page["next"]


def test_a_new_request_of_a_party_replaces_its_open_one(world: World) -> None:
    first, second = renew(world), renew(world)
    assert waiting(world) == [second]
    with pytest.raises(NotFoundError):
        certificates.status(world.analyst, first)


def test_a_new_request_of_a_party_replaces_none_of_another(world: World) -> None:
    other = renew(world, "hospital-b")
    own = renew(world)
    assert sorted(waiting(world)) == sorted([other, own])


def test_a_certificate_that_was_issued_stays_when_its_party_asks_again(world: World) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificates.request(world.analyst, request(key))
    certificates.issue(world.analyst, identity(LEAD), INVITATION_ID, certificate(key))
    renew(world)
    assert certificates.status(world.analyst, INVITATION_ID)["state"] == "issued"


def test_no_member_can_make_the_list_too_long_for_the_lead(world: World) -> None:
    """Four hundred renewals of the largest size once were an answer of 70 MB, which no lead takes."""
    chain = (bytes(MAX_CHAIN_CERTIFICATE_BYTES),) * 4
    for _ in range(400):
        last = renew(world, chain=chain)
    page = certificates.pending(world.analyst, identity(LEAD))
    assert [row["invitation_id"] for row in page["enrolments"]] == [last]
    assert page["next"] is None


def test_many_requests_come_in_pages_each_once_and_oldest_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "MOST_OF_A_PAGE", 2)
    ids = []
    for number in range(5):
        ids.append(renew(world, f"hospital-{number}"))
        world.clock.forward(number % 2)  # some in the same second
    assert waiting(world) == ids


def test_a_page_ends_where_a_message_would_be_full(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MAX_MESSAGE_BYTES", 1)
    ids = [renew(world, f"hospital-{number}") for number in range(3)]
    page = certificates.pending(world.analyst, identity(LEAD))
    assert len(page["enrolments"]) == 1
    assert waiting(world) == ids


@pytest.mark.parametrize("after", ["x", "1-2", f"-{'0' * 32}", f"9999999999999-{'0' * 32}"])
def test_a_place_that_no_page_has_named_is_refused(world: World, after: str) -> None:
    with pytest.raises(MalformedMessageError):
        certificates.pending(world.analyst, identity(LEAD), after)


# rejection


def test_the_party_that_asked_reads_why_the_lead_rejects(world: World) -> None:
    found = renew(world)
    certificates.reject(world.analyst, identity(LEAD), found, REASON)
    shown = certificates.status(world.analyst, found)
    assert (shown["state"], shown["reason"]) == ("rejected", "your PKI has revoked the key")
    assert waiting(world) == []


def test_a_rejected_request_sent_again_stays_rejected(world: World) -> None:
    body = request()
    certificates.request(world.analyst, body)
    certificates.reject(world.analyst, identity(LEAD), INVITATION_ID, REASON)
    status, is_new = certificates.request(world.analyst, body)
    assert (status["state"], is_new) == ("rejected", False)


def test_a_party_may_ask_again_after_a_rejection(world: World) -> None:
    certificates.reject(world.analyst, identity(LEAD), renew(world), REASON)
    again = renew(world)
    assert waiting(world) == [again]


def test_a_request_with_a_certificate_cannot_be_rejected(world: World) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificates.request(world.analyst, request(key))
    certificates.issue(world.analyst, identity(LEAD), INVITATION_ID, certificate(key))
    with pytest.raises(AlreadyExistsError):
        certificates.reject(world.analyst, identity(LEAD), INVITATION_ID, REASON)


def test_a_rejected_request_can_still_be_issued(world: World) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificates.request(world.analyst, request(key))
    certificates.reject(world.analyst, identity(LEAD), INVITATION_ID, REASON)
    certificates.issue(world.analyst, identity(LEAD), INVITATION_ID, certificate(key))
    assert certificates.status(world.analyst, INVITATION_ID)["reason"] is None


@pytest.mark.parametrize("body", [b"", b"{}", b'{"reason": ""}', b'{"reason": "a\\u001b[2J"}'])
def test_a_rejection_needs_a_reason_that_people_can_read(world: World, body: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        certificates.reject(world.analyst, identity(LEAD), renew(world), body)


def test_the_lead_alone_rejects(world: World) -> None:
    found = renew(world)
    with pytest.raises(NotPermittedError):
        certificates.reject(world.analyst, identity(HOSPITAL), found, REASON)


# revocation


def test_a_revocation_deletes_what_the_revoked_has_asked_for(world: World) -> None:
    other = renew(world, "hospital-b")
    renew(world)
    gone = fakes.shared_member("institution", HOSPITAL).certificate
    certificates.publish_revocations(
        world.analyst, identity(LEAD), fakes.revoke(fakes.shared_root(), gone, number=1)
    )
    assert waiting(world) == [other]


def test_a_page_of_requests_is_read_at_once(world: World) -> None:
    world.enrol(*(f"hospital-{number}" for number in range(20)))
    with statements() as asked:
        page = certificates.pending(world.analyst, identity(LEAD))
    assert len(page["enrolments"]) == 20
    assert sum("FROM enrolments" in statement for statement in asked) == 2
