"""Pages on a phone, with names and digests that are longer than it is wide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from playwright.sync_api import Browser, expect

from tests.harness.browser import Watched, origin_of, own_pages, pem_files, sign_in, visiting
from tests.harness.consortium import WAIT_S, Consortium, rows
from user_client.sdk import Session, create_token, invite, join, reject_terms

PHONE = {"viewport": {"width": 375, "height": 740}}
OURS = "hospital-b"
LONG = "w" * 64
LONG_PARTY = "h" * 63


@contextmanager
def ours(browser: Browser, made: Consortium, **options: Any) -> Iterator[Watched]:
    """Open the pages of an institution."""
    home = made.sessions[OURS].home.path
    with own_pages(home) as address, visiting(browser, origin_of(address), **options) as seen:
        seen.open(address.removeprefix(seen.origin))
        yield seen


@pytest.fixture(scope="module")
def long_round(made: Consortium) -> str:
    found = made.publish(title=LONG)
    reject_terms(made.sessions["hospital-c"], found, "r" * 200)
    return found


def test_the_analysts_pages_are_not_wider_than_a_phone(
    browser: Browser, made: Consortium, long_round: str, read: str
) -> None:
    with visiting(browser, made.analyst.url, **PHONE) as seen:
        seen.open("/pages")
        sign_in(seen, read)
        seen.shot("narrow-collaborations")
        for page in ("", "/ledger", "/terms"):
            seen.open(f"/pages/collaborations/{long_round}{page}")
            seen.shot(f"narrow-round{page.replace('/', '-')}")


def test_long_names_of_keys_are_not_wider_than_a_phone(browser: Browser, made: Consortium) -> None:
    newcomer = Session(made.analyst.data_dir.parent / LONG_PARTY)
    assert join(newcomer, invite(made.lead, LONG_PARTY)) is None
    create_token(made.lead, lifetime_s=3600, label=LONG)
    shown = {"origin": made.analyst.url, **pem_files(made.lead.home.path)}
    with visiting(browser, made.analyst.url, client_certificates=[shown], **PHONE) as seen:
        seen.open("/pages/tokens")
        expect(seen.page.get_by_role("heading", name=LONG)).to_be_visible()
        seen.shot("narrow-tokens")
        seen.open("/pages/requests")
        seen.click(f"Reject {LONG_PARTY}")
        seen.page.get_by_label("Reason").fill("not one of us")
        seen.page.get_by_label("I have read").check()
        seen.shot("narrow-reject")
        seen.click(f"Reject {LONG_PARTY}", "button")
        expect(seen.page.get_by_text("Nobody waits.")).to_be_visible()


def test_our_own_pages_are_not_wider_than_a_phone(
    browser: Browser, made: Consortium, long_round: str
) -> None:
    with ours(browser, made, **PHONE) as seen:
        seen.shot("narrow-own-rounds")
        for page in ("", "/ledger", "/terms"):
            seen.open(f"/ui/rounds/{long_round}{page}")
            seen.shot(f"narrow-own-round{page.replace('/', '-')}")
        seen.open(f"/ui/rounds/{long_round}/table")
        seen.page.get_by_label("The table").fill(f"/nowhere/{LONG}{LONG}.csv")
        seen.expected = (400,)
        seen.click("Compare it with the terms", "button")
        expect(seen.page.get_by_role("alert")).to_contain_text("nowhere")
        seen.shot("narrow-own-problem")


def test_a_picture_of_rows_is_not_wider_than_a_phone(
    browser: Browser, made: Consortium, tmp_path: Path
) -> None:
    found, path = made.anchored(title="Pictures on a phone"), tmp_path / f"{LONG}.csv"
    pyarrow.csv.write_csv(rows(7, 60), path)
    with ours(browser, made, **PHONE) as seen:
        seen.open(f"/ui/rounds/{found}/table")
        seen.page.get_by_label("The table").fill(str(path))
        seen.page.get_by_label("For rows that are pictures").fill("2x2")
        seen.click("Show what would leave", "button")
        heading = seen.page.get_by_role("heading", name="What would leave, and its risk")
        expect(heading).to_be_visible(timeout=1000 * WAIT_S)
        seen.shot("narrow-own-leaving")
        seen.open(f"/ui/rounds/{found}/table")
        seen.click("Compare it with the terms", "button")
        expect(seen.page.get_by_role("heading", name="The table fits")).to_be_visible(timeout=1000 * WAIT_S)
        seen.shot("narrow-own-table")
