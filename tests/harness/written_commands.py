"""The commands that stand in the documents, as a person would type them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Final

from tests.harness.tree import REPOSITORY

PAGES: Final = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])
"""The pages of the manual; the decisions in docs/adr tell of their time, and are not followed."""
_PROMPT: Final = re.compile(r"^(?P<who>[a-z]+)?\$ +")
_COMMENT: Final = re.compile(r"\s+# .*$")
_FENCE: Final = re.compile(r"^```(\w*)$")


@dataclass(frozen=True)
class Written:
    """One command: its page and line, the terminal that it is for, and the words."""

    page: Path
    number: int
    who: str
    line: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.number}: {self.line}"


def blocks(page: Path) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Yield each block of code of a page: its language, and its lines with their numbers.

    An indented block has no language. Lines of a list that goes on are indented too, but follow text.
    """
    language, lines = None, list[tuple[int, str]]()
    before = ""
    for number, line in enumerate([*page.read_text().splitlines(), "", "end"], start=1):
        fence = _FENCE.match(line)
        if language is None and fence:
            language = fence[1]
        elif language is not None and language != " " and fence:
            yield language, lines
            language, lines = None, []
        elif language is None and line.startswith("    ") and not before.strip():
            language, lines = " ", [(number, line[4:])]
        elif language == " " and not line.startswith("    ") and line.strip():
            yield "", lines
            language, lines = None, []
        elif language is not None:
            lines.append((number, line[4:] if language == " " else line))
        before = line


def written_in(page: Path) -> list[Written]:
    """Return every command of a page, in its order; what a command prints is left out.

    In a block with prompts only the lines with one are commands; in another, every line whose first word is a
    program of `PROGRAMS`.
    """
    found = []
    for language, lines in blocks(page):
        if language not in ("", "console", "sh", "bash"):
            continue
        with_prompts = any(_PROMPT.match(line) for _, line in lines)
        for number, line in _joined(lines):
            prompt = _PROMPT.match(line)
            words = _COMMENT.sub("", line[prompt.end() :] if prompt else line).strip()
            is_command = prompt is not None if with_prompts else _first_word(words) in PROGRAMS
            if is_command and words:
                found.append(Written(page, number, (prompt["who"] or "") if prompt else "", words))
    return found


def _joined(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield lines, with those that end in a backslash and the next one as one."""
    start, text = 0, ""
    for number, line in lines:
        start, text = (start, text + line.strip()) if text else (number, line)
        if text.endswith("\\"):
            text = text[:-1]
            continue
        yield start, text
        text = ""


def without_variables(words: list[str]) -> list[str]:
    """Return the words of a command without the variables that are set in front of it."""
    return list(dropwhile(re.compile("[A-Z_]+=").match, words))


def _first_word(line: str) -> str:
    words = without_variables(line.split())
    return words[0].rpartition("/")[2] if words else ""


PROGRAMS: Final = frozenset(
    {"odc", "odc-analyst", "odc-demo", "odc_analyst", "make", "pip", "python", "python3", "docker", "curl"}
    | {"git", "export", "mkdir", "openssl", "cp", "createdb", "dropdb", "pg_dump", "pg_restore", "dask"}
)


def inline_commands(page: Path) -> Iterator[Written]:
    """Yield every command of ours that stands inside a sentence or a table, between two backquotes."""
    inside = {number for _, lines in blocks(page) for number, _ in lines}
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if number not in inside:
            for words in re.findall(r"`((?:odc|odc-analyst|odc-demo)(?: [^`]*)?)`", line):
                yield Written(page, number, "", words.strip())
