"""Charts as SVG without references: bars, values with their intervals, and curves of shares.

Colours are names of the style (``--ours``), so that a chart is readable in the light and in the dark. What a
chart shows also stands beside it as a table or in words; its own description is one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup

_WIDTH: Final = 440
"""Little, so that the texts can be read on a phone."""
_LABEL: Final = 136
_RIGHT: Final = 76
_BAR: Final = 16
_LINE: Final = 22
_LONGEST_LABEL: Final = 19


@dataclass(frozen=True)
class Bar:
    """One bar: its length, its colour, and what stands at its end."""

    value: float
    colour: str
    words: str


@dataclass(frozen=True)
class Interval:
    """A value with its interval; without one, a dot alone."""

    label: str
    value: float
    low: float | None
    high: float | None
    words: str
    colour: str = "--ours"


@dataclass(frozen=True)
class Curve:
    """Points in the unit square, joined in their order."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str = "--ours"
    dash: str = ""
    is_main: bool = True
    """Whether it is drawn stronger than the others."""


def ticks(top: float, most: int = 7) -> list[float]:
    """Return at most ``most + 1`` multiples of 1, 2 or 5 times a power of ten, from 0."""
    rough = top / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * number for number in range(math.floor(top / step * (1 + 1e-12)) + 1)]


def bars(
    title: str,
    said: str,
    rows: Sequence[tuple[str, Sequence[Bar]]],
    legend: Sequence[tuple[str, str]] = (),
) -> Markup:
    """Return a figure with the bars of each row below each other.

    Parameters
    ----------
    title, said : str
        What it shows, and its content in one sentence, for whoever does not see it.
    rows : sequence of (label, bars)
    legend : sequence of (colour, words)
    """
    top = max((bar.value for _, group in rows for bar in group), default=0) or 1
    scale = (_WIDTH - _LABEL - _RIGHT) / top
    parts, y = _legend(legend)
    for label, group in rows:
        height = len(group) * _BAR
        parts.append(_text(_LABEL - 10, y + height / 2 + 5, _short(label), "end"))
        for number, bar in enumerate(group):
            at, length = y + number * _BAR, max(1.0, bar.value * scale)
            parts.append(_rect(_LABEL, at + 2, length, _BAR - 4, bar.colour))
            parts.append(_text(_LABEL + length + 6, at + _BAR - 4, bar.words))
        y += height + 12
    return _figure(title, said, y, parts)


def intervals(
    title: str,
    said: str,
    rows: Sequence[Interval],
    ends: tuple[float, float],
    say: Callable[[float], str],
) -> Markup:
    """Return a figure with a dot and a line for each value, on one scale.

    ``ends`` are the least and the greatest value of the scale, and ``say`` writes a value at its axis.
    """
    low, high = ends
    span = (high - low) or 1.0
    width = _WIDTH - _LABEL - _RIGHT

    def x(value: float) -> float:
        return _LABEL + width * (min(max(value, low), high) - low) / span

    bottom = 10 + len(rows) * _LINE
    parts = [_grid(x(low + span * part / 4), bottom, say(low + span * part / 4)) for part in range(5)]
    for number, row in enumerate(rows):
        y = 10 + number * _LINE + _LINE / 2
        parts.append(_text(_LABEL - 10, y + 5, _short(row.label), "end"))
        if row.low is not None and row.high is not None:
            parts.append(
                Markup(
                    '<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="var({})"'
                    ' stroke-width="3"/>'
                ).format(x(row.low), x(row.high), y, y, row.colour)
            )
        parts.append(
            Markup('<circle cx="{:.1f}" cy="{:.1f}" r="5" fill="var({})"/>').format(
                x(row.value), y, row.colour
            )
        )
        parts.append(_text(_WIDTH - _RIGHT + 10, y + 5, row.words))
    return _figure(title, said, bottom + 24, parts)


def calibration(title: str, said: str, bins: Sequence[tuple[float, float, int]]) -> Markup:
    """Return a figure of predicted against observed shares; the size of a dot grows with its rows."""
    side, left, top = 260, 48, 12
    most = max((rows for _, _, rows in bins), default=1) or 1

    def at(predicted: float, observed: float) -> tuple[float, float]:
        return left + side * predicted, top + side * (1 - observed)

    parts = [
        Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="var(--line)"/>').format(
            left, top, side, side
        )
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x, y = at(tick, tick)
        parts.append(_text(x, top + side + 18, f"{tick:g}", "middle"))
        parts.append(_text(left - 8, y + 5, f"{tick:g}", "end"))
    parts.append(
        Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="var(--quiet)" stroke-dasharray="5 4"/>').format(
            left, top + side, left + side, top
        )
    )
    points = " ".join("{:.1f},{:.1f}".format(*at(predicted, observed)) for predicted, observed, _ in bins)
    parts.append(
        Markup('<polyline points="{}" fill="none" stroke="var(--ours)" stroke-width="2"/>').format(points)
    )
    for predicted, observed, rows in bins:
        x, y = at(predicted, observed)
        parts.append(
            Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" fill="var(--ours)"/>').format(
                x, y, 3 + 5 * math.sqrt(rows / most)
            )
        )
    parts.append(_text(left + side / 2, top + side + 38, "predicted share", "middle", quiet=True))
    parts.append(_text(left + side + 14, top + 14, "observed share", quiet=True))
    return _figure(title, said, top + side + 46, parts)


def curves(
    title: str,
    said: str,
    lines: Sequence[Curve],
    axes: tuple[str, str],
    *,
    diagonal: Literal["up", "none"] = "none",
) -> Markup:
    """Return a figure of curves in the unit square, the main one on top; ``axes`` names x and y."""
    side, left, gap = 260, 48, 12
    parts, begin = _legend([])
    for row, line in enumerate(lines):
        level = 12 + 20 * row
        parts += [_polyline([(left, level), (left + 34, level)], line)]
        parts.append(_text(left + 44, level + 5, line.label))
    top = begin + 20 * len(lines) + gap

    def at(x: float, y: float) -> tuple[float, float]:
        return left + side * x, top + side * (1 - y)

    parts.append(
        Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="var(--line)"/>').format(
            left, top, side, side
        )
    )
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x, y = at(tick, tick)
        parts.append(_text(x, top + side + 18, f"{tick:g}", "middle"))
        parts.append(_text(left - 8, y + 5, f"{tick:g}", "end"))
    if diagonal == "up":
        parts.append(_polyline([at(0, 0), at(1, 1)], Curve("", (), "--quiet", "5 4", is_main=False)))
    for line in sorted(lines, key=lambda line: line.is_main):
        drawn = [at(*point) for point in line.points]
        parts.append(_polyline(drawn, line))
        if line.is_main:
            parts += [
                Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="var({})"/>').format(x, y, line.colour)
                for x, y in drawn
            ]
    parts.append(_text(left + side / 2, top + side + 38, axes[0], "middle", quiet=True))
    parts.append(_text(left + side + 14, top + 14, axes[1], quiet=True))
    return _figure(title, said, top + side + 46, parts)


def _polyline(points: Sequence[tuple[float, float]], line: Curve) -> Markup:
    return Markup(
        '<polyline points="{}" fill="none" stroke="var({})" stroke-width="{}" stroke-dasharray="{}"/>'
    ).format(
        " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        line.colour,
        "2.5" if line.is_main else "1.5",
        line.dash or "none",
    )


def _figure(title: str, said: str, height: float, parts: Sequence[Markup]) -> Markup:
    drawn = Markup("\n").join(parts)
    return Markup(
        '<figure><svg class="chart" viewBox="0 0 {} {:.0f}" role="img" aria-label="{}: {}">\n{}\n</svg>'
        "<figcaption>{}</figcaption></figure>"
    ).format(_WIDTH, height, title, said, drawn, title)


def _legend(entries: Sequence[tuple[str, str]]) -> tuple[list[Markup], float]:
    parts = []
    for row, (colour, words) in enumerate(entries):
        parts += [_rect(_LABEL, 6 + 20 * row, 14, 10, colour), _text(_LABEL + 22, 16 + 20 * row, words)]
    return parts, 8 + 20 * len(entries) + (6 if entries else 0)


def _rect(x: float, y: float, width: float, height: float, colour: str) -> Markup:
    return Markup(
        '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2" fill="var({})"/>'
    ).format(x, y, width, height, colour)


def _text(x: float, y: float, words: str, anchor: str = "start", *, quiet: bool = False) -> Markup:
    kind = Markup(' class="quiet"') if quiet else ""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>').format(
        x, y, anchor, kind, words
    )


def _grid(x: float, bottom: float, words: str) -> Markup:
    return Markup('<line x1="{:.1f}" x2="{:.1f}" y1="6" y2="{:.1f}" stroke="var(--line)"/>').format(
        x, x, bottom
    ) + _text(x, bottom + 18, words, "middle", quiet=True)


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"
