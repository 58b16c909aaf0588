"""What a page keeps while it renews itself: the focus, what is marked, and what a script has shown."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.harness.browser import Watched, origin_of, own_pages, sign_in, visiting
from tests.harness.consortium import Consortium

OURS = "hospital-b"
PHONE = {"viewport": {"width": 375, "height": 740}}
STANDS = """() => {
  const region = document.getElementById("institutions");
  return [document.activeElement.id, region.scrollLeft, getSelection().toString()];
}"""


def was_asked(page: Page) -> int:
    """Wait until a page has asked for its renewal, and return the status of the answer."""
    with page.expect_response(lambda answer: "/live" in answer.url) as found:
        pass
    return found.value.status


def mark(page: Page) -> Any:
    """Move the table of institutions sideways with the focus in it, and select a word; return what stands."""
    page.locator("#institutions").focus()
    page.locator("#institutions").evaluate("(region) => { region.scrollLeft = 40; }")
    page.locator("#institutions th[scope=row]").first.evaluate(
        "(cell) => getSelection().selectAllChildren(cell)"
    )
    return page.evaluate(STANDS)


def waiting(seen: Watched, made: Consortium, title: str) -> str:
    found = made.publish(title=title)
    made.sessions[OURS].round(found).accept()
    seen.open(f"/ui/rounds/{found}")
    return found


def test_our_own_page_keeps_focus_and_selection_while_it_waits(browser: Browser, made: Consortium) -> None:
    home = made.sessions[OURS].home.path
    with own_pages(home) as address, visiting(browser, origin_of(address), **PHONE) as seen:
        seen.open(address.removeprefix(seen.origin))
        found = waiting(seen, made, "Waited for")
        before = mark(seen.page)
        assert before == ["institutions", 40, "hospital-b"]
        assert [was_asked(seen.page) for _ in range(2)] == [204, 204]
        assert seen.page.evaluate(STANDS) == before
        made.sessions["hospital-c"].round(found).accept()
        expect(seen.page.locator("#institutions").get_by_text("signed", exact=True)).to_have_count(2)
        assert seen.page.evaluate(STANDS)[0] == "institutions"


def test_an_analyst_that_does_not_answer_is_said_soon(browser: Browser, made: Consortium) -> None:
    server = made.analyst.server
    assert server is not None
    home = made.sessions[OURS].home.path
    with own_pages(home) as address, visiting(browser, origin_of(address)) as seen:
        seen.open(address.removeprefix(seen.origin))
        waiting(seen, made, "Not answered")
        seen.expected = (502,)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            seen.page.reload()
            assert time.monotonic() - began < 15  # one that was asked for before may be waited for too
            expect(seen.page.get_by_role("alert")).to_be_visible()
        finally:
            os.kill(server.pid, signal.SIGCONT)


def test_the_button_that_copies_is_shown_by_a_script_alone(
    browser: Browser, made: Consortium, manage: str
) -> None:
    found = made.publish(title="Copied")
    with visiting(browser, made.analyst.url) as seen:
        seen.open(f"/pages/collaborations/{found}")
        sign_in(seen, manage)
        copy = seen.page.get_by_role("button", name="Copy")
        expect(copy).to_be_visible()
        made.sessions[OURS].round(found).accept()
        expect(seen.page.get_by_text("signed", exact=True)).to_have_count(1)  # by itself
        expect(copy).to_be_visible()
    with visiting(browser, made.analyst.url, java_script_enabled=False) as seen:
        seen.open(f"/pages/collaborations/{found}")
        sign_in(seen, manage)
        expect(seen.page.get_by_label("A text to send to them")).to_be_visible()
        expect(seen.page.locator("[data-copies]")).to_be_hidden()
