"""What a browser keeps cannot be made up, and a form is good for one session and for some hours."""

from __future__ import annotations

import pytest

from pages.guard import FORM_S, Guard, is_from_another_site, is_from_our_page

NOW = 1_900_000_000


@pytest.fixture
def guard() -> Guard:
    return Guard(bytes(32))


def test_what_is_sealed_is_opened_with_the_same_key_alone(guard: Guard) -> None:
    sealed = guard.seal({"token": "a secret", "seen": 3})
    assert guard.open(sealed) == {"token": "a secret", "seen": 3}
    assert Guard(bytes(32)).open(sealed) == {"token": "a secret", "seen": 3}
    assert Guard(bytes([1]) * 32).open(sealed) is None
    assert "secret" not in sealed


def test_the_same_is_never_sealed_the_same_way(guard: Guard) -> None:
    assert guard.seal({"a": 1}) != guard.seal({"a": 1})


def test_no_letter_of_a_seal_can_be_changed(guard: Guard) -> None:
    sealed = guard.seal({"a": 1})
    for place in range(len(sealed) - 1):  # of the last letter, some bits stand for nothing
        other = "A" if sealed[place] != "A" else "B"
        assert guard.open(sealed[:place] + other + sealed[place + 1 :]) is None


@pytest.mark.parametrize("text", ["", "=", "!!", "é", "AAAA", "A" * 10_000])
def test_what_was_not_sealed_is_nothing(guard: Guard, text: str) -> None:
    assert guard.open(text) is None


def test_the_token_of_a_form_is_for_one_session_and_some_hours(guard: Guard) -> None:
    token = guard.form_token("session 1", NOW)
    assert guard.is_form_token(token, "session 1", NOW)
    assert guard.is_form_token(token, "session 1", NOW + FORM_S)
    assert not guard.is_form_token(token, "session 1", NOW + FORM_S + 1)
    assert not guard.is_form_token(token, "session 1", NOW - 1)
    assert not guard.is_form_token(token, "session 2", NOW)
    assert not Guard(bytes([1]) * 32).is_form_token(token, "session 1", NOW)
    assert guard.form_token("session 1", NOW) != token


@pytest.mark.parametrize("token", ["", ".", "a.b.c", "é.é.é", "0" * 100])
def test_another_text_is_no_token_of_a_form(guard: Guard, token: str) -> None:
    assert not guard.is_form_token(token, "session 1", NOW)


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-origin", "origin": "https://elsewhere", "host": "analyst"}, True),
        ({"sec-fetch-site": "cross-site", "origin": "https://analyst", "host": "analyst"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"origin": "https://analyst:8443", "host": "analyst:8443"}, True),
        ({"origin": "https://analyst:8443", "host": "analyst"}, False),
        ({"origin": "null", "host": "analyst"}, False),
        ({"host": "analyst"}, False),
        ({"origin": "https://", "host": ""}, False),
        ({}, False),
    ],
)
def test_only_a_page_of_ours_is_believed(headers: dict[str, str], ours: bool) -> None:
    assert is_from_our_page(headers) is ours


@pytest.mark.parametrize(
    ("headers", "is_foreign"),
    [
        ({}, False),
        ({"host": "analyst"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"origin": "https://analyst", "host": "analyst"}, False),
        ({"origin": "https://elsewhere", "host": "analyst"}, True),
        ({"origin": "null", "host": "analyst"}, True),
    ],
)
def test_another_site_is_told_from_a_program(headers: dict[str, str], is_foreign: bool) -> None:
    assert is_from_another_site(headers) is is_foreign


def test_pages_without_tls_are_believed_by_their_own_scheme_alone() -> None:
    headers = {"origin": "http://127.0.0.1:8700", "host": "127.0.0.1:8700"}
    assert is_from_our_page(headers, "http")
    assert not is_from_our_page(headers)
    assert not is_from_our_page({**headers, "origin": "http://127.0.0.1:8701"}, "http")


def test_a_key_is_not_shown(guard: Guard) -> None:
    assert repr(guard) == "<Guard>"
