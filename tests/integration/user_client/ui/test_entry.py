"""Who gets to an institution's own pages, under which name, and which forms are believed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.app import ToApp
from user_client.sdk.session import unix_now
from user_client.ui.app import create_app
from user_client.ui.entry import Entry
from user_client.ui.work import Desk

HOST = "127.0.0.1:41000"
ACT = f"/ui/rounds/{32 * 'a'}/receive"
OURS = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def entry() -> Entry:
    return Entry(HOST)


@pytest.fixture
def client(entry: Entry, tmp_path: Path) -> Iterator[httpx.Client]:
    app = create_app(Desk(tmp_path / "home", lambda: ""), entry)
    with httpx.Client(transport=ToApp(app), base_url=f"http://{HOST}") as found:
        yield found


@pytest.fixture
def inside(entry: Entry, client: httpx.Client) -> httpx.Client:
    client.get(entry.url)
    return client


def form_token(entry: Entry) -> str:
    return entry.form_token(unix_now())


def test_the_address_opens_once(entry: Entry, client: httpx.Client) -> None:
    first = client.get(entry.url)
    assert (first.status_code, first.headers["location"]) == (303, "/ui")
    assert re.fullmatch(
        r"odc-ui-41000=[\w-]{43}; HttpOnly; Path=/; SameSite=strict", first.headers["set-cookie"]
    )
    client.cookies.clear()
    second = client.get(entry.url)
    assert second.status_code == 403
    assert "set-cookie" not in second.headers


def test_the_browser_that_was_let_in_may_open_the_address_again(entry: Entry, inside: httpx.Client) -> None:
    again = inside.get(entry.url)
    assert (again.status_code, again.headers["location"]) == (303, "/ui")


def test_a_guess_does_not_spend_the_address(entry: Entry, client: httpx.Client) -> None:
    assert client.get(f"/ui/enter/{'x' * 43}").status_code == 403
    assert client.get(entry.url).status_code == 303


def test_another_browser_is_refused_everywhere(inside: httpx.Client) -> None:
    assert inside.get("/ui").status_code == 200
    inside.cookies.clear()
    for path in ("/ui", f"/ui/rounds/{32 * 'a'}", "/ui?as=json", "/ui/elsewhere"):
        assert inside.get(path).status_code == 403
    inside.cookies.set("odc-ui-41000", "a guess")
    assert inside.get("/ui").status_code == 403


@pytest.mark.parametrize("host", ["attacker.example", "localhost:41000", "127.0.0.1", "127.0.0.1:41001", ""])
def test_another_name_is_refused_with_the_right_cookie(inside: httpx.Client, entry: Entry, host: str) -> None:
    for path in ("/", "/nowhere", "/ui", "/ui/static/pages.css", f"/ui/enter/{'x' * 43}"):
        assert inside.get(path, headers={"host": host}).status_code == 403
    fields = {"form_token": form_token(entry)}
    assert inside.post(ACT, data=fields, headers={**OURS, "host": host}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},  # another port of this machine
        {"origin": "http://127.0.0.1:41001"},
        {"origin": "null"},
        {},
    ],
)
def test_a_form_from_elsewhere_is_refused_with_the_right_token(
    inside: httpx.Client, entry: Entry, headers: dict[str, str]
) -> None:
    answer = inside.post(ACT, data={"form_token": form_token(entry)}, headers=headers)
    assert answer.status_code == 403
    assert "was not sent from one of these pages" in answer.text


def test_a_form_needs_the_token_of_this_session(inside: httpx.Client) -> None:
    other = Entry(HOST)
    for token in ("", "1.2.3", form_token(other)):
        assert inside.post(ACT, data={"form_token": token}, headers=OURS).status_code == 403


def test_a_form_of_ours_is_read(inside: httpx.Client, entry: Entry) -> None:
    answer = inside.post(
        ACT.replace("receive", "reject"), data={"form_token": form_token(entry)}, headers=OURS
    )
    assert answer.status_code == 400  # it gets as far as the reason that is missing
    assert "A rejection needs its reason" in answer.text


def test_a_form_that_is_too_large_is_not_read(inside: httpx.Client) -> None:
    assert inside.post(ACT, data={"table": "x" * 70_000}, headers=OURS).status_code == 413


def test_every_answer_has_the_policy(inside: httpx.Client) -> None:
    for path in ("/ui", "/ui/elsewhere", "/nowhere", "/ui/static/pages.css", "/ui?as=json"):
        policy = inside.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_who_has_not_joined_is_told_how(inside: httpx.Client) -> None:
    assert "odc join INVITATION" in inside.get("/ui").text
    assert inside.get("/ui?as=json").json() == {"joined": False}


def test_an_error_is_a_problem_for_machines(inside: httpx.Client) -> None:
    answer = inside.get("/ui/rounds/not-an-id?as=json")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["status"]) == (404, 404)


def test_no_secret_is_shown(entry: Entry) -> None:
    assert repr(entry) == f"<Entry at {HOST}, not used>"
