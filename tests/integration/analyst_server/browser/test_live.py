"""The part of a page that renews itself: only with news, and without keeping a session alive."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from analyst_server.browser.visits import IDLE_S
from analyst_server.services import end
from protocol.limits import MIN_CHUNK_BYTES
from tests.harness.app import Api
from tests.harness.visitor import operator_token, sign_in
from tests.harness.world import HOSPITAL, LEAD, make_uplink


@pytest.fixture
def client(api: Api) -> httpx.Client:
    api.world.until_anchored()
    api.app.state.status_wait_s = 0  # each request has an event loop of its own here
    client = api.anonymous
    sign_in(client, operator_token(api))
    return client


def address(api: Api) -> str:
    return f"/pages/collaborations/{api.world.id}"


def renewal(page: str) -> str:
    found = re.search(r'hx-get="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_a_page_asks_for_what_it_does_not_know(api: Api, client: httpx.Client) -> None:
    again = renewal(client.get(address(api)).text)
    answer = client.get(again)
    assert (answer.status_code, answer.content) == (204, b"")
    api.world.send(make_uplink(api.world.terms, LEAD))
    news = client.get(again)
    assert news.status_code == 200
    assert 'id="now"' in news.text
    assert "<html" not in news.text
    assert "Collecting. Waits for hospital-a." in news.text
    assert client.get(renewal(news.text)).status_code == 204


def test_how_much_of_an_uplink_has_come_is_shown_and_is_in_the_status(api: Api, client: httpx.Client) -> None:
    uplink = make_uplink(api.world.terms, LEAD)
    upload_id = api.world.begin(uplink).upload_id
    again = renewal(client.get(address(api)).text)
    member = status_of(api, LEAD)
    assert (member["arrived_bytes"], member["uplink"]) == (0, "receiving")
    whole = member["payload_bytes"]
    api.world.append(uplink, upload_id, data=uplink.stream[: len(uplink.stream) // 2])
    assert f'max="{whole}"' in client.get(address(api)).text
    assert status_of(api, HOSPITAL).keys().isdisjoint({"arrived_bytes", "payload_bytes"})
    api.world.send(uplink)
    assert status_of(api, LEAD).keys().isdisjoint({"arrived_bytes", "payload_bytes"})
    assert client.get(again).status_code == 200


def test_bytes_that_arrive_are_no_news_for_who_waits_for_a_status(api: Api, client: httpx.Client) -> None:
    uplink = make_uplink(api.world.terms, LEAD, rows=2 * MIN_CHUNK_BYTES // 16, chunk_bytes=MIN_CHUNK_BYTES)
    upload_id = api.world.begin(uplink).upload_id
    path = f"/v1/collaborations/{api.world.id}"
    before = api.as_party(HOSPITAL).get(path)
    again = renewal(client.get(address(api)).text)
    api.world.append(uplink, upload_id, data=uplink.stream[: MIN_CHUNK_BYTES + 1000])
    after = api.as_party(HOSPITAL).get(path)
    assert before.headers["etag"] == after.headers["etag"]
    assert status_of(api, LEAD)["arrived_bytes"] > 0
    assert client.get(again).status_code == 200


def test_a_page_that_nobody_looks_at_keeps_no_session_alive(api: Api, client: httpx.Client) -> None:
    again = renewal(client.get(address(api)).text)
    api.world.clock.forward(IDLE_S - 1)
    assert "set-cookie" not in client.get(again).headers
    api.world.clock.forward(1)
    answer = client.get(again, headers={"hx-request": "true"})
    assert (answer.headers["hx-refresh"], answer.content) == ("true", b"")


def test_what_has_ended_asks_no_more(api: Api, client: httpx.Client) -> None:
    end.cancel(api.world.analyst, api.world.id)
    assert "hx-get" not in client.get(address(api)).text


def status_of(api: Api, party: str) -> dict[str, Any]:
    members = api.as_party(LEAD).get(f"/v1/collaborations/{api.world.id}").json()["members"]
    return next(member for member in members if member["party"] == party)
