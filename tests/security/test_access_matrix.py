"""Every operation for every role: who gets an answer, and who gets none.

Who may call is derived from the table of operations; docs/protocol.md says the same in words. An operation
without a body is asked by its address; the requests of all others are written by hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server.services import api_tokens, prepare
from protocol import operations
from protocol.codec import encode, pack_list
from protocol.identity import certificate_request
from protocol.messages import Enrolment, InvitationTicket, Renewal
from protocol.operations import OPERATIONS, READINESS, Caller, Operation, find
from protocol.tokens import Scope, TokenRequest, new_token, token_digest, token_id
from protocol.version import MEDIA_TYPE, UPLOAD_MEDIA_TYPE
from tests.harness import certificates as fakes
from tests.harness.app import Api
from tests.harness.computing import claim, finish
from tests.harness.world import DRAFT, HOSPITAL, LEAD, World, identity, make_terms, make_uplink, signed

STRANGER: Final = "hospital-z"
"""Holds a certificate of the consortium, but the terms do not name it."""
REVOKED: Final = "hospital-y"
ELSEWHERE: Final = "d1" * 16
"""Another round of the same members."""
BY_CERTIFICATE: Final = {
    "stranger": STRANGER,
    "member": HOSPITAL,
    "lead": LEAD,
    "analyst": "analyst",
}


@dataclass(frozen=True)
class TokenCase:
    """A token, and what became of it."""

    owner: str | None
    """None is the analyst's operator."""
    scope: Scope = "read"
    where: Literal["all", "here", "elsewhere"] = "all"
    end: Literal["", "ended", "revoked", "unknown", "certificate revoked"] = ""


BY_TOKEN: Final = {
    "token": TokenCase(HOSPITAL),
    "token for this round": TokenCase(HOSPITAL, where="here"),
    "token for another round": TokenCase(HOSPITAL, where="elsewhere"),
    "token of the lead": TokenCase(LEAD),
    "token of a stranger": TokenCase(STRANGER),
    "ended token": TokenCase(HOSPITAL, end="ended"),
    "revoked token": TokenCase(HOSPITAL, end="revoked"),
    "unknown token": TokenCase(HOSPITAL, end="unknown"),
    "token of a revoked member": TokenCase(REVOKED, end="certificate revoked"),
    "operator's reading token": TokenCase(None),
    "operator's token": TokenCase(None, "manage"),
    "operator's token for this round": TokenCase(None, "manage", where="here"),
    "operator's token for another round": TokenCase(None, "manage", where="elsewhere"),
    "operator's ended token": TokenCase(None, "manage", end="ended"),
    "operator's revoked token": TokenCase(None, "manage", end="revoked"),
}
ANYBODY = frozenset({"nobody", *BY_CERTIFICATE, *BY_TOKEN})
CERTIFIED = frozenset(BY_CERTIFICATE)
MEMBERS = frozenset({"member", "lead"})
GOOD_TOKENS = frozenset(name for name, case in BY_TOKEN.items() if not case.end)
MANAGERS = frozenset({"operator's token", "operator's token for this round"})
READERS = MANAGERS | {"token", "token for this round", "token of the lead", "operator's reading token"}
"""Tokens that see this round."""
ALLOWED: Final = {
    Caller.ANYBODY: ANYBODY,
    Caller.CERTIFIED: CERTIFIED,
    Caller.INSTITUTION: CERTIFIED - {"analyst"},
    Caller.LEAD: frozenset({"lead"}),
    Caller.MEMBER: MEMBERS,
    Caller.OWNER: frozenset({"member"}),  # whose upload and token they are
    Caller.LISTER: CERTIFIED | GOOD_TOKENS,
    Caller.READER: MEMBERS | READERS,
    Caller.OPERATOR: MANAGERS,
}
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
    tokens: dict[str, str]

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
        party = BY_CERTIFICATE.get(caller)
        client = self.api.as_party(party) if party else self.api.anonymous
        if caller in BY_TOKEN:  # with the body of a member, so that nothing but the token is in the way
            party = HOSPITAL
        request = ask(self, party)
        if caller in BY_TOKEN:
            request.headers["authorization"] = f"Bearer {self.tokens[caller]}"
        with client:
            return client.send(request)


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


@cache
def revocations() -> bytes:
    """One list: another with its number would be refused."""
    gone = fakes.shared_member("institution", REVOKED).certificate
    return fakes.revoke(fakes.shared_root(), gone, number=2)


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


def make_token(scene: Scene, party: str | None) -> httpx.Request:
    digest = hashlib.sha256((party or "nobody").encode()).hexdigest()
    body = json.dumps({"digest": digest, "expires_at": fakes.NOW + 100}).encode()
    return scene.request("POST", "/v1/tokens", body, "application/json")


def given(world: World, case: TokenCase) -> str:
    """Make a token as its owner would, and let happen to it what became of it."""
    token = new_token()
    if case.end == "unknown":
        return token
    asked = TokenRequest(
        digest=token_digest(token),
        collaboration_id={"all": None, "here": world.id, "elsewhere": ELSEWHERE}[case.where],
        expires_at=world.clock() + (1 if case.end == "ended" else 1000),
    )
    owner = identity(case.owner) if case.owner else None
    if owner:
        api_tokens.create(world.analyst, owner, fakes.shared_member(owner.role, owner.name).pem, asked)
    else:
        api_tokens.create_for_operator(world.analyst, asked, case.scope)
    if case.end == "revoked":
        api_tokens.revoke(world.analyst, owner, token_id(token_digest(token)))
    return token


def plain(operation: Operation) -> Ask:
    """Ask with nothing but the address: what an operation without a body takes."""

    def ask(scene: Scene, _party: str | None) -> httpx.Request:
        path = operation.url(
            collaboration_id=scene.world.id,
            upload_id=scene.upload_id,
            invitation_id=INVITATION_ID,
            party=HOSPITAL,
            slug="not-found",
            token_id=token_id(token_digest(scene.tokens["revoked token"])),
        )
        return scene.request(operation.method, path)

    return ask


REQUESTS: Final[dict[Operation, Ask]] = {
    **{operation: plain(operation) for operation in OPERATIONS if operation.body is None},
    operations.REQUEST_CERTIFICATE: lambda s, _: s.request("POST", "/v1/enrolments", enrolment()),
    operations.ISSUE_CERTIFICATE: lambda s, _: s.request(
        "PUT", f"/v1/enrolments/{INVITATION_ID}/certificate", issued()
    ),
    operations.REJECT_CERTIFICATE_REQUEST: lambda s, _: s.request(
        "PUT", f"/v1/enrolments/{INVITATION_ID}/rejection", b'{"reason": "no"}', "application/json"
    ),
    operations.REQUEST_RENEWAL: lambda s, who: s.request("POST", "/v1/renewals", renewal(who)),
    operations.PUBLISH_REVOCATIONS: lambda s, _: s.request("PUT", "/v1/revocations", revocations()),
    operations.ACCEPT_TERMS: lambda s, who: s.of_round(
        "PUT", "/acceptance", s.world.acceptance(who or HOSPITAL)
    ),
    operations.REJECT_TERMS: lambda s, _: s.request(
        "PUT", f"/v1/collaborations/{s.world.id}/rejection", b'{"reason": "no"}', "application/json"
    ),
    operations.PUBLISH_ANCHOR: lambda s, who: s.of_round(
        "PUT", "/anchors", pack_list([s.world.sealed_anchor(HOSPITAL, by=who or LEAD)])
    ),
    operations.PUBLISH_ANCHOR_MATRIX: lambda s, _: s.of_round("PUT", "/matrix"),
    operations.BEGIN_UPLINK: begin,
    operations.APPEND: at_the_end,
    operations.SEND_SEEN_LEDGER: lambda s, who: s.of_round(
        "PUT", "/seen", s.world.seen_ledger(who or HOSPITAL)
    ),
    operations.SEND_SCORE: lambda s, who: s.of_round("PUT", "/score", s.world.score(who or HOSPITAL)),
    operations.CREATE_TOKEN: make_token,
    operations.PUBLISH_TERMS: lambda s, _: s.of_round("PUT", "", json.dumps(DRAFT).encode()),
}
"""An operation with a body needs its row here: what it carries is part of who may send it."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(Path(tmp_path_factory.mktemp("matrix")))
    made.until_sealed(make_terms(returns_scores=True))
    claim(made)
    finish(made)
    prepare.create(made.analyst, make_terms(collaboration_id=ELSEWHERE))
    yield made
    made.records.dispose()


@pytest.fixture(scope="module")
def given_tokens(world: World) -> dict[str, str]:
    made = {name: given(world, case) for name, case in BY_TOKEN.items()}
    world.clock.forward(1)
    return made


@pytest.fixture(scope="module")
def scene(world: World, given_tokens: dict[str, str]) -> Scene:
    """Requests that an earlier cell sent are asked again: every one of them may be repeated."""
    api = Api(world)
    with world.records.begin() as unit:
        upload_id = unit.uplinks_of(world.id, HOSPITAL)[0].id
    with api.as_party(LEAD) as lead, api.anonymous as newcomer:
        made = Scene(world, api, upload_id, given_tokens)
        newcomer.send(made.request("POST", "/v1/enrolments", enrolment()))
        lead.send(made.request("PUT", "/v1/revocations", revocations()))
    return made


def test_every_operation_has_its_request(scene: Scene) -> None:
    served = {
        (method.upper(), path)
        for path, methods in scene.api.app.openapi()["paths"].items()
        for method in methods
    }
    assert {(operation.method, operation.path) for operation in REQUESTS} == served
    assert set(REQUESTS) == set(OPERATIONS)
    for operation, ask in REQUESTS.items():
        request = ask(scene, HOSPITAL)
        found = find(request.method, request.url.path)
        assert found is not None
        assert found[0] is operation


@pytest.mark.parametrize("caller", sorted(ANYBODY))
@pytest.mark.parametrize("operation", REQUESTS, ids=lambda one: one.name)
def test_the_allowed_are_answered_and_no_others(scene: Scene, operation: Operation, caller: str) -> None:
    answer = scene.answer(caller, REQUESTS[operation])
    is_allowed = caller in ALLOWED[operation.caller]
    assert (answer.status_code not in REFUSED) is is_allowed, (answer.status_code, answer.text)
    is_not_ready = operation is READINESS and answer.status_code == 503  # no worker runs here
    assert answer.status_code < 500 or is_not_ready


@pytest.mark.parametrize("operation", REQUESTS, ids=lambda one: one.name)
def test_who_was_revoked_is_refused_everywhere(scene: Scene, world: World, operation: Operation) -> None:
    revoked = fakes.shared_member("institution", HOSPITAL).certificate
    held = world.analyst.root.revocations
    try:
        world.analyst.root.adopt(fakes.revoke(fakes.shared_root(), revoked, number=3))
        assert scene.answer("member", REQUESTS[operation]).status_code == 403
    finally:
        world.analyst.root.revocations = held
