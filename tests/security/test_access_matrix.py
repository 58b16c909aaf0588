"""Every endpoint for every role: who gets an answer, and who gets none.

`MATRIX` is written by hand. An operation of the OpenAPI document without a row here fails the first test,
so a new endpoint needs a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import encode
from protocol.identity import certificate_request
from protocol.lists import pack_list
from protocol.messages import Enrolment, InvitationTicket, Renewal
from protocol.version import MEDIA_TYPE, UPLOAD_MEDIA_TYPE
from tests.fakes import certificates as fakes
from tests.unit.analyst_server.api.client import Api
from tests.unit.analyst_server.services.test_rounds import claim, finish
from tests.unit.analyst_server.world import HOSPITAL, LEAD, World, make_uplink, signed

STRANGER: Final = "hospital-z"
"""Holds a certificate of the consortium, but the terms do not name it."""
CALLERS: Final = {
    "nobody": None,
    "stranger": STRANGER,
    "member": HOSPITAL,
    "lead": LEAD,
    "analyst": "analyst",
}
ANYBODY = frozenset(CALLERS)
CERTIFIED = ANYBODY - {"nobody"}
MEMBERS = frozenset({"member", "lead"})
THE_LEAD = frozenset({"lead"})
REFUSED: Final = (401, 403, 404)
"""404: who may not see a thing learns no more than who asks for one that does not exist."""
INVITATION_ID: Final = "1a" * 16

Ask = Callable[["Scene", str | None], httpx.Request]


@dataclass
class Scene:
    """A released round of two parties, an enrolment that waits, and an upload."""

    world: World
    api: Api
    upload_id: str

    def request(
        self, method: str, path: str, body: bytes = b"", media_type: str = MEDIA_TYPE, **headers: str
    ) -> httpx.Request:
        sent = {
            "content-type": media_type,
            **{key.replace("_", "-"): value for key, value in headers.items()},
        }
        return httpx.Request(method, "https://analyst" + path, content=body, headers=sent)

    def of_round(self, method: str, rest: str = "", body: bytes = b"") -> httpx.Request:
        return self.request(method, f"/v1/collaborations/{self.world.id}{rest}", body)

    def answer(self, caller: str, ask: Ask) -> httpx.Response:
        party = CALLERS[caller]
        client = self.api.as_party(party) if party else self.api.anonymous
        with client:
            return client.send(ask(self, party))


def enrolment() -> bytes:
    key = fakes.shared_member("institution", "hospital-new").key
    ticket = InvitationTicket(
        consortium_id=fakes.CONSORTIUM_ID,
        invitation_id=INVITATION_ID,
        role="institution",
        party="hospital-new",
        expires_at=fakes.NOW + 100,
    )
    csr = certificate_request(key, "hospital-new")
    return encode(Enrolment(ticket=signed(LEAD, ticket), csr=csr, mac=bytes(32)))


def issued() -> bytes:
    return fakes.shared_member("institution", "hospital-new").certificate.public_bytes(Encoding.PEM)


def renewal(party: str | None) -> bytes:
    signer = party or HOSPITAL
    csr = certificate_request(fakes.shared_member("institution", HOSPITAL).key, signer)
    return signed(signer, Renewal(consortium_id=fakes.CONSORTIUM_ID, renewal_id="2b" * 16, csr=csr))


def begin(scene: Scene, party: str | None) -> httpx.Request:
    """The party's own uplink once more: `World.until_sealed` numbers the seeds by party."""
    sender = party if party in scene.world.terms.parties else HOSPITAL
    seed = scene.world.terms.parties.index(sender or HOSPITAL)
    uplink = make_uplink(scene.world.terms, sender or HOSPITAL, seed=seed)
    return scene.of_round("POST", "/uplinks", uplink.body)


def at_the_end(scene: Scene, _party: str | None) -> httpx.Request:
    path = f"/v1/uploads/{scene.upload_id}"
    return scene.request("PATCH", path, media_type=UPLOAD_MEDIA_TYPE, upload_offset="0", upload_complete="?0")


MATRIX: Final[dict[tuple[str, str], tuple[frozenset[str], Ask]]] = {
    ("GET", "/.well-known/odc"): (ANYBODY, lambda s, _: s.request("GET", "/.well-known/odc")),
    ("GET", "/healthz"): (ANYBODY, lambda s, _: s.request("GET", "/healthz")),
    ("POST", "/v1/enrolments"): (ANYBODY, lambda s, _: s.request("POST", "/v1/enrolments", enrolment())),
    ("GET", "/v1/enrolments"): (THE_LEAD, lambda s, _: s.request("GET", "/v1/enrolments")),
    ("GET", "/v1/enrolments/{invitation_id}"): (
        ANYBODY,
        lambda s, _: s.request("GET", f"/v1/enrolments/{INVITATION_ID}"),
    ),
    ("PUT", "/v1/enrolments/{invitation_id}/certificate"): (
        THE_LEAD,
        lambda s, _: s.request("PUT", f"/v1/enrolments/{INVITATION_ID}/certificate", issued()),
    ),
    ("POST", "/v1/renewals"): (CERTIFIED, lambda s, who: s.request("POST", "/v1/renewals", renewal(who))),
    ("PUT", "/v1/revocations"): (
        THE_LEAD,
        lambda s, _: s.request("PUT", "/v1/revocations", fakes.revoke(fakes.shared_root(), number=2)),
    ),
    ("GET", "/v1/revocations"): (ANYBODY, lambda s, _: s.request("GET", "/v1/revocations")),
    ("GET", "/v1/collaborations"): (CERTIFIED, lambda s, _: s.request("GET", "/v1/collaborations")),
    ("GET", "/v1/collaborations/{collaboration_id}"): (MEMBERS, lambda s, _: s.of_round("GET")),
    ("GET", "/v1/collaborations/{collaboration_id}/terms"): (
        MEMBERS,
        lambda s, _: s.of_round("GET", "/terms"),
    ),
    ("PUT", "/v1/collaborations/{collaboration_id}/acceptance"): (
        MEMBERS,
        lambda s, who: s.of_round("PUT", "/acceptance", s.world.acceptance(who or HOSPITAL)),
    ),
    ("GET", "/v1/collaborations/{collaboration_id}/acceptances"): (
        THE_LEAD,
        lambda s, _: s.of_round("GET", "/acceptances"),
    ),
    ("PUT", "/v1/collaborations/{collaboration_id}/anchors"): (
        THE_LEAD,
        lambda s, who: s.of_round(
            "PUT", "/anchors", pack_list([s.world.sealed_anchor(HOSPITAL, by=who or LEAD)])
        ),
    ),
    ("GET", "/v1/collaborations/{collaboration_id}/anchor"): (
        MEMBERS,
        lambda s, _: s.of_round("GET", "/anchor"),
    ),
    ("PUT", "/v1/collaborations/{collaboration_id}/matrix"): (
        THE_LEAD,
        lambda s, _: s.of_round("PUT", "/matrix"),
    ),
    ("GET", "/v1/collaborations/{collaboration_id}/matrix"): (
        MEMBERS,
        lambda s, _: s.of_round("GET", "/matrix"),
    ),
    ("GET", "/v1/collaborations/{collaboration_id}/receipt"): (
        MEMBERS,
        lambda s, _: s.of_round("GET", "/receipt"),
    ),
    ("GET", "/v1/collaborations/{collaboration_id}/downlink"): (
        MEMBERS,
        lambda s, _: s.of_round("GET", "/downlink"),
    ),
    ("GET", "/v1/collaborations/{collaboration_id}/report"): (
        MEMBERS,
        lambda s, _: s.of_round("GET", "/report"),
    ),
    ("POST", "/v1/collaborations/{collaboration_id}/uplinks"): (MEMBERS, begin),
    ("HEAD", "/v1/uploads/{upload_id}"): (
        frozenset({"member"}),
        lambda s, _: s.request("HEAD", f"/v1/uploads/{s.upload_id}"),
    ),
    ("PATCH", "/v1/uploads/{upload_id}"): (frozenset({"member"}), at_the_end),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(Path(tmp_path_factory.mktemp("matrix")))
    made.until_sealed()
    claim(made)
    finish(made)
    yield made
    made.records.dispose()


@pytest.fixture
def scene(world: World) -> Scene:
    """Requests that an earlier cell sent are asked again: every one of them may be repeated."""
    api = Api(world)
    with world.records.begin() as unit:
        upload_id = unit.uplinks_of(world.id, HOSPITAL)[0].id
    with api.as_party(LEAD) as lead, api.anonymous as newcomer:
        made = Scene(world, api, upload_id)
        newcomer.send(made.request("POST", "/v1/enrolments", enrolment()))
        lead.send(made.request("PUT", "/v1/revocations", fakes.revoke(fakes.shared_root(), number=2)))
    return made


def test_every_operation_has_its_row(scene: Scene) -> None:
    operations = {
        (method.upper(), path)
        for path, methods in scene.api.app.openapi()["paths"].items()
        for method in methods
    }
    assert operations == set(MATRIX)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("operation", MATRIX, ids=" ".join)
def test_the_allowed_are_answered_and_no_others(
    scene: Scene, operation: tuple[str, str], caller: str
) -> None:
    allowed, ask = MATRIX[operation]
    answer = scene.answer(caller, ask)
    assert (answer.status_code not in REFUSED) is (caller in allowed), (answer.status_code, answer.text)
    assert answer.status_code < 500


@pytest.mark.parametrize("operation", MATRIX, ids=" ".join)
def test_who_was_revoked_is_refused_everywhere(
    scene: Scene, world: World, operation: tuple[str, str]
) -> None:
    revoked = fakes.shared_member("institution", HOSPITAL).certificate
    held = world.analyst.root.revocations
    try:
        world.analyst.root.adopt(fakes.revoke(fakes.shared_root(), revoked, number=3))
        assert scene.answer("member", MATRIX[operation][1]).status_code == 403
    finally:
        world.analyst.root.revocations = held
