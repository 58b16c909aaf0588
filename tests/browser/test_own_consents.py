"""An institution's own pages where something more is to be ticked, and where there is nothing to do yet."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.csv
from playwright.sync_api import Browser, expect

from tests.harness.browser import Watched, origin_of, own_pages, visiting
from tests.harness.consortium import WAIT_S, Consortium, rows
from user_client.sdk import Session, invite, join
from user_client.sdk.approval import reject

OURS = "hospital-b"
SIGNAL_LOST = "The leading axes hold less of our own score"


@contextmanager
def opened(browser: Browser, home: Path, title: str = "") -> Iterator[Watched]:
    """Open the pages of an institution, and a round of it."""
    with own_pages(home) as address, visiting(browser, origin_of(address)) as seen:
        seen.open(address.removeprefix(seen.origin))
        if title:
            seen.click(title)
        yield seen


def worked(seen: Watched, words: str) -> None:
    expect(seen.page.get_by_role("heading", name=words)).to_be_visible(timeout=1000 * WAIT_S)


def prepare(seen: Watched, path: Path) -> None:
    seen.click("Our table")
    seen.page.get_by_label("The table").fill(str(path))
    seen.click("Show what would leave", "button")
    worked(seen, "What would leave, and its risk")


def test_who_has_not_joined_is_told_how(browser: Browser, made: Consortium, tmp_path: Path) -> None:
    with opened(browser, tmp_path / "nobody") as seen:
        seen.open("/")  # leads to the pages
        expect(seen.page.get_by_text("odc join INVITATION")).to_be_visible()
        seen.shot("own-nobody")
        seen.expected = (404,)
        seen.open("/ui/nothing")
        seen.shot("own-no-page")


def test_the_lead_sees_who_waits_for_a_certificate(browser: Browser, made: Consortium) -> None:
    late = Session(made.analyst.data_dir.parent / "late-hospital")
    assert join(late, invite(made.lead, "late-hospital")) is None
    with opened(browser, made.lead.home.path) as seen:
        expect(seen.page.get_by_text("late-hospital waits for a certificate")).to_be_visible()
        seen.shot("own-waiting-for-a-certificate")
    reject(made.lead, "late-hospital", "only to be seen")  # other tests find nobody waiting


def test_a_consumer_consents_to_a_model_that_reveals_rows_and_to_sending_none(
    browser: Browser, made: Consortium, tmp_path: Path
) -> None:
    found = made.publish(title="With support vectors", model={"kind": "svm"})
    path = tmp_path / "empty.csv"
    pyarrow.csv.write_csv(rows(7, 1).slice(1), path)
    with opened(browser, made.sessions[OURS].home.path, "With support vectors") as seen:
        seen.click("Terms")
        seen.page.get_by_label("I have read the terms").check()
        seen.click("Sign the terms", "button")  # the browser asks for the other box
        expect(seen.page.get_by_role("button", name="Sign the terms")).to_be_visible()
        seen.page.get_by_label("Members may map rows inside").check()
        seen.shot("own-row-revealing")
        seen.click("Sign the terms", "button")
        expect(seen.page.locator("#now").get_by_text("Nothing to do for now")).to_be_visible()
        for name, session in made.sessions.items():
            if name != OURS:
                session.round(found).accept(accept_row_revealing_model=True)
        made.lead.round(found).create_anchor()
        prepare(seen, path)
        seen.page.get_by_label("I have seen what would leave").check()
        seen.page.get_by_label("We mean to receive the model without contributing").check()
        seen.shot("own-consumer")
        seen.click("Send it", "button")
        worked(seen, "What comes next")
    ours = next(one for one in made.lead.round(found).status()["members"] if one["party"] == OURS)
    assert ours["uplink"] == "received"


def test_who_would_lose_the_signal_has_to_tick_that(
    browser: Browser, made: Consortium, tmp_path: Path
) -> None:
    found = made.anchored(title="One dimension", latent_dim=1, least_signal=0.95)
    path = tmp_path / "rows.csv"
    pyarrow.csv.write_csv(rows(7, 300), path)
    with opened(browser, made.sessions[OURS].home.path, "One dimension") as seen:
        seen.click("Our table")
        seen.page.get_by_label("The table").fill(str(path))
        seen.click("Compare it with the terms", "button")
        worked(seen, "The table fits")
        expect(
            seen.page.locator("#checked").get_by_text("The terms ask for 0.95", exact=False)
        ).to_be_visible()
        seen.shot("own-table-warns")
        prepare(seen, path)
        seen.page.get_by_label("I have seen what would leave").check()
        seen.page.get_by_label(SIGNAL_LOST).check()
        seen.shot("own-signal-lost")
        seen.click("Send it", "button")
        worked(seen, "What comes next")
    ours = next(one for one in made.lead.round(found).status()["members"] if one["party"] == OURS)
    assert ours["uplink"] == "received"


def test_work_under_way_has_a_page(browser: Browser, made: Consortium, tmp_path: Path) -> None:
    made.anchored(title="A slow line")
    path = tmp_path / "rows.csv"
    pyarrow.csv.write_csv(rows(7, 60), path)
    server = made.analyst.server
    assert server is not None
    with opened(browser, made.sessions[OURS].home.path, "A slow line") as seen:
        prepare(seen, path)
        seen.page.get_by_label("I have seen what would leave").check()
        os.kill(server.pid, signal.SIGSTOP)  # the uplink waits for an answer meanwhile
        try:
            seen.click("Send it", "button")
            expect(seen.page.get_by_role("heading", name="The uplink is sent")).to_be_visible()
            seen.shot("own-work")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        worked(seen, "What comes next")
