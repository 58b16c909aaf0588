"""Every page for every kind of caller: it opens for whom the REST operation behind it answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape

import httpx
import pytest

from analyst_server.pages.acts import ACTS
from protocol import operations
from protocol.operations import Operation
from tests.harness.app import Api
from tests.harness.visitor import SAME_ORIGIN, hidden, operator_token, send, sign_in
from tests.harness.world import DRAFT, HOSPITAL, LEAD, make_terms

SHOWN: dict[str, Operation] = {
    "": operations.COLLABORATION_STATUS,
    "/report": operations.COLLABORATION_REPORT,
    "/terms": operations.TERMS_IN_WORDS,
    "/ledger": operations.FETCH_LEDGER,
}
STRANGER = "hospital-z"
ELSEWHERE = "d1" * 16


@pytest.fixture
def round_page(api: Api) -> str:
    api.world.until_sealed()
    return f"/pages/collaborations/{api.world.id}"


def with_token(api: Api, token: str) -> httpx.Client:
    client = api.anonymous
    sign_in(client, token)
    return client


def by_bearer(api: Api, token: str) -> httpx.Client:
    client = api.anonymous
    client.headers["authorization"] = f"Bearer {token}"
    return client


CALLERS: dict[str, Callable[[Api], tuple[httpx.Client, httpx.Client]]] = {
    "operator": lambda api: pair(api, operator_token(api)),
    "operator who reads": lambda api: pair(api, operator_token(api, "read")),
    "operator of another round": lambda api: pair(api, elsewhere(api)),
    "member": lambda api: (api.as_party(HOSPITAL), api.as_party(HOSPITAL)),
    "lead": lambda api: (api.as_party(LEAD), api.as_party(LEAD)),
    "stranger": lambda api: (api.as_party(STRANGER), api.as_party(STRANGER)),
    "analyst": lambda api: (api.as_party("analyst"), api.as_party("analyst")),
}


def pair(api: Api, token: str) -> tuple[httpx.Client, httpx.Client]:
    """Return the same caller as a browser and as a program."""
    return with_token(api, token), by_bearer(api, token)


def elsewhere(api: Api) -> str:
    api.world.publish(make_terms(collaboration_id=ELSEWHERE))
    return operator_token(api, only=ELSEWHERE)


@pytest.mark.parametrize("caller", CALLERS)
def test_a_page_opens_for_whom_the_operation_behind_it_answers(
    api: Api, round_page: str, caller: str
) -> None:
    found = api.world.id
    browser, program = CALLERS[caller](api)
    for page, operation in SHOWN.items():
        seen = browser.get(f"/pages/collaborations/{found}{page}")
        answered = program.get(operation.url(collaboration_id=found))
        assert seen.status_code == answered.status_code, page
        assert seen.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("act", ACTS)
def test_a_step_is_taken_for_whom_the_rest_api_takes_it(
    api: Api, round_page: str, caller: str, act: str
) -> None:
    found, party = api.world.id, HOSPITAL
    browser, program = CALLERS[caller](api)
    form = {**hidden(browser.get("/pages").text), "confirmed": "yes", "party": party}
    seen = browser.post(f"/pages/collaborations/{found}/{act}", data=form, headers=SAME_ORIGIN)
    moved = api.world.state
    address = ACTS[act].operation.url(collaboration_id=found, party=party)
    answered = program.post(address)
    if caller == "operator" and seen.status_code == 303:
        assert answered.status_code in (200, 409)  # the step is taken
        assert api.world.state == moved
    else:
        assert seen.status_code == answered.status_code


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_names_the_request_with_the_same_answer(api: Api, round_page: str, page: str) -> None:
    client = with_token(api, operator_token(api))
    seen = client.get(round_page + page).text
    twin = re.search(r'<link rel="alternate" type="([^"]+)" href="([^"]+)">', seen)
    assert twin is not None
    assert twin[2] == SHOWN[page].url(collaboration_id=api.world.id)
    answered = by_bearer(api, operator_token(api)).get(twin[2])
    assert answered.headers["content-type"] == twin[1]


def test_every_page_has_the_policy_and_nothing_inline(api: Api, round_page: str) -> None:
    client = with_token(api, operator_token(api))
    paths = ["/pages", "/pages/new", *(f"{round_page}{page}" for page in (*SHOWN, "/seal", "/nothing"))]
    for path in paths:
        answer = client.get(path)
        assert "script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src)", answer.text)
        assert "http://" not in answer.text


def test_a_step_without_the_box_is_not_taken(api: Api, round_page: str) -> None:
    client = with_token(api, operator_token(api))
    before = api.world.state
    answer = send(client, f"{round_page}/cancel", f"{round_page}/cancel")
    assert answer.status_code == 400
    assert "the box was not ticked" in answer.text.lower()
    assert api.world.state == before


def test_a_step_that_is_out_of_order_says_so_on_a_page(api: Api, round_page: str) -> None:
    client = with_token(api, operator_token(api))
    answer = send(client, f"{round_page}/close", f"{round_page}/close", confirmed="yes")
    assert answer.status_code == 409
    assert "out-of-order" in answer.text


def test_the_steps_are_shown_to_whom_they_are_open(api: Api, round_page: str) -> None:
    assert "What you can do" in with_token(api, operator_token(api)).get(round_page).text
    for client in (with_token(api, operator_token(api, "read")), api.as_party(LEAD)):
        assert "What you can do" not in client.get(round_page).text


def test_terms_that_are_sent_twice_are_published_once(api: Api) -> None:
    api.world.enrol(*DRAFT["parties"])
    client = with_token(api, operator_token(api))
    text = json.dumps(DRAFT)
    checked = send(client, "/pages/new/check", "/pages/new", draft=text)
    assert checked.status_code == 200, checked.text
    form = {**hidden(checked.text), "draft": text, "confirmed": "yes"}
    answers = [client.post("/pages/new/publish", data=form, headers=SAME_ORIGIN) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [303, 303]
    listed = by_bearer(api, operator_token(api)).get("/v1/collaborations").json()["collaborations"]
    assert [one["collaboration_id"] for one in listed] == [form["collaboration_id"]]
    assert "odc round rows.csv" in client.get(answers[0].headers["location"]).text


def test_corrected_terms_end_the_collaboration_that_they_replace(api: Api) -> None:
    api.world.enrol(*DRAFT["parties"])
    api.world.publish()
    client, replaced = with_token(api, operator_token(api)), api.world.id
    text = json.dumps({**DRAFT, "title": "Corrected"})
    assert f'<option value="{replaced}">' in client.get("/pages/new").text
    checked = send(client, "/pages/new/check", "/pages/new", draft=text, replaces=replaced)
    assert "is cancelled by this" in checked.text
    form = {**hidden(checked.text), "draft": text, "confirmed": "yes"}
    assert client.post("/pages/new/publish", data=form, headers=SAME_ORIGIN).status_code == 303
    assert api.world.state == "cancelled"
    answered = by_bearer(api, operator_token(api)).get("/v1/collaborations").json()["collaborations"]
    assert {one["collaboration_id"]: one["state"] for one in answered} == {
        replaced: "cancelled",
        form["collaboration_id"]: "enrolling",
    }
    assert f'<option value="{replaced}">' not in client.get("/pages/new").text


@pytest.mark.parametrize("replaces", ["x", 32 * "7"])
def test_terms_replace_a_collaboration_that_exists(api: Api, replaces: str) -> None:
    client = with_token(api, operator_token(api))
    answer = send(client, "/pages/new/check", "/pages/new", draft=json.dumps(DRAFT), replaces=replaces)
    assert answer.status_code in (400, 404)
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize("name", ACTS)
def test_the_page_of_a_step_names_the_request_that_takes_it(api: Api, round_page: str, name: str) -> None:
    page = with_token(api, operator_token(api)).get(f"{round_page}/{name}?party={HOSPITAL}").text
    operation = ACTS[name].operation
    url = operation.url(collaboration_id=api.world.id, party=HOSPITAL)
    assert f"<code>{operation.method} {url}</code>" in page
    assert by_bearer(api, operator_token(api, "read")).request(operation.method, url).status_code == 403


@pytest.mark.parametrize("text", ["", "{", "[]", "title = 3", "<script>", "\x00", "x = " + "[" * 5000])
def test_what_is_no_draft_is_shown_again_with_the_reason(api: Api, text: str) -> None:
    client = with_token(api, operator_token(api))
    answer = send(client, "/pages/new/check", "/pages/new", draft=text)
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert "<script>" not in answer.text


def test_a_title_is_text_on_every_page(api: Api) -> None:
    api.world.until_sealed(make_terms(title="<script>alert(1)</script>"))
    client = with_token(api, operator_token(api))
    page = f"/pages/collaborations/{api.world.id}"
    for path in ("/pages", page, *(page + shown for shown in SHOWN), f"{page}/cancel"):
        text = client.get(path).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize("path", ["/pages/nothing", "/pages/static/nothing.js", "/pages/collaborations/x"])
def test_another_address_is_no_page(api: Api, path: str) -> None:
    answer = with_token(api, operator_token(api)).get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


def test_an_institution_that_nobody_named_cannot_be_excluded(api: Api, round_page: str) -> None:
    client = with_token(api, operator_token(api))
    assert client.get(f"{round_page}/exclude", params={"party": "nobody"}).status_code == 404
    answer = send(client, f"{round_page}/exclude", round_page, party="nobody", confirmed="yes")
    assert answer.status_code == 404


def test_a_long_list_has_several_pages_the_newest_first(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.paging.MOST", 2)
    ids = [f"{number}{31 * 'e'}" for number in range(3)]
    for found in ids:
        api.world.publish(make_terms(collaboration_id=found))
    client = with_token(api, operator_token(api))
    first, second = (client.get(f"/pages{query}").text for query in ("", "?start=2"))
    assert [one[:8] in first for one in ids] == [False, True, True]
    assert [one[:8] in second for one in ids] == [True, False, False]
    assert 'href="/pages?start=2"' in first
    assert "The next collaborations" not in second
    assert client.get("/pages?start=x").status_code == 400
    draft = client.get("/pages/new").text
    assert [f'<option value="{one}"' in draft for one in ids] == [False, True, True]
    assert "Of an older one" in draft


def test_a_draft_that_was_checked_can_be_changed(api: Api) -> None:
    api.world.enrol(*DRAFT["parties"])
    api.world.publish()
    client, text = with_token(api, operator_token(api)), json.dumps(DRAFT)
    checked = send(client, "/pages/new/check", "/pages/new", draft=text, replaces=api.world.id)
    assert 'formaction="/pages/new" formnovalidate>Back to the draft' in checked.text
    again = client.post("/pages/new", data={**hidden(checked.text), "draft": text}, headers=SAME_ORIGIN)
    assert again.status_code == 200
    assert text in unescape(again.text)
    assert f'<option value="{api.world.id}" selected>' in again.text


def test_advice_on_a_page_is_for_who_reads_it(api: Api) -> None:
    client = with_token(api, operator_token(api, "read"))
    assert "odc-analyst token create --scope manage" in client.get("/pages/new").text
    assert "a browser that has the institution" in client.get("/pages/tokens").text
    assert "follow the link below" in client.get("/pages/nothing").text
    for draft in ("title = 3 4", "{"):
        answer = send(with_token(api, operator_token(api)), "/pages/new/check", "/pages/new", draft=draft)
        assert "correct the TOML or JSON" in answer.text
