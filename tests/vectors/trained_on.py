"""The cases of trained_on.json: whose uplinks a released model is made of, by the steps of a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.vectors.examples import Case

Step = tuple[str, str | None]
_SENT: Final[list[Step]] = [
    ("publish terms", None),
    ("accept terms", "a"),
    ("accept terms", "b"),
    ("accept terms", "c"),
    ("publish anchor", "a"),
    ("begin uplink", "c"),
    ("accept uplink", "c"),
    ("begin uplink", "a"),
    ("accept uplink", "a"),
    ("begin uplink", "b"),
    ("accept uplink", "b"),
]
_SEALED: Final[list[Step]] = [*_SENT, ("seal", None), ("begin alignment", None), ("begin training", None)]
_AGAIN: Final[list[Step]] = [("resume", None), ("begin alignment", None), ("begin training", None)]
_RELEASE: Final[Step] = ("release", None)
_OUT: Final[list[Step]] = [("suspect party", "b"), ("leave out rows", "b")]


def whose_rows() -> Iterator[Case]:
    for name, steps, trained_on in [
        ("all that were accepted, in that order", [*_SEALED, _RELEASE], ["c", "a", "b"]),
        ("nobody before the release", _SEALED, None),
        ("without one whose rows were left out", [*_SEALED, *_OUT, _RELEASE], ["c", "a"]),
        ("a suspected party with its rows", [*_SEALED, _OUT[0], _RELEASE], ["c", "a", "b"]),
        ("only the computation that was released counts", [*_SEALED, *_OUT, *_AGAIN, _OUT[0], _RELEASE],
            ["c", "a", "b"]),
        ("without an excluded one", [*_SENT, ("exclude party", "c"), *_SEALED[len(_SENT):], _RELEASE],
            ["a", "b"]),
        ("one that is excluded while the round is held",
            [*_SEALED, *_OUT, ("exclude party", "c"), *_AGAIN, *_OUT, _RELEASE], ["a"]),
        ("a late consumer sends no rows",
            [*_SEALED, _RELEASE, ("begin uplink", "d"), ("accept uplink", "d")], ["c", "a", "b"]),
    ]:  # fmt: skip
        yield {"name": name, "steps": steps, "trained_on": trained_on}
