"""The bugs that are planted, each as somebody could write it who reads docs/protocol.md too fast.

They stand in mutants.json, by module. A mutant that survives is a vector that is missing: write that, and
leave the mutant where it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class Mutant:
    """One change of one module. ``search`` stands there exactly once."""

    module: str
    means: str
    search: str
    replacement: str

    @property
    def name(self) -> str:
        return f"{self.module}: {self.means}"

    def planted(self, source: str) -> str:
        """Return a module with the bug in it; raises `ValueError` unless there is one place for it."""
        places = source.count(self.search)
        if places != 1:
            raise ValueError(f"{self.name}: {places} places have {self.search!r}")
        return source.replace(self.search, self.replacement)


def _stored() -> tuple[Mutant, ...]:
    content = json.loads(Path(__file__).with_name("mutants.json").read_text())
    return tuple(Mutant(module, **each) for module, mutants in content.items() for each in mutants)


MUTANTS: Final = _stored()
