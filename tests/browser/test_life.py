"""The life of a collaboration, by clicking: published, released, closed; and by the keyboard alone."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.harness.browser import Watched, draft_in_toml, enter, press_until, sign_in, visiting
from tests.harness.consortium import WAIT_S, Consortium, rows

READ = "I have read what this does"


def wait_for_link(seen: Watched, words: str) -> None:
    """Wait until the page shows a link by itself: a round is being computed meanwhile."""
    expect(seen.page.get_by_role("link", name=words, exact=True)).to_be_visible(timeout=1000 * WAIT_S)


def take(seen: Watched, words: str, picture: str = "") -> None:
    """Take a step: click it, read what it does, tick the box, click it again."""
    seen.click(words)
    if picture:
        seen.shot(picture)
    seen.page.get_by_label(READ).check()
    seen.click(words, "button")


def stands_at(seen: Watched, state: str) -> None:
    expect(seen.page.locator(".steps [aria-current=step]")).to_have_text(state)


def published(seen: Watched) -> str:
    return seen.page.url.rpartition("/")[2]


def test_a_collaboration_from_its_draft_to_its_end(
    browser: Browser, made: Consortium, manage: str, tmp_path: Path
) -> None:
    file = tmp_path / "terms.toml"
    file.write_text(draft_in_toml(made.names, title="Asthma"))
    with visiting(browser, made.analyst.url) as seen:
        seen.open("/pages")
        sign_in(seen, manage)
        seen.click("New collaboration")
        seen.page.get_by_label("Open a file").set_input_files(file)
        expect(seen.page.get_by_label("The draft")).to_have_value(file.read_text())
        seen.shot("new")
        seen.click("Check the draft", "button")
        expect(seen.page.get_by_text("Lead institution: lead-hospital")).to_be_visible()
        seen.shot("new-checked")
        seen.page.get_by_label("I have read the terms").check()
        seen.click("Publish the terms", "button")

        stands_at(seen, "enrolling")
        found = published(seen)
        expect(seen.page.get_by_label("A text to send to them")).to_have_value(
            re.compile(f"odc round rows.csv --collaboration {found}")
        )
        seen.shot("life-enrolling")
        for session in made.sessions.values():
            session.round(found).accept()
        made.lead.round(found).create_anchor()
        made.contribute_all(found)
        wait_for_link(seen, "Release the model")
        expect(seen.page.locator("#state")).to_have_text("training, held")
        expect(seen.page.locator("#said")).to_have_text("Training, held. Waits for the analyst.")
        take(seen, "Release the model", "life-release")
        stands_at(seen, "released")
        for session in made.sessions.values():
            session.round(found).receive()
        expect(seen.page.get_by_text("fetched", exact=True)).to_have_count(len(made.names))
        take(seen, "Close the collaboration", "life-close")
        stands_at(seen, "closed")
        seen.shot("life-closed")
        assert made.state(found) == "closed"


def test_one_institution_is_left_out_and_the_round_is_computed_again(
    browser: Browser, made: Consortium, manage: str
) -> None:
    found = made.anchored(title="Left out")
    made.contribute("lead-hospital", found, rows(1, 40))
    made.contribute("hospital-b", found, rows(2, 40))
    with visiting(browser, made.analyst.url) as seen:
        seen.open(f"/pages/collaborations/{found}")
        sign_in(seen, manage)
        take(seen, "Exclude hospital-c", "life-exclude")
        expect(seen.page.get_by_text("excluded", exact=True)).to_be_visible()
        wait_for_link(seen, "Compute the round again")
        take(seen, "Compute the round again")
        wait_for_link(seen, "Exclude hospital-b")
        made.wait_for_all_judgements()  # meanwhile a worker has the round, and nobody is excluded
        take(seen, "Exclude hospital-b")
        expect(
            seen.page.get_by_text("hospital-b was excluded, and the model was trained before")
        ).to_be_visible()
        seen.shot("life-failed")
        take(seen, "Cancel the collaboration", "life-cancel")
        assert made.state(found) == "cancelled"


def test_a_round_is_sealed_without_an_institution_that_sends_nothing(
    browser: Browser, made: Consortium, manage: str
) -> None:
    found = made.anchored(title="Sealed by hand")
    made.contribute("lead-hospital", found, rows(1, 40))
    made.contribute("hospital-b", found, rows(2, 40))
    with visiting(browser, made.analyst.url) as seen:
        seen.open(f"/pages/collaborations/{found}")
        sign_in(seen, manage)
        seen.click("Seal the round now")
        expect(seen.page.get_by_text("this concerns hospital-c")).to_be_visible()
        seen.click("Do nothing")
        stands_at(seen, "collecting")
        take(seen, "Seal the round now", "life-seal")
        wait_for_link(seen, "Release the model")
        uplinks = {one["party"]: one["uplink"] for one in made.lead.round(found).status()["members"]}
        assert uplinks == {"lead-hospital": "received", "hospital-b": "received", "hospital-c": "none"}


def test_corrected_terms_replace_those_of_a_collaboration(
    browser: Browser, made: Consortium, manage: str
) -> None:
    earlier = made.publish(title="With a mistake")
    with visiting(browser, made.analyst.url) as seen:
        seen.open("/pages/new")
        sign_in(seen, manage)
        draft = draft_in_toml(made.names, title="Corrected")
        seen.page.get_by_label("The draft").fill(draft)
        seen.page.get_by_label("the corrected terms of").select_option(earlier)
        seen.shot("new-replaces")
        seen.click("Check the draft", "button")
        expect(seen.page.get_by_text(f"With a mistake ({earlier[:8]}) is cancelled by this")).to_be_visible()
        seen.shot("new-replaces-checked")
        seen.click("Back to the draft", "button")
        expect(seen.page.get_by_label("The draft")).to_have_value(draft)
        expect(seen.page.get_by_label("the corrected terms of")).to_have_value(earlier)
        seen.click("Check the draft", "button")
        seen.page.get_by_label("I have read the terms").check()
        seen.click("Publish the terms", "button")
        stands_at(seen, "enrolling")
        assert made.state(earlier) == "cancelled"
        assert made.sessions["hospital-b"].round(published(seen)).fetch_terms().replaces == earlier


def test_a_draft_that_is_wrong_is_shown_with_its_line_and_kept(
    browser: Browser, made: Consortium, manage: str
) -> None:
    with visiting(browser, made.analyst.url) as seen:
        seen.expected = (400,)
        seen.open("/pages/new")
        sign_in(seen, manage)
        wrong = draft_in_toml(made.names).replace('"haar"', '"harr"')
        seen.page.get_by_label("The draft").fill(wrong)
        seen.click("Check the draft", "button")
        expect(seen.page.get_by_role("alert")).to_contain_text("line")
        expect(seen.page.get_by_label("The draft")).to_have_value(wrong)
        seen.shot("new-wrong")


def test_a_collaboration_by_the_keyboard_alone(browser: Browser, made: Consortium, manage: str) -> None:
    with visiting(browser, made.analyst.url) as seen:
        page = seen.page
        seen.open("/pages")
        page.keyboard.type(manage)  # the field has the focus
        enter(page)
        expect(page).to_have_title("Collaborations · ODC analyst")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # past the navigation
        assert page.evaluate("() => document.activeElement.id") == "content"
        page.reload()
        press_until(page, "New collaboration")
        enter(page)
        press_until(page, "The draft")
        page.keyboard.insert_text(draft_in_toml(made.names, title="By the keyboard"))
        press_until(page, "Check the draft")
        enter(page)
        press_until(page, "I have read the terms")
        page.keyboard.press("Space")
        press_until(page, "Publish the terms")
        enter(page)
        expect(page.get_by_role("heading", name="By the keyboard")).to_be_visible()
        found = published(seen)
        for session in made.sessions.values():
            session.round(found).accept()
        made.lead.round(found).create_anchor()
        made.contribute_all(found)
        wait_for_link(seen, "Release the model")
        by_keys(page, "Release the model")
        stands_at(seen, "released")
        for session in made.sessions.values():
            session.round(found).receive()
        expect(page.get_by_text("fetched", exact=True)).to_have_count(len(made.names))
        by_keys(page, "Close the collaboration")
        stands_at(seen, "closed")
        assert made.state(found) == "closed"


def by_keys(page: Page, words: str) -> None:
    """Take a step as `take` does, without a mouse."""
    press_until(page, words)
    enter(page)
    press_until(page, READ)
    page.keyboard.press("Space")
    press_until(page, words)
    enter(page)
