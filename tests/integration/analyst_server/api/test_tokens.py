"""Requests with an API token; who may what stands in tests/security/test_access_matrix.py."""

from __future__ import annotations

import json
import logging

import httpx
import pytest

from analyst_server.services import api_tokens
from protocol.codec import decode
from protocol.ledger import LedgerPage
from protocol.operations import OPERATIONS, Caller
from protocol.tokens import TokenRequest, new_token, token_digest, token_id
from tests.harness.app import Api, slug
from tests.harness.certificates import NOW
from tests.harness.computing import claim, finish
from tests.harness.world import DRAFT, HOSPITAL, LEAD, make_terms, make_uplink


@pytest.fixture
def token(api: Api) -> str:
    """A token of the hospital, made over its certificate."""
    drawn = new_token()
    answer = api.as_party(HOSPITAL).post(
        "/v1/tokens", json={"digest": token_digest(drawn), "label": "monitor", "expires_at": NOW + 100}
    )
    assert answer.status_code == 201
    assert answer.json()["token_id"] == token_id(token_digest(drawn))
    assert drawn not in answer.text
    return drawn


def operators(api: Api, scope: str = "manage") -> httpx.Client:
    drawn = new_token()
    request = TokenRequest(digest=token_digest(drawn), expires_at=NOW + 100)
    api_tokens.create_for_operator(api.world.analyst, request, scope)  # type: ignore[arg-type]
    return bearing(api, drawn)


def bearing(api: Api, token: str, scheme: str = "Bearer") -> httpx.Client:
    client = api.anonymous
    client.headers["authorization"] = f"{scheme} {token}"
    return client


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_token_sees_what_its_institution_sees(api: Api, token: str, scheme: str) -> None:
    api.world.publish()
    address = f"/v1/collaborations/{api.world.id}"
    seen = bearing(api, token, scheme).get(address).json()
    assert seen == api.as_party(HOSPITAL).get(address).json()
    assert seen["you"] == {"party": HOSPITAL, "role": "institution"}


def test_a_token_lists_the_rounds_of_its_institution_alone(api: Api, token: str) -> None:
    api.world.publish()
    api.world.publish(make_terms(collaboration_id="d1" * 16, parties=(LEAD,)))
    listed = bearing(api, token).get("/v1/collaborations").json()["collaborations"]
    assert [row["collaboration_id"] for row in listed] == ["c0" * 16]
    assert bearing(api, token).get(f"/v1/collaborations/{'d1' * 16}").status_code == 404
    everything = operators(api, "read").get("/v1/collaborations").json()["collaborations"]
    assert len(everything) == 2
    assert everything[0]["you"] is None


def test_a_token_for_one_round_lists_that_one(api: Api) -> None:
    api.world.publish(make_terms(collaboration_id="d1" * 16))
    api.world.publish(make_terms())
    drawn = new_token()
    body = {"digest": token_digest(drawn), "collaboration_id": "d1" * 16, "expires_at": NOW + 100}
    assert api.as_party(HOSPITAL).post("/v1/tokens", json=body).status_code == 201
    listed = bearing(api, drawn).get("/v1/collaborations").json()["collaborations"]
    assert [row["collaboration_id"] for row in listed] == ["d1" * 16]


def test_the_ledger_can_be_archived_by_a_token(api: Api, token: str) -> None:
    api.world.until_anchored()
    for client in (bearing(api, token), operators(api, "read")):
        page = decode(LedgerPage, client.get(f"/v1/collaborations/{api.world.id}/ledger").content)
        assert len(page.entries) == 4


def test_looking_with_a_token_is_not_being_seen(api: Api, token: str) -> None:
    api.world.publish()
    seen = bearing(api, token).get(f"/v1/collaborations/{api.world.id}").json()
    assert [member["last_seen_at"] for member in seen["members"]] == [None, None]


def test_a_refused_token_is_told_how_to_come_in(api: Api) -> None:
    answer = bearing(api, new_token()).get("/v1/collaborations")
    assert (answer.status_code, slug(answer)) == (401, "token-refused")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "odc token create" in answer.json()["hint"]


@pytest.mark.parametrize("header", ["", "Bearer", "Basic YTpi", "Bearer a b", "odct_"])
def test_another_authorization_is_no_token(api: Api, header: str) -> None:
    answer = api.anonymous.get("/v1/collaborations", headers={"authorization": header})
    assert (answer.status_code, slug(answer)) == (401, "token-refused")


def test_a_token_elsewhere_than_in_its_header_is_none(api: Api, token: str) -> None:
    for answer in (
        api.anonymous.get("/v1/collaborations", params={"access_token": token}),
        api.anonymous.get("/v1/collaborations", headers={"cookie": f"token={token}"}),
    ):
        assert slug(answer) == "certificate-required"


def test_what_takes_a_certificate_is_forbidden_to_a_token(api: Api, token: str) -> None:
    api.world.until_anchored()
    answer = bearing(api, token).get(f"/v1/collaborations/{api.world.id}/terms")
    assert (answer.status_code, slug(answer)) == (403, "not-permitted")


def test_a_certificate_goes_before_a_token(api: Api, token: str) -> None:
    api.world.publish()
    with api.as_party(LEAD) as lead:
        lead.headers["authorization"] = f"Bearer {token}"
        assert lead.get(f"/v1/collaborations/{api.world.id}").json()["you"]["party"] == LEAD
        lead.headers["authorization"] = "Bearer nothing"
        assert lead.get(f"/v1/collaborations/{api.world.id}/terms").status_code == 200


def test_the_operator_takes_a_round_through_its_steps(api: Api) -> None:
    world, operator = api.world, operators(api)
    world.until_anchored()
    address = f"/v1/collaborations/{world.id}"
    refused = operator.post(f"{address}/seal")
    assert (refused.status_code, slug(refused)) == (409, "out-of-order")
    world.send(make_uplink(world.terms, HOSPITAL))
    assert operator.post(f"{address}/seal").json()["state"] == "sealed"
    claim(world)
    finish(world, hold=True)
    assert operator.get(address).json()["waiting_for"] == ["the analyst: odc-analyst collaboration release"]
    assert operator.post(f"{address}/release").json()["state"] == "released"
    assert slug(operator.post(f"{address}/cancel")) == "out-of-order"
    assert operator.get(f"{address}/report").json()["state"] == "released"
    with world.records.begin() as unit:
        assert [row.event for row in unit.ledger(world.id)][-1] == "release"


def test_the_operator_publishes_terms_once(api: Api) -> None:
    operator, address = operators(api), f"/v1/collaborations/{'ab' * 16}"
    api.world.enrol(HOSPITAL)
    for status in (201, 200):  # repeating it is acknowledged
        answer = operator.put(address, json=DRAFT)
        assert (answer.status_code, answer.json()["state"]) == (status, "enrolling")
    other = operator.put(address, json={**DRAFT, "title": "Another"})
    assert (other.status_code, slug(other)) == (409, "already-exists")
    assert len(operator.get("/v1/collaborations").json()["collaborations"]) == 1


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"[" * 100_000, b'{"title": "x"}', b'{"consortium_id": "x"}']
)
def test_terms_that_are_none_are_not_published(api: Api, body: bytes) -> None:
    answer = operators(api).put(f"/v1/collaborations/{'ab' * 16}", content=body)
    assert (answer.status_code, slug(answer)) == (400, "malformed-message")


def test_terms_need_an_id_that_is_one(api: Api) -> None:
    answer = operators(api).put("/v1/collaborations/abc", json=DRAFT)
    assert (answer.status_code, slug(answer)) == (400, "malformed-message")


def test_a_token_for_one_round_makes_no_other(api: Api) -> None:
    api.world.publish()
    drawn = new_token()
    request = TokenRequest(digest=token_digest(drawn), expires_at=NOW + 100, collaboration_id=api.world.id)
    api_tokens.create_for_operator(api.world.analyst, request, "manage")
    answer = bearing(api, drawn).put(f"/v1/collaborations/{'ab' * 16}", json=DRAFT)
    assert (answer.status_code, slug(answer)) == (403, "not-permitted")


def test_the_operator_cancels(api: Api) -> None:
    api.world.publish()
    answer = operators(api).post(f"/v1/collaborations/{api.world.id}/cancel")
    assert answer.json()["state"] == "cancelled"


def test_a_token_that_reads_takes_no_step(api: Api, token: str) -> None:
    api.world.publish()
    for client in (bearing(api, token), operators(api, "read"), api.as_party(LEAD)):
        answer = client.post(f"/v1/collaborations/{api.world.id}/cancel")
        assert (answer.status_code, slug(answer)) == (403, "not-permitted")
    assert api.world.state == "enrolling"


def test_tokens_are_listed_and_revoked_by_their_institution(api: Api, token: str) -> None:
    hospital = api.as_party(HOSPITAL)
    (row,) = hospital.get("/v1/tokens").json()["tokens"]
    assert (row["label"], row["scope"], row["revoked"]) == ("monitor", "read", False)
    assert api.as_party(LEAD).get("/v1/tokens").json()["tokens"] == []
    assert slug(api.as_party(LEAD).delete(f"/v1/tokens/{row['token_id']}")) == "not-found"
    assert hospital.delete(f"/v1/tokens/{row['token_id']}").status_code == 204
    assert slug(bearing(api, token).get("/v1/collaborations")) == "token-refused"


@pytest.mark.parametrize("body", [b"", b"{}", b"x" * 5000, json.dumps({"digest": 1}).encode()])
def test_a_request_for_a_token_is_bounded_and_checked(api: Api, body: bytes) -> None:
    answer = api.as_party(HOSPITAL).post("/v1/tokens", content=body)
    assert slug(answer) == ("limit-exceeded" if len(body) > 4096 else "malformed-message")


@pytest.mark.parametrize(
    "headers",
    [{"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"origin": "https://evil.example"}],
)
def test_another_site_cannot_have_a_token_taken_in_somebodys_name(api: Api, headers: dict[str, str]) -> None:
    """A browser sends its certificate with a form of text, for which it asks nobody's leave."""
    drawn = new_token()
    form = {"content-type": "text/plain;charset=UTF-8", **headers}
    body = json.dumps({"digest": token_digest(drawn), "expires_at": NOW + 100})
    answer = api.as_party(HOSPITAL).post("/v1/tokens", content=body, headers=form)
    assert (answer.status_code, slug(answer)) == (403, "not-permitted")
    assert slug(bearing(api, drawn).get("/v1/collaborations")) == "token-refused"
    assert slug(api.as_party(HOSPITAL).get("/v1/collaborations", headers=headers)) == "not-permitted"


def test_a_link_on_another_site_may_be_followed_and_what_is_public_stays_so(api: Api) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    client = api.as_party(HOSPITAL)
    assert client.get("/v1/collaborations", headers=link).status_code == 200
    assert client.get("/healthz", headers={"sec-fetch-site": "cross-site"}).status_code == 200
    form = {**link, "content-type": "text/plain"}
    assert slug(client.post("/v1/tokens", content=b"{}", headers=form)) == "not-permitted"


def test_no_token_is_logged(api: Api, token: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for client in (bearing(api, token), bearing(api, new_token())):
        for path in ("/v1/collaborations", "/v1/collaborations/x", "/v1/tokens", "/nothing"):
            assert client.get(path).status_code in (200, 401, 403, 404)
    assert "odct_" not in caplog.text


def test_the_openapi_document_says_where_a_token_will_do(api: Api) -> None:
    paths = api.app.openapi()["paths"]
    taking = {
        (method.upper(), path)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if any("apiToken" in shown for shown in operation["security"])
    }
    by_token = (Caller.LISTER, Caller.READER, Caller.OPERATOR)
    assert taking == {(one.method, one.path) for one in OPERATIONS if one.caller in by_token}
