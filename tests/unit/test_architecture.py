"""docs/architecture.md is true: the modules it lists exist, and the ways through the code stay short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TEXT = (REPOSITORY / "docs" / "architecture.md").read_text()
WAYS = {
    "A row of a CSV file becomes part of a blob": 25,
    "An anchor representation A_i becomes a prediction": 22,
    "A byte on the wire becomes a number in the report": 10,
    "Terms, from the operator's file to a signature at every institution": 18,
}
"""The most modules of each: a longer way is a reason to move a wall, not this number."""
SHORT_NAMES = {
    "isotropic": "analyst_server/alignment/isotropic",
    "gopp": "analyst_server/alignment/gopp",
    "averaged": "analyst_server/training/averaged",
}


def modules(way: str) -> list[str]:
    """Return the modules of a way, in its table or, without one, in its paragraph."""
    _, after = TEXT.split(f"**{way}: ")
    whole = after.split("\n**")[0].split("\n## ")[0]
    rows = [
        line.split("|")[2]
        for line in whole.splitlines()
        if line.startswith("| ") and "| modules |" not in line
    ]
    named = re.findall(r"`([a-z_/0-9]+)`", " ".join(rows) or whole)
    found = [
        SHORT_NAMES.get(name, re.sub("^alignment/", "analyst_server/alignment/", name)) for name in named
    ]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("way", WAYS)
def test_every_module_of_a_way_exists(way: str) -> None:
    assert [name for name in modules(way) if not (REPOSITORY / f"{name}.py").exists()] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_way_has_the_length_it_says_and_is_no_longer_than_its_bound(way: str) -> None:
    said = re.search(re.escape(f"**{way}: ") + r"(\d+) modules", TEXT)
    assert said is not None
    assert len(modules(way)) == int(said[1]) <= WAYS[way]
