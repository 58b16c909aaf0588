"""What a browser shows of a round that was held: in the light, in the dark, and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.harness.browser import pem_files, sign_in, visiting
from tests.harness.consortium import Consortium
from user_client.custody.home import Home
from user_client.sdk import Session, invite, join

PHONE = {"viewport": {"width": 360, "height": 740}}


@pytest.fixture(scope="module")
def released(made: Consortium) -> str:
    found = made.anchored(title="Readmission within 30 days")
    made.contribute_all(found, 150)  # enough for curves
    made.wait_for(found, "training")
    made.wait_for_all_judgements()
    return found


def test_a_bare_address_leads_to_the_sign_in_and_back(browser: Browser, made: Consortium, read: str) -> None:
    with visiting(browser, made.analyst.url) as seen:
        seen.open("/")
        expect(seen.page).to_have_title("Sign in · ODC analyst")
        seen.shot("sign-in")
        sign_in(seen, read)
        expect(seen.page).to_have_title("Collaborations · ODC analyst")


def test_every_page_of_a_round(browser: Browser, made: Consortium, released: str, read: str) -> None:
    with visiting(browser, made.analyst.url) as seen:
        seen.open("/pages")
        sign_in(seen, read)
        seen.shot("collaborations")
        seen.click("Readmission within 30 days")
        for tab, words in (
            ("", "Institutions"),
            ("Report", "Bytes on the wire"),
            ("Terms", "What every institution signs"),
            ("Ledger", "Every step, in its order"),
        ):
            if tab:
                seen.click(tab)
            expect(seen.page.get_by_role("heading", name=words)).to_be_visible()
            seen.shot(f"round-{tab.lower() or 'standing'}")
            if tab == "Report":
                expect(seen.page.get_by_role("img", name="ROC, ").first).to_be_visible()
            assert seen.page.locator("link[rel=alternate]").get_attribute("href")


def test_pages_on_a_phone(browser: Browser, made: Consortium, released: str, read: str) -> None:
    with visiting(browser, made.analyst.url, **PHONE) as seen:
        seen.open(f"/pages/collaborations/{released}")
        sign_in(seen, read)
        expect(seen.page.get_by_role("heading", name="Readmission within 30 days")).to_be_visible()
        seen.shot("phone-standing")
        seen.click("Report")
        seen.shot("phone-report")


def test_an_institution_looks_with_its_certificate(browser: Browser, made: Consortium, released: str) -> None:
    home: Home = made.sessions["hospital-b"].home
    shown = {"origin": made.analyst.url, **pem_files(home.path)}
    with visiting(browser, made.analyst.url, client_certificates=[shown]) as seen:
        seen.open("/pages")
        expect(seen.page.get_by_text("hospital-b, reads only")).to_be_visible()
        seen.click("Readmission within 30 days")
        seen.shot("member-standing")
        seen.click("API tokens")
        expect(seen.page.get_by_role("heading", name="API tokens of hospital-b")).to_be_visible()
        seen.shot("member-tokens")


def test_the_lead_rejects_a_request(browser: Browser, made: Consortium) -> None:
    newcomer = Session(made.analyst.data_dir.parent / "newcomer")
    assert join(newcomer, invite(made.lead, "newcomer")) is None
    shown = {"origin": made.analyst.url, **pem_files(made.lead.home.path)}
    with visiting(browser, made.analyst.url, client_certificates=[shown]) as seen:
        seen.open("/pages")
        seen.click("Requests")
        seen.shot("lead-requests")
        seen.click("Reject newcomer")
        seen.page.get_by_label("Reason").fill("not one of us")
        seen.page.get_by_label("I have read").check()
        seen.shot("lead-reject")
        seen.click("Reject newcomer", "button")
        expect(seen.page.get_by_text("Nobody waits.")).to_be_visible()
