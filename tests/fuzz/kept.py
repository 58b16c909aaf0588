"""The inputs that are kept: in the repository a few of each outcome, in ``build`` all that were new."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.fuzz.target import Run

CORPUS: Final = Path(__file__).parent / "corpus"
BUILD: Final = Path(__file__).parents[2] / "build" / "fuzz"
MOST_KEPT: Final = 12
"""Inputs of one target in the repository, beside those that have failed."""
LARGEST_KEPT: Final = 8192
FOUND: Final = "found-"
"""Before the name of an input that has failed once: it stays for ever."""


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def inputs_in(directory: Path) -> list[bytes]:
    """Return the inputs in a directory, which need not exist, always in the same order."""
    return [path.read_bytes() for path in sorted(directory.glob("*")) if path.is_file()]


def minimise(name: str, run: Run, seeds: Iterable[bytes]) -> int:
    """Keep in the repository the shortest input of each outcome that no seed has; return how many."""
    known = {run(data) for data in seeds}
    best: dict[str, bytes] = {}
    for data in sorted([*inputs_in(BUILD / name / "inputs"), *inputs_in(CORPUS / name)], key=len):
        if len(data) <= LARGEST_KEPT and (found := run(data)) not in known:
            best.setdefault(found, data)
    chosen = [best[found] for found in sorted(best, key=lambda found: name_of(found.encode()))[:MOST_KEPT]]
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if not path.name.startswith(FOUND):
            path.unlink()
    for data in chosen:
        (folder / name_of(data)).write_bytes(data)
    return len(list(folder.iterdir()))
