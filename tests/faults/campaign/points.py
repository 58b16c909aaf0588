"""Points, where a fault may fall, and the kinds of faults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Self

Place = Literal["server", "client", "compute"]
Fault = Literal["kill-before", "kill-after", "cut", "torn", "eio", "enospc"]

FAULTS: Final[dict[Fault, str]] = {
    "kill-before": "the process is killed before the call",
    "kill-after": "the process is killed after the call",
    "cut": "the machine loses its power after the call, and all that was not fsynced",
    "torn": "the machine loses its power after the call; names stay, content not fsynced is drawn",
    "eio": "the call fails: the disk is broken",
    "enospc": "the call fails: the disk is full",
}
SENT: Final = ("answer", "request")
"""Kinds of calls that send: no disk makes them fail."""

_IDS: Final = re.compile(r"[0-9a-f]{8,}")
_PROCESS: Final = re.compile(r"\.\d+\.part\b")


def label(path: str) -> str:
    """Return a path without ids, which differ from round to round."""
    return _PROCESS.sub(".#.part", _IDS.sub("*", path))


@dataclass(frozen=True, order=True)
class Point:
    """One durable call of a round: the ``nth`` of its kind on this name in a stage."""

    place: Place
    stage: str
    kind: str
    name: str
    nth: int

    def __str__(self) -> str:
        return f"{self.place}:{self.stage}:{self.kind}:{self.name}:{self.nth}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the point that was printed; raises `ValueError`."""
        begin, nth = text.rsplit(":", 1)
        place, stage, kind, name = begin.split(":", 3)
        if place not in ("server", "client", "compute"):
            raise ValueError(f"no place: {place}")
        return cls(place, stage, kind, name, int(nth))  # type: ignore[arg-type]  # it was checked

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The kinds of faults that can happen here."""
        return tuple(one for one in FAULTS if self.kind not in SENT or one not in ("eio", "enospc"))
