"""The list of decisions in docs/adr, from the titles of its pages."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_ABOUT: Final = """\
# Decisions

Each page is one choice that had a real alternative: what it was about, the options, the decision, and what
was given up. A page is not rewritten when a later one changes the choice; the later one says so.

| | |
|---|---|
"""


def list_of_decisions(folder: Path) -> str:
    """Return the page that lists all decisions in a folder, oldest first."""
    rows = []
    for path in sorted(folder.glob("[0-9]*.md")):
        number, _, title = path.read_text().splitlines()[0].removeprefix("# ").partition(". ")
        rows.append(f"| {number} | [{title}]({path.name}) |")
    return f"<!-- written by `make reference` -->\n\n{_ABOUT}" + "\n".join(rows) + "\n"
