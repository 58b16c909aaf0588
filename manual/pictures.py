"""The pictures of docs/round.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from analyst_server.alignment import align
from manual.drawing import Drawing
from protocol.states import TRANSITIONS, State

_MARKS: Final = (("leaves", "circle"), ("stays", "square"), ("warn", "triangle"))


def who_takes_part() -> Drawing:
    """Return the parties and what passes between them."""
    drawn = Drawing(400)
    drawn.box(150, 20, 180, 84)
    drawn.text(240, 48, "analyst", anchor="middle", bold=True)
    drawn.text(
        240, 70, ["aligns, trains,", "never sees the anchor"], anchor="middle", size=14, colour="quiet"
    )
    names = ("lead institution", "institution", "institution")
    about = (
        ["founds, drafts terms,", "creates the anchor"],
        ["signs, sends,", "predicts"],
        ["signs, sends,", "predicts"],
    )
    for number, (name, said) in enumerate(zip(names, about, strict=True)):
        x = 12 + number * 156
        middle = x + 72
        drawn.box(x, 250, 144, 90)
        drawn.text(middle, 276, name, anchor="middle", bold=True)
        drawn.text(middle, 300, said, anchor="middle", size=13, colour="quiet")
        top = 190 + number * 45
        drawn.arrow((middle - 12, 248), (top - 10, 106), colour="leaves")
        drawn.arrow((top + 10, 106), (middle + 12, 248), colour="stays")
    drawn.text(14, 140, ["one uplink", "from each"], colour="leaves", bold=True)
    drawn.text(466, 140, ["one downlink", "to each"], colour="stays", bold=True, anchor="end")
    drawn.text(
        240,
        372,
        "Every connection is opened by an institution, over mutual TLS 1.3.",
        anchor="middle",
        size=14,
    )
    return drawn


def what_leaves() -> Drawing:
    """Return how rows become an uplink."""
    drawn = Drawing(520)
    drawn.box(14, 14, 452, 310, "stays", dashed=True)
    drawn.text(28, 40, "stays at the institution", colour="stays", bold=True)
    for y, name, rows, result, about in (
        (62, "X", 6, "X·F", "rows of patients"),
        (202, "A", 4, "A·F", "the shared anchor"),
    ):
        middle = y + rows * 7
        drawn.cells(30, y, 7, rows, "stays")
        drawn.text(30, y + rows * 14 + 22, f"{name}: {about}", size=14)
        drawn.text(160, middle + 6, "×", anchor="middle", size=20)
        drawn.cells(190, middle - 49, 3, 7, "warn")
        drawn.text(260, middle + 6, "=", anchor="middle", size=20)
        drawn.cells(300, y, 3, rows, "leaves")
        drawn.text(321, y + rows * 14 + 22, result, anchor="middle", size=14)
    drawn.text(211, 312, "F: the secret basis, the same twice", anchor="middle", size=14, colour="warn")
    drawn.text(356, 90, ["the same rows", "in l columns,", "then noise"], size=13, colour="quiet")
    drawn.box(96, 386, 288, 70, "leaves")
    drawn.text(240, 412, "one uplink", anchor="middle", bold=True, colour="leaves")
    drawn.text(240, 436, "X·F with noise, A·F, and the labels", anchor="middle", size=14)
    drawn.arrow((321, 326), (321, 384), colour="leaves")
    drawn.text(
        240,
        486,
        ["The labels leave as they are.", "F never leaves, and neither do X and A."],
        anchor="middle",
        size=14,
    )
    return drawn


def alignment() -> Drawing:
    """Return what the product's own code computes of one anchor seen in three bases."""
    rng = np.random.default_rng(7)
    stem, arms = np.linspace(-1.0, 1.0, 7), np.linspace(0.3, 1.0, 3)
    points = [(-0.4, y) for y in stem] + [(x - 0.4, 1.0) for x in arms] + [(x - 0.4, 0.2) for x in arms[:2]]
    anchor = np.array(points)
    turns = [_turn(angle) for angle in (0.4, 2.3, 4.4)]
    reps = [anchor @ turn for turn in turns]
    found = align("odc", reps, rng=rng)
    drawn = Drawing(470)
    for number, (rep, (colour, shape)) in enumerate(zip(reps, _MARKS, strict=True)):
        x = 12 + number * 156
        drawn.box(x, 44, 144, 144)
        _scatter(drawn, rep, (x + 72, 116), 50, colour, shape)
        drawn.text(x + 72, 32, f"A·F of party {number + 1}", anchor="middle", size=14)
        drawn.arrow((x + 72, 192), (190 + number * 50, 262), colour=colour)
    drawn.text(120, 232, "G of each", anchor="end", size=14, colour="quiet")
    drawn.box(150, 266, 180, 164)
    for number, (rep, (colour, shape)) in enumerate(zip(reps, _MARKS, strict=True)):
        aligned = rep @ found.changes_of_basis[number]
        _scatter(drawn, aligned, (240 + (number - 1) * 2, 348), 56, colour, shape)
    drawn.text(240, 452, "A·F·G: the same for all", anchor="middle", size=14)
    return drawn


def _turn(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _scatter(
    drawn: Drawing, rep: np.ndarray, centre: tuple[int, int], scale: int, colour: str, shape: str
) -> None:
    for x, y in rep:
        drawn.dot(centre[0] + round(float(x) * scale), centre[1] - round(float(y) * scale), colour, shape)


def prediction() -> Drawing:
    """Return how an institution predicts for a new row."""
    drawn = Drawing(330)
    drawn.box(14, 14, 452, 232, "stays", dashed=True)
    drawn.text(28, 40, "at the institution alone", colour="stays", bold=True)
    steps = (("x", "a new row"), ("F", "secret basis"), ("G", "own matrix"), ("h", "the model"))
    for number, (name, about) in enumerate(steps):
        x = 22 + number * 90
        drawn.box(x, 74, 72, 64, "leaves" if name in "Gh" else "stays")
        drawn.text(x + 36, 104, name, anchor="middle", bold=True, size=18)
        drawn.text(x + 36, 126, about, anchor="middle", size=11, colour="quiet")
        drawn.arrow((x + 73, 106), (x + 89, 106))
    drawn.text(384, 101, ["h(x·F·G)"], size=15, bold=True)
    drawn.text(384, 123, ["the answer"], size=13, colour="quiet")
    drawn.arrow((238, 286), (238, 142), colour="leaves")
    drawn.arrow((328, 286), (328, 142), colour="leaves")
    drawn.text(283, 308, "from the downlink", anchor="middle", size=14, colour="leaves", bold=True)
    drawn.text(28, 190, ["No question and no answer", "leaves the machine."], size=14, colour="quiet")
    return drawn


_PLACES: Final[Mapping[State, tuple[int, int]]] = {
    State.DRAFT: (130, 20),
    State.ENROLLING: (130, 90),
    State.ANCHORED: (130, 160),
    State.COLLECTING: (130, 230),
    State.SEALED: (130, 300),
    State.ALIGNING: (130, 370),
    State.TRAINING: (130, 440),
    State.RELEASED: (130, 510),
    State.CLOSED: (130, 580),
    State.FAILED: (340, 405),
    State.CANCELLED: (340, 160),
}
"""Where the box of each state stands; the usual course goes down on the left."""


def states() -> Drawing:
    """Return the states of a collaboration and every step from one to another."""
    drawn = Drawing(650)
    steps: dict[tuple[State, State], list[str]] = {}
    for (before, event), after in TRANSITIONS.items():
        if before != after:
            steps.setdefault((before, after), []).append(str(event))
    for (before, after), events in steps.items():
        _step(drawn, before, after, " or ".join(events))
    for state, (x, y) in _PLACES.items():
        drawn.box(x, y, 116, 36, "stays" if x == 130 else "warn")
        drawn.text(x + 58, y + 24, str(state), anchor="middle", bold=True)
    return drawn


def _step(drawn: Drawing, before: State, after: State, said: str) -> None:
    (x0, y0), (x1, y1) = _PLACES[before], _PLACES[after]
    if x0 == x1 and y1 - y0 == 70:
        drawn.arrow((x0 + 58, y0 + 36), (x1 + 58, y1 - 1))
        drawn.text(x0 + 66, y0 + 58, said, size=13, colour="quiet")
    elif after == State.CANCELLED:
        rail = 456 if before == State.FAILED else 300
        start = (x0 + 116, y0 + 18)
        if before == State.FAILED:
            drawn.arrow((x0 + 58, y0), (x1 + 58, y1 + 37), colour="warn")
        else:
            drawn.arrow(start, (rail, y0 + 18), (rail, y1 + 18), (x1 - 1, y1 + 18), colour="warn")
        drawn.text(348, 150, said, size=13, colour="warn")
    elif after == State.FAILED:
        drawn.arrow((x0 + 116, y0 + 18), (318, y0 + 18), (x1 - 1, y1 + (8 if y0 < y1 else 28)), colour="warn")
        drawn.text(
            300,
            y0 + (10 if y0 < y1 else 40),
            said,
            size=13,
            colour="warn",
            anchor="middle" if y0 < y1 else "start",
        )
    elif before == State.FAILED:
        drawn.arrow((x0 + 20, y0), (x0 + 20, y1 + 26), (x1 + 117, y1 + 26), colour="line")
        drawn.text(x0 - 60, y1 + 42, said, size=13, colour="quiet")
    else:  # from interrupted work back to the sealed uplinks
        rail = 96 if before == State.ALIGNING else 76
        drawn.arrow((x0, y0 + 18), (rail, y0 + 18), (rail, y1 + 18), (x1 - 1, y1 + 18), colour="line")
        drawn.text(68, y1 + 60, said, size=13, colour="quiet", anchor="end")


PICTURES: Final[Mapping[str, Callable[[], Drawing]]] = {
    "parties": who_takes_part,
    "uplink": what_leaves,
    "alignment": alignment,
    "prediction": prediction,
    "states": states,
}
"""By the name of the file in docs/pictures."""
