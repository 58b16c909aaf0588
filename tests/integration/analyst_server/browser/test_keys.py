"""Requests are the lead's, tokens their owner's; both by certificate alone."""

from __future__ import annotations

import httpx
import pytest

from analyst_server.services import api_tokens, certificates
from protocol.tokens import TokenRequest, new_token, token_digest, token_id
from tests.harness.app import Api
from tests.harness.certificates import shared_member
from tests.harness.enrolments import INVITATION_ID, request
from tests.harness.visitor import SAME_ORIGIN, hidden, operator_token, send, sign_in
from tests.harness.world import HOSPITAL, LEAD, identity

REQUESTS, TOKENS = "/pages/requests", "/pages/tokens"
REJECTION = f"{REQUESTS}/{INVITATION_ID}/rejection"


@pytest.fixture
def waiting(api: Api) -> Api:
    certificates.request(api.world.analyst, request(party="hospital-new"))
    return api


@pytest.fixture
def token(api: Api) -> str:
    """The id of a token of the hospital."""
    made = new_token()
    asked = TokenRequest(digest=token_digest(made), label="monitoring", expires_at=api.world.clock() + 3600)
    pem = shared_member("institution", HOSPITAL).pem
    api_tokens.create(api.world.analyst, identity(HOSPITAL), pem, asked)
    return token_id(token_digest(made))


def with_token(api: Api) -> httpx.Client:
    client = api.anonymous
    sign_in(client, operator_token(api))
    return client


def test_the_lead_sees_who_waits_and_rejects_with_a_reason(waiting: Api) -> None:
    lead = waiting.as_party(LEAD)
    assert "hospital-new" in lead.get(REQUESTS).text
    answer = send(lead, REJECTION, REJECTION, reason="not one of us", confirmed="yes")
    assert answer.headers["location"] == REQUESTS
    status = certificates.status(waiting.world.analyst, INVITATION_ID)
    assert (status["state"], status["reason"]) == ("rejected", "not one of us")
    assert "Nobody waits." in lead.get(REQUESTS).text
    assert lead.get(REJECTION).status_code == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"reason": "x"},
        {"confirmed": "yes"},
        {"confirmed": "yes", "reason": "\x00"},
        {"confirmed": "yes", "reason": "   "},
    ],
)
def test_without_a_reason_or_the_box_nobody_is_rejected(waiting: Api, fields: dict[str, str]) -> None:
    answer = send(waiting.as_party(LEAD), REJECTION, REJECTION, **fields)
    assert answer.status_code == 400
    assert certificates.status(waiting.world.analyst, INVITATION_ID)["state"] == "pending"


def test_nobody_else_sees_or_rejects_requests(waiting: Api) -> None:
    for client in (waiting.as_party(HOSPITAL), waiting.as_party("analyst"), with_token(waiting)):
        assert client.get(REQUESTS).status_code == 403
        form = {**hidden(client.get("/pages").text), "confirmed": "yes", "reason": "x"}
        form.setdefault("form_token", "")
        assert client.post(REJECTION, data=form, headers=SAME_ORIGIN).status_code == 403
    assert certificates.status(waiting.world.analyst, INVITATION_ID)["state"] == "pending"


def test_an_institution_sees_and_revokes_its_own_tokens(api: Api, token: str) -> None:
    owner = api.as_party(HOSPITAL)
    page = owner.get(TOKENS).text
    assert "monitoring" in page
    answer = send(owner, f"{TOKENS}/{token}/revocation", TOKENS, confirmed="yes")
    assert answer.headers["location"] == TOKENS
    assert "revoked" in owner.get(TOKENS).text


def test_nobody_else_sees_or_revokes_a_token(api: Api, token: str) -> None:
    lead = api.as_party(LEAD)
    assert "monitoring" not in lead.get(TOKENS).text
    form = {**hidden(api.as_party(HOSPITAL).get(TOKENS).text), "confirmed": "yes"}
    assert lead.post(f"{TOKENS}/{token}/revocation", data=form, headers=SAME_ORIGIN).status_code == 403
    assert with_token(api).get(TOKENS).status_code == 403
    assert "Revoke" in api.as_party(HOSPITAL).get(TOKENS).text


def test_a_form_of_a_certificate_is_believed_from_our_pages_alone(api: Api, token: str) -> None:
    owner = api.as_party(HOSPITAL)
    form = {**hidden(owner.get(TOKENS).text), "confirmed": "yes"}
    for headers in ({}, {"sec-fetch-site": "cross-site"}, {"origin": "https://elsewhere.example"}):
        assert owner.post(f"{TOKENS}/{token}/revocation", data=form, headers=headers).status_code == 403
    assert "Revoke" in owner.get(TOKENS).text
