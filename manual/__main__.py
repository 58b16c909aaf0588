"""Write what the manual takes from the code: ``make reference``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from manual.commands import commands_reference
from manual.decisions import list_of_decisions
from manual.pictures import PICTURES
from manual.rest import analyst_reference, service_reference

DOCS = Path(__file__).parents[1] / "docs"


def written() -> Iterator[tuple[Path, str]]:
    """Yield every file of docs/ that is written from the code, with what belongs into it."""
    yield DOCS / "rest-analyst.md", analyst_reference()
    yield DOCS / "rest-predictions.md", service_reference()
    yield DOCS / "options.md", commands_reference()
    yield DOCS / "adr" / "README.md", list_of_decisions(DOCS / "adr")
    for name, draw in PICTURES.items():
        yield DOCS / "pictures" / f"{name}.svg", draw().svg()


if __name__ == "__main__":
    for path, text in written():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
