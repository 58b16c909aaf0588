"""The manual in a real browser, from a folder: nothing from elsewhere, nobody shut out, searchable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.harness.browser import Watched, chromium, reading
from tests.harness.tree import REPOSITORY

PHONE = {"viewport": {"width": 360, "height": 740}}
ROLES = ("for-data-engineers", "for-operators", "for-security-officers", "for-integrators", "research")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chromium()
    if made := os.environ.get("ODC_TEST_MANUAL"):  # the one that `make manual` has just made
        return Path(made)
    built = tmp_path_factory.mktemp("manual")
    words = ("-m", "sphinx", "--fail-on-warning", "--quiet", "--conf-dir", "manual", ".", str(built))
    done = subprocess.run(
        [sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.fixture
def manual(browser: Browser, site: Path) -> Iterator[Watched]:
    with reading(browser, site) as watched:
        yield watched


def test_the_entrance_leads_to_the_manual(manual: Watched) -> None:
    manual.open("/index.html")
    expect(manual.page.get_by_role("heading", name="Manual", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    "name", ["index", "start", "round", "faq", "glossary", "rest-analyst", "protocol", *ROLES]
)
def test_a_page_shuts_nobody_out(manual: Watched, name: str) -> None:
    manual.open(f"/docs/{name}.html")
    manual.look(f"manual-{name}")


def test_every_page_opens_without_a_complaint(manual: Watched, site: Path) -> None:
    pages = sorted(site.glob("*/**/*.html"))  # not the entrance, which leads on at once
    assert len(pages) > 80
    for path in pages:
        manual.open(f"/{path.relative_to(site)}")


@pytest.mark.parametrize("name", ["index", "round", "cli", "rest-analyst"])
def test_a_page_on_a_phone(browser: Browser, site: Path, name: str) -> None:
    with reading(browser, site, **PHONE) as manual:
        manual.open(f"/docs/{name}.html")
        manual.look(f"manual-phone-{name}")


def test_searching_works_from_a_folder(manual: Watched) -> None:
    manual.open("/search.html?q=dither")
    results = manual.page.locator("#search-results li")
    expect(results.first).to_be_visible()
    expect(manual.page.locator("#search-results")).to_contain_text("privacy report")


def test_a_picture_follows_the_choice_of_dark(manual: Watched) -> None:
    manual.open("/docs/round.html")
    colours = []
    for theme in ("light", "dark"):
        manual.page.evaluate("theme => document.body.dataset.theme = theme", theme)
        script = "() => getComputedStyle(document.querySelector('.odc-picture text')).fill"
        colours.append(manual.page.evaluate(script))
    assert colours[0] != colours[1]


def test_pictures_have_words_for_those_who_do_not_see_them(manual: Watched) -> None:
    for name, many in (("round", 5), ("protocol", 1)):
        manual.open(f"/docs/{name}.html")
        pictures = manual.page.locator("svg.odc-picture")
        assert pictures.count() == many
        for number in range(many):
            assert len(pictures.nth(number).get_attribute("aria-label") or "") > 60
