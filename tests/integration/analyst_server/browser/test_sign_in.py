"""Who gets in, how long a session lasts, and which forms are believed."""

from __future__ import annotations

import logging

import httpx
import pytest

from analyst_server.browser.visits import COOKIE, IDLE_S, LONGEST_S
from analyst_server.services import api_tokens
from protocol.tokens import new_token, token_digest, token_id
from tests.harness.app import Api, slug
from tests.harness.visitor import SAME_ORIGIN, hidden, operator_token, send, sign_in
from tests.harness.world import HOSPITAL

LIST = "/pages"


@pytest.fixture
def client(api: Api) -> httpx.Client:
    api.world.until_anchored()
    return api.anonymous


@pytest.fixture
def signed_in(api: Api, client: httpx.Client) -> httpx.Client:
    sign_in(client, operator_token(api))
    return client


def cookie_of(answer: httpx.Response) -> str:
    return answer.headers["set-cookie"]


def test_the_bare_address_leads_to_the_pages_and_those_to_the_sign_in(client: httpx.Client) -> None:
    assert client.get("/").headers["location"] == LIST
    answer = client.get(LIST)
    assert (answer.status_code, answer.headers["location"]) == (303, "/pages/sign-in?next=/pages")


def test_a_token_opens_a_session_that_only_this_host_gets_and_no_script_reads(
    api: Api, client: httpx.Client
) -> None:
    token = operator_token(api)
    answer = sign_in(client, token)
    assert (answer.status_code, answer.headers["location"]) == (303, LIST)
    said = cookie_of(answer)
    assert said.startswith(f"{COOKIE}=")
    for words in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert words in said
    assert "Domain" not in said
    assert token not in said
    assert client.get(LIST).status_code == 200


@pytest.mark.parametrize(
    "token", [pytest.param("", id="none"), "odct_short", pytest.param(new_token(), id="unknown")]
)
def test_another_token_opens_none(client: httpx.Client, token: str) -> None:
    answer = sign_in(client, token)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "odc-analyst token create" in answer.text
    assert not token or token not in answer.text


def test_a_session_is_good_for_one_browser_page_and_not_for_the_rest_api(signed_in: httpx.Client) -> None:
    assert slug(signed_in.get("/v1/collaborations")) == "certificate-required"


def test_after_the_sign_in_only_a_page_of_ours_is_gone_to(api: Api, client: httpx.Client) -> None:
    for target in ("https://elsewhere.example/pages/", "//elsewhere.example", "/pages/\\elsewhere", "/v1"):
        fields = {**hidden(client.get("/pages/sign-in").text), "token": operator_token(api), "next": target}
        answer = client.post("/pages/sign-in", data=fields, headers=SAME_ORIGIN)
        assert answer.headers["location"] == LIST
    wanted = f"/pages/collaborations/{api.world.id}"
    shown = client.get("/pages/sign-in", params={"next": wanted}).text
    assert hidden(shown)["next"] == wanted


def test_after_the_sign_in_the_page_is_the_one_with_its_query(api: Api, client: httpx.Client) -> None:
    wanted = f"/pages/collaborations/{api.world.id}/exclude?party={HOSPITAL}"
    shown = client.get(client.get(wanted).headers["location"]).text
    assert hidden(shown)["next"] == wanted
    assert "Your session has ended" not in shown


def test_who_sends_a_form_after_the_session_is_told_that_nothing_was_changed(
    api: Api, signed_in: httpx.Client
) -> None:
    page = f"/pages/collaborations/{api.world.id}/cancel"
    form = {**hidden(signed_in.get(page).text), "confirmed": "yes"}
    api.world.clock.forward(IDLE_S)
    answer = signed_in.post(page, data=form, headers=SAME_ORIGIN)
    assert "Your session has ended" in signed_in.get(answer.headers["location"]).text
    assert api.world.state != "cancelled"


def test_a_session_ends_when_nobody_looks_and_after_a_day_of_work_in_any_case(
    api: Api, signed_in: httpx.Client
) -> None:
    api.world.clock.forward(IDLE_S)
    assert signed_in.get(LIST).status_code == 303
    sign_in(signed_in, operator_token(api))
    for _ in range(LONGEST_S // (IDLE_S - 1)):
        api.world.clock.forward(IDLE_S - 1)
        assert signed_in.get(LIST).status_code == 200
    api.world.clock.forward(IDLE_S - 1)
    assert signed_in.get(LIST).status_code == 303


def test_who_signs_out_is_out_even_with_the_cookie(signed_in: httpx.Client) -> None:
    kept = dict(signed_in.cookies)
    answer = send(signed_in, "/pages/sign-out", LIST)
    assert answer.headers["location"] == "/pages/sign-in"
    assert "Max-Age=0" in cookie_of(answer)
    signed_in.cookies.update(kept)
    assert signed_in.get(LIST).status_code == 303


def test_a_revoked_token_opens_no_page_any_more(api: Api, client: httpx.Client) -> None:
    token = operator_token(api)
    sign_in(client, token)
    api_tokens.revoke(api.world.analyst, None, token_id(token_digest(token)))
    assert client.get(LIST).status_code == 303


@pytest.mark.parametrize("cookie", ["", "x", "é", "A" * 100, "A" * 5000])
def test_a_cookie_that_was_not_sealed_here_is_none(client: httpx.Client, cookie: str) -> None:
    answer = client.get(LIST, headers=[(b"cookie", f"{COOKIE}={cookie}".encode())])
    assert answer.status_code == 303


def test_a_cookie_with_a_changed_letter_is_none(signed_in: httpx.Client) -> None:
    sealed = signed_in.cookies[COOKIE]
    middle = len(sealed) // 2
    changed = sealed[:middle] + ("A" if sealed[middle] != "A" else "B") + sealed[middle + 1 :]
    signed_in.cookies.clear()
    assert signed_in.get(LIST, headers={"cookie": f"{COOKIE}={sealed}"}).status_code == 200
    assert signed_in.get(LIST, headers={"cookie": f"{COOKIE}={changed}"}).status_code == 303


def test_sign_ins_from_one_address_are_limited(client: httpx.Client) -> None:
    answers = [sign_in(client, new_token()) for _ in range(30)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert all(answer.headers["retry-after"] for answer in refused)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "https://elsewhere.example"},
        {"origin": "http://analyst"},
        {"origin": "null"},
    ],
)
def test_a_form_from_elsewhere_changes_nothing(signed_in: httpx.Client, headers: dict[str, str]) -> None:
    answer = signed_in.post("/pages/sign-out", data=hidden(signed_in.get(LIST).text), headers=headers)
    assert answer.status_code == 403
    assert "Nothing was changed" in answer.text
    assert signed_in.get(LIST).status_code == 200


def test_a_browser_that_names_our_origin_is_believed(signed_in: httpx.Client) -> None:
    headers = {"origin": "https://analyst"}
    answer = signed_in.post("/pages/sign-out", data=hidden(signed_in.get(LIST).text), headers=headers)
    assert answer.status_code == 303


def test_the_token_of_a_form_is_good_for_its_session_alone(api: Api, signed_in: httpx.Client) -> None:
    other = api.anonymous
    sign_in(other, operator_token(api))
    foreign = hidden(other.get(LIST).text)["form_token"]
    for token in (foreign, hidden(other.get("/pages/sign-in").text)["form_token"], "", "0.0.0", "x"):
        answer = signed_in.post("/pages/sign-out", data={"form_token": token}, headers=SAME_ORIGIN)
        assert answer.status_code == 403


def test_a_form_that_is_none_is_refused(signed_in: httpx.Client) -> None:
    many = "&".join(f"a{number}=1" for number in range(50))
    for body in (b"\xff\xfe", many.encode()):
        answer = signed_in.post("/pages/sign-out", content=body, headers=SAME_ORIGIN)
        assert answer.status_code == 400


def test_a_link_from_elsewhere_carries_no_cookie_so_our_own_page_asks_once_more(client: httpx.Client) -> None:
    answer = client.get(LIST, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200
    assert f'<a href="{LIST}">' in answer.text


def test_a_certificate_needs_no_token(api: Api) -> None:
    api.world.until_anchored()
    answer = api.as_party(HOSPITAL).get(LIST)
    assert answer.status_code == 200
    assert f"{HOSPITAL}, reads only" in answer.text
    assert "Sign out" not in answer.text


def test_the_access_log_names_the_token_of_a_session_and_no_secret(
    api: Api, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    token = operator_token(api)
    with caplog.at_level(logging.INFO):
        sign_in(client, token)
        client.get(LIST)
    said = [line for line in caplog.messages if "path=/pages " in line]
    assert f"token={token_id(token_digest(token))}" in said[-1]
    assert "role=operator" in said[-1]
    assert token not in caplog.text
    assert client.cookies[COOKIE] not in caplog.text
