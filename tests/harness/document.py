"""docs/protocol.md, as the tests that compare it with the code read it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path

import protocol
from protocol.codec import Message

DOCUMENT = Path(__file__).parents[2] / "docs" / "protocol.md"


@cache
def text() -> str:
    """Return all of docs/protocol.md."""
    return DOCUMENT.read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text(), flags=re.MULTILINE | re.DOTALL)


def section(heading: str) -> str:
    """What stands below a heading, up to the next of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text(), flags=re.MULTILINE | re.DOTALL)
    assert found, f"docs/protocol.md has no section {heading!r}"
    return found[1]


def kinds() -> list[type[Message]]:
    """Return every kind of message; an underscore begins the name of what some have in common."""
    for module in pkgutil.iter_modules(protocol.__path__):
        importlib.import_module(f"protocol.{module.name}")
    found = list(Message.__subclasses__())
    for kind in found:
        found += kind.__subclasses__()
    return [
        kind
        for kind in found
        if kind.__module__.startswith("protocol.") and not kind.__name__.startswith("_")
    ]
