"""The manual says what the code says, and its links lead somewhere on a forge as they do in the site."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from manual.__main__ import written
from protocol.states import TRANSITIONS
from tests.harness.tree import REPOSITORY
from tests.harness.written_commands import PAGES, blocks

DOCS = REPOSITORY / "docs"
LINKING = sorted({*PAGES, *(DOCS / "adr").glob("*.md")})
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.mark.parametrize(("path", "text"), [pytest.param(*one, id=one[0].name) for one in written()])
def test_a_page_made_from_the_code_is_as_the_code_says(path: Path, text: str) -> None:
    kept = path.read_text()
    hint = "run `make reference`"
    assert NUMBER.sub("#", kept) == NUMBER.sub("#", text), hint
    # a factorisation may differ in its last digits from machine to machine, and so a point by a pixel
    off = 1.0 if path.name == "alignment.svg" else 0.0
    numbers = zip(NUMBER.findall(kept), NUMBER.findall(text), strict=True)
    assert all(abs(float(one) - float(other)) <= off for one, other in numbers), hint


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    inside = {number for _, lines in blocks(page) for number, _ in lines}
    lines = page.read_text().splitlines()
    kept = [line for number, line in enumerate(lines, start=1) if number not in inside]
    return re.sub(r"`[^`\n]*`", lambda found: found[0].replace("](", "] ("), "\n".join(kept))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, as forges name them after its headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown).strip().lower().replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not re.match("https?:", target):
            yield target


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target in links(page):
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.is_file(), target  # not a folder: the site has no page for one
        assert found.is_relative_to(REPOSITORY), target
        assert not anchor or anchor in anchors(found), target


def test_there_are_many_links() -> None:
    assert sum(len(list(links(page))) for page in LINKING) > 400


def test_every_answer_says_where_it_is_tested_or_measured() -> None:
    _, *answers = (DOCS / "faq.md").read_text().split("\n## ")
    assert len(answers) > 15
    for answer in answers:
        question, text = answer.split("\n", 1)
        assert question.endswith("?"), question
        assert "](" in text, question


def test_the_picture_of_the_states_names_every_step_between_two() -> None:
    shown = re.sub(r"<[^>]+>", " ", (DOCS / "pictures" / "states.svg").read_text())
    for (before, event), after in TRANSITIONS.items():
        if before != after:
            assert {str(before), str(after)} <= set(shown.split())
            assert str(event) in shown, event
