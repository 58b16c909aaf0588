"""Templates escape, miss nothing silently, and load files whose content is known."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from pages.rendering import POLICY, Templates, marked, sentence, static_file, static_url
from tests.harness.tree import REPOSITORY

TEMPLATES = [
    *sorted((REPOSITORY / "pages" / "templates").glob("*.html")),
    *sorted((REPOSITORY / "analyst_server" / "pages" / "templates").glob("*.html")),
    *sorted((REPOSITORY / "user_client" / "ui" / "templates").glob("*.html")),
]


def test_htmx_is_the_file_that_the_readme_names() -> None:
    found = static_file("htmx.min.js")
    assert found is not None
    said = (REPOSITORY / "pages" / "static" / "README.md").read_text()
    assert hashlib.sha256(found.content).hexdigest() in said
    assert b'version:"2.0.11"' in found.content


def test_no_other_file_can_be_asked_for() -> None:
    for name in ("README.md", "../guard.py", "", "pages.css/"):
        assert static_file(name) is None


def test_the_address_of_a_file_names_its_content() -> None:
    found = static_file("pages.css")
    assert found is not None
    assert static_url("/pages", "pages.css") == f"/pages/static/pages.css?{found.tag}"
    with pytest.raises(KeyError):
        static_url("/pages", "other.css")


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        Templates("analyst_server.pages").render("standalone.html", title="t")


def test_the_policy_allows_our_own_files_and_nothing_inline() -> None:
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_nothing_inline_and_names_no_other_host(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\son[a-z]+=|\sstyle=|javascript:|https?://|//[a-z]|\|\s*safe\b", text)
    if path.name != "standalone.html":
        assert "<style" not in text
        assert not re.search(r"<script(?! src=)", text)


def test_style_and_script_load_nothing() -> None:
    for name in ("pages.css", "pages.js"):
        found = static_file(name)
        assert found is not None
        assert not re.search(rb"url\(|@import|https?:|fetch\(|eval|innerHTML", found.content)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no table is named", "No table is named"),
        ("title, and so on", "Title, and so on"),
        ("sqlite:////tmp/none.db is none", "sqlite:////tmp/none.db is none"),
        ("hospital-c is not the lead", "hospital-c is not the lead"),
        ("rows.csv is empty", "rows.csv is empty"),
        ("--sheet goes with a workbook", "--sheet goes with a workbook"),
        ("", ""),
    ],
)
def test_a_name_that_begins_a_text_is_not_changed(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_commands_are_marked_and_nothing_else_becomes_part_of_the_page() -> None:
    assert marked("run `odc round <TABLE>` & wait") == "run <code>odc round &lt;TABLE&gt;</code> &amp; wait"
    assert marked("a single ` is none") == "a single ` is none"
