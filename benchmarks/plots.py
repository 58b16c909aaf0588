"""Line plots with logarithmic axes as SVG files, so that three plots need no plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 440, 80, 60, 40, 190
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

Lines = Mapping[str, Sequence[tuple[float, float]]]


def write_log_log(path: Path, title: str, axes: tuple[str, str], lines: Lines) -> None:
    """Write one plot: a line per name, a mark per point, and grid lines at 1, 2 and 5 per power of ten."""
    points = [point for line in lines.values() for point in line]
    horizontal = _Axis([point[0] for point in points], LEFT, WIDTH - RIGHT)
    vertical = _Axis([point[1] for point in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 22, title, "middle"),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 15, axes[0], "middle"),
        f'<g transform="rotate(-90 20 {HEIGHT / 2})">{_text(20, HEIGHT / 2, axes[1], "middle")}</g>',
    ]
    for value in horizontal.ticks():
        x = horizontal.place(value)
        parts += [_line(x, TOP, x, HEIGHT - BOTTOM), _text(x, HEIGHT - BOTTOM + 18, f"{value:g}", "middle")]
    for value in vertical.ticks():
        y = vertical.place(value)
        parts += [_line(LEFT, y, WIDTH - RIGHT, y), _text(LEFT - 8, y + 4, f"{value:g}", "end")]
    for index, (name, line) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        places = [(horizontal.place(x), vertical.place(y)) for x, y in line]
        path_points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path_points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        height = TOP + 15 + 20 * index
        parts.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{height - 4}" r="5" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 32, height, name, "start"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")


class _Axis:
    """Maps positive numbers to positions between two ends, on a logarithmic scale."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        self._low, self._high = math.log10(min(values)) - 0.05, math.log10(max(values)) + 0.05
        self._first, self._last = first, last

    def place(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._first + share * (self._last - self._first)

    def ticks(self) -> list[float]:
        """Return the values 1, 2 and 5 times a power of ten within the axis."""
        powers = range(math.floor(self._low), math.ceil(self._high) + 1)
        values = [step * 10.0**power for power in powers for step in (1, 2, 5)]
        return [value for value in values if self._low <= math.log10(value) <= self._high]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'
