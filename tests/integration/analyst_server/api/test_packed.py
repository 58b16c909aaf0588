"""Answers and requests packed by the coding of a certificate (docs/protocol.md, "Content coding")."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import decode
from protocol.coding import Coding
from protocol.identity import load_certificate
from protocol.ledger import LedgerPage
from protocol.limits import MAX_ANSWER_BYTES, MAX_MESSAGE_BYTES
from protocol.version import MEDIA_TYPE
from tests.harness.app import Api, slug
from tests.harness.certificates import shared_member
from tests.harness.computing import claim, finish
from tests.harness.world import HOSPITAL, LEAD, role_of


def coding_of(party: str) -> Coding:
    pem = shared_member(role_of(party), party).pem
    return Coding.of(load_certificate(pem).public_bytes(Encoding.DER))


@pytest.fixture
def coding(api: Api) -> Coding:
    """The analyst's, as its clients know it from the handshake."""
    return Coding.of(api.world.analyst.certificate.public_bytes(Encoding.DER))


@pytest.fixture
def ready(api: Api) -> Api:
    api.world.until_anchored()
    return api


@pytest.mark.parametrize("what", ["", "/terms", "/anchor"])
def test_an_answer_is_packed_for_who_knows_the_certificate(ready: Api, coding: Coding, what: str) -> None:
    client, address = ready.as_party(HOSPITAL), f"/v1/collaborations/{ready.world.id}{what}"
    plain = client.get(address, headers={"accept-encoding": "identity"})
    packed = client.get(address, headers={"accept-encoding": f"gzip, {coding.name}"})
    assert packed.headers["content-encoding"] == coding.name
    assert int(packed.headers["content-length"]) == len(packed.content) < len(plain.content)
    assert coding.unpack(packed.content, MAX_ANSWER_BYTES) == plain.content


def test_a_ledger_is_packed_to_a_fraction(ready: Api, coding: Coding) -> None:
    client, address = ready.as_party(HOSPITAL), f"/v1/collaborations/{ready.world.id}/ledger"
    gzip = client.get(address, headers={"accept-encoding": "gzip"})
    packed = client.get(address, headers={"accept-encoding": coding.name})
    assert len(packed.content) < 0.7 * gzip.num_bytes_downloaded
    unpacked = coding.unpack(packed.content, MAX_ANSWER_BYTES)
    assert decode(LedgerPage, unpacked).entries == decode(LedgerPage, gzip.content).entries


@pytest.mark.parametrize("named", ["gzip", "gzip, odc-00000000", "odc", ""])
def test_who_knows_another_certificate_is_answered_as_ever(ready: Api, coding: Coding, named: str) -> None:
    address = f"/v1/collaborations/{ready.world.id}/terms"
    answer = ready.as_party(HOSPITAL).get(address, headers={"accept-encoding": named})
    assert answer.headers.get("content-encoding") in (None, "gzip")
    assert answer.headers.get("content-encoding") != coding.name


def test_what_would_grow_is_not_packed(api: Api, coding: Coding) -> None:
    answer = api.as_party(HOSPITAL).get("/healthz", headers={"accept-encoding": coding.name})
    assert "content-encoding" not in answer.headers
    assert answer.json() == {"status": "ok"}


def test_a_downlink_is_not_packed(api: Api, coding: Coding) -> None:
    world = api.world.until_sealed()
    assert claim(world) is not None
    finish(world)
    address = f"/v1/collaborations/{world.id}/downlink"
    answer = api.as_party(HOSPITAL).get(address, headers={"accept-encoding": coding.name})
    assert answer.status_code == 200
    assert "content-encoding" not in answer.headers


def packed(api: Api, party: str, body: bytes, by: Coding) -> tuple[int, str | None]:
    """Send an acceptance packed by some coding, as ``party``; return the status and the error."""
    headers = {"content-type": MEDIA_TYPE, "content-encoding": by.name}
    address = f"/v1/collaborations/{api.world.id}/acceptance"
    answer = api.as_party(party).put(address, content=body, headers=headers)
    return answer.status_code, None if answer.is_success else slug(answer)


def test_a_request_may_be_packed_by_the_callers_own_coding(api: Api) -> None:
    world = api.world
    world.publish()
    body, own = world.acceptance(HOSPITAL), coding_of(HOSPITAL)
    assert len(own.pack(body)) < len(body) / 2
    assert packed(api, HOSPITAL, own.pack(body), own) == (204, None)
    with world.records.begin() as unit:
        member = unit.member(world.id, HOSPITAL)
        assert member is not None
        assert member.acceptance == body


def test_a_request_is_not_packed_by_the_coding_of_another(api: Api, coding: Coding) -> None:
    api.world.publish()
    body = api.world.acceptance(HOSPITAL)
    for other in (coding_of(LEAD), coding):
        assert packed(api, HOSPITAL, other.pack(body), other) == (400, "malformed-message")


def test_what_a_request_unpacks_to_is_bounded(api: Api) -> None:
    api.world.publish()
    own = coding_of(HOSPITAL)
    body = own.pack(bytes(MAX_MESSAGE_BYTES + 1))
    assert len(body) < 10_000
    assert packed(api, HOSPITAL, body, own) == (413, "limit-exceeded")
    assert packed(api, HOSPITAL, body[:-1], own)[0] in (400, 413)
    assert packed(api, HOSPITAL, b"\xff", own) == (400, "malformed-message")
