"""The institution's own pages in a browser: a round from the terms to predictions, by clicking."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pyarrow.csv
from playwright.sync_api import Browser, expect

from analyst_server.services import rounds
from runtime.standing import standing
from tests.harness.browser import Watched, enter, origin_of, own_pages, press_until, visiting
from tests.harness.consortium import WAIT_S, Consortium, rows

OURS = "hospital-b"
PHONE = {"viewport": {"width": 360, "height": 740}}


def opened(seen: Watched, address: str, title: str) -> None:
    """Come by the address that opens once, and go to a round."""
    seen.open(address.removeprefix(seen.origin))
    expect(seen.page).to_have_url(f"{seen.origin}/ui")
    seen.click(title)


def worked(seen: Watched, words: str) -> None:
    """Wait until a piece of work is over, and the page that shows what it found has come."""
    expect(seen.page.get_by_role("heading", name=words)).to_be_visible(timeout=1000 * WAIT_S)


def send_others_and_release(made: Consortium, found: str) -> None:
    """Let the others send, and the operator release the model that is held."""
    for seed, name in enumerate(made.names):
        if name != OURS:
            made.contribute(name, found, rows(seed, 40))
    deadline = time.monotonic() + WAIT_S
    while not standing(made.lead.round(found).status()).is_held:
        assert time.monotonic() < deadline, made.state(found)
        time.sleep(0.1)
    with made.operator() as analyst:
        rounds.release(analyst, found)


def test_a_round_from_the_terms_to_predictions(browser: Browser, made: Consortium, tmp_path: Path) -> None:
    found = made.publish(title="Sepsis within a day")
    path, wrong = tmp_path / "rows.csv", tmp_path / "wrong.csv"
    pyarrow.csv.write_csv(rows(7, 60), path)
    wrong.write_text(path.read_text().replace('"x3"', '"y3"'))
    with own_pages(made.sessions[OURS].home.path) as address, visiting(browser, origin_of(address)) as seen:
        seen.open(address.removeprefix(seen.origin))
        seen.shot("own-rounds")
        seen.click("Sepsis within a day")
        seen.shot("own-round")
        seen.click("Our table")
        seen.page.get_by_label("The table").fill(str(wrong))
        seen.click("Compare it with the terms", "button")
        worked(seen, "The table does not fit")
        seen.shot("own-misfits")
        seen.page.get_by_label("The table").fill(str(path))
        seen.click("Compare it with the terms", "button")
        worked(seen, "The table fits")
        seen.shot("own-table")
        seen.click("Terms")
        seen.shot("own-terms")
        seen.page.get_by_label("I have read the terms").check()
        seen.click("Sign the terms", "button")
        expect(seen.page.locator("#now").get_by_text("Nothing to do for now")).to_be_visible()

        for name, session in made.sessions.items():
            if name != OURS:
                session.round(found).accept()
        made.lead.round(found).create_anchor()
        expect(seen.page.locator("#now").get_by_text("It is your turn to send")).to_be_visible()  # by itself
        seen.click("Choose the table and look at what would leave")
        seen.page.get_by_label("For rows that are pictures").fill("2x2")
        seen.click("Show what would leave", "button")
        worked(seen, "What would leave, and its risk")
        expect(seen.page.get_by_role("img", name="Each line is a row")).to_be_visible()
        seen.shot("own-leaving")
        assert made.state(found) == "anchored"  # nothing has left so far
        seen.page.get_by_label("I have seen what would leave").check()
        seen.click("Send it", "button")
        worked(seen, "What comes next")
        send_others_and_release(made, found)
        expect(seen.page.get_by_role("button", name="Fetch the model")).to_be_visible(timeout=60_000)
        seen.shot("own-released")
        seen.click("Fetch the model", "button")
        expect(seen.page.get_by_role("link", name="Predict a table")).to_be_visible(timeout=60_000)
        seen.click("Predict a table")
        seen.click("Predict", "button")
        worked(seen, "60 rows predicted")
        seen.click("Explain the answers", "button")
        worked(seen, "Where the answers come from")
        seen.shot("own-predictions")
        for tab in ("Model card", "Ledger", "What has left"):
            seen.click(tab)
            seen.shot(f"own-{tab.split()[-1].lower()}")
            twin = seen.page.locator("link[rel=alternate]").get_attribute("href")
            assert seen.page.request.get(f"{seen.origin}{twin}").headers["content-type"] == "application/json"


def test_an_institution_by_the_keyboard_alone(browser: Browser, made: Consortium, tmp_path: Path) -> None:
    found, path = made.publish(title="By keys alone"), tmp_path / "rows.csv"
    pyarrow.csv.write_csv(rows(7, 60), path)
    with own_pages(made.sessions[OURS].home.path) as address, visiting(browser, origin_of(address)) as seen:
        page = seen.page
        seen.open(address.removeprefix(seen.origin))
        press_until(page, "By keys alone")
        enter(page)
        press_until(page, "Read and sign the terms")
        enter(page)
        press_until(page, "I have read the terms")
        page.keyboard.press("Space")
        press_until(page, "Sign the terms")
        enter(page)
        for name, session in made.sessions.items():
            if name != OURS:
                session.round(found).accept()
        made.lead.round(found).create_anchor()
        expect(page.get_by_role("link", name="Choose the table")).to_be_visible()
        press_until(page, "Choose the table")
        enter(page)
        press_until(page, "The table")
        page.keyboard.type(str(path))
        press_until(page, "Show what would leave")
        enter(page)
        worked(seen, "What would leave, and its risk")
        press_until(page, "I have seen what would leave")
        page.keyboard.press("Space")
        press_until(page, "Send it")
        enter(page)
        worked(seen, "What comes next")
        uplinks = {one["party"]: one["uplink"] for one in made.lead.round(found).status()["members"]}
        assert uplinks[OURS] == "received"


def test_terms_are_rejected_on_a_phone(browser: Browser, made: Consortium) -> None:
    found = made.publish(title="Not like this")
    home = made.sessions[OURS].home.path
    with own_pages(home) as address, visiting(browser, origin_of(address), **PHONE) as seen:
        opened(seen, address, "Not like this")
        seen.shot("own-phone-round")
        seen.click("Terms")
        seen.page.get_by_label("Reason").fill("the label is not ours to give")
        seen.shot("own-phone-terms")
        seen.click("Reject the terms", "button")
        expect(seen.page.locator("#now").get_by_text("for other terms")).to_be_visible()
        ours = next(m for m in made.lead.round(found).status()["members"] if m["party"] == OURS)
        assert ours["rejected"] == "the label is not ours to give"
        with visiting(browser, seen.origin) as other:  # the address was used
            other.expected = (403,)
            other.open(address.removeprefix(other.origin))
            expect(other.page.get_by_role("alert")).to_contain_text("has been used")


def test_pages_that_nobody_looks_at_end_by_themselves(made: Consortium) -> None:
    with own_pages(made.sessions[OURS].home.path, "--idle", "0.01") as address:
        deadline = time.monotonic() + 60
        while answers(origin_of(address)):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def answers(origin: str) -> bool:
    """Return whether somebody listens, without asking for a page."""
    host, _, port = origin.removeprefix("http://").partition(":")
    with socket.socket() as asking:
        return asking.connect_ex((host, int(port))) == 0


def test_the_lead_creates_the_anchor(browser: Browser, made: Consortium) -> None:
    found = made.publish(title="By the lead")
    for session in made.sessions.values():
        session.round(found).accept()
    home = made.lead.home.path
    with own_pages(home) as address, visiting(browser, origin_of(address)) as seen:
        opened(seen, address, "By the lead")
        seen.shot("own-anchor")
        seen.click("Create the anchor", "button")
        expect(seen.page.get_by_role("link", name="Choose the table")).to_be_visible(timeout=1000 * WAIT_S)
        assert made.state(found) == "anchored"
        seen.click("Our table")
        seen.page.get_by_label("The table").fill(str(home / "nowhere.csv"))
        seen.expected = (400,)
        seen.click("Show what would leave", "button")
        expect(seen.page.get_by_role("alert")).to_contain_text("nowhere.csv")
        seen.shot("own-problem")
