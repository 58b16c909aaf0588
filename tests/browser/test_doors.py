"""The ways into the analyst's pages and out of them, and where a visitor goes astray."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.harness.browser import pem_files, sign_in, visiting
from tests.harness.consortium import Consortium
from user_client.sdk import create_token, list_tokens

HOUR_S = 3600


def test_an_institution_revokes_its_token(browser: Browser, made: Consortium) -> None:
    session = made.sessions["hospital-c"]
    token = create_token(session, lifetime_s=HOUR_S, label="the dashboard in the hall")
    shown = {"origin": made.analyst.url, **pem_files(session.home.path)}
    with visiting(browser, made.analyst.url, client_certificates=[shown]) as seen:
        seen.open("/pages/tokens")
        expect(seen.page.get_by_text("the dashboard in the hall")).to_be_visible()
        seen.page.get_by_label("Refuse this token from now on").check()
        seen.click(f"Revoke {token.row.token_id[:8]}", "button")
        expect(seen.page.get_by_text("revoked", exact=True)).to_be_visible()
        seen.shot("member-token-revoked")
    assert [row.revoked for row in list_tokens(session)] == [True]


def test_who_signs_out_has_to_sign_in_again(browser: Browser, made: Consortium, read: str) -> None:
    with visiting(browser, made.analyst.url) as seen:
        seen.open("/pages")
        sign_in(seen, read)
        expect(seen.page).to_have_title("Collaborations · ODC analyst")
        seen.click("Sign out", "button")
        expect(seen.page).to_have_title("Sign in · ODC analyst")
        seen.page.go_back()
        seen.open("/pages")
        expect(seen.page).to_have_title("Sign in · ODC analyst")


def test_an_address_that_is_none_is_a_page_with_a_way_back(
    browser: Browser, made: Consortium, read: str
) -> None:
    with visiting(browser, made.analyst.url) as seen:
        seen.expected = (404,)
        seen.open("/pages")
        sign_in(seen, read)
        seen.open("/pages/nothing")
        expect(seen.page.get_by_role("alert")).to_contain_text("There is no such page")
        seen.shot("problem")
        seen.click("All collaborations")
        expect(seen.page).to_have_title("Collaborations · ODC analyst")


def test_a_link_from_another_site_asks_once_more(browser: Browser, made: Consortium, read: str) -> None:
    with visiting(browser, made.analyst.url) as seen:
        seen.open("/pages")
        sign_in(seen, read)
        seen.page.goto("about:blank")
        seen.page.set_content(f'<a href="{made.analyst.url}/pages">the analyst</a>')  # as in a mail
        seen.click("the analyst")
        expect(seen.page).to_have_title("One moment · ODC analyst")
        seen.shot("once-more")
        seen.click("Open the page")
        expect(seen.page).to_have_title("Collaborations · ODC analyst")
