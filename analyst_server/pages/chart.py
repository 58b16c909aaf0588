"""A chart of total bytes over the rounds of federated averaging, as SVG without references."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

from analyst_server.services.planning import Plan
from pages.charts import ticks
from pages.numbers import size

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 420, 84, 16, 86, 52
_COLOURS: Final = ("--one", "--two", "--three")
_DASHES: Final = ("9 5", "2 4", "12 4 2 4")
_HEADROOM: Final = 2.4
"""The height of the chart, in rounds of ours; the lines of federated averaging leave it at the top."""


@dataclass(frozen=True)
class _Axes:
    """The scales of the chart: from 0 to ``rounds``, and from 0 to ``top_bytes``."""

    rounds: float
    top_bytes: float

    def x(self, rounds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * rounds / self.rounds

    def y(self, count: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * count / self.top_bytes


@dataclass(frozen=True)
class _Line:
    """A straight line of the chart, and its text in the legend."""

    words: str
    colour: str
    dash: str
    start_bytes: float
    """At round 0."""
    bytes_a_round: float
    crossing: float | None = None
    """The round at which it costs as much as formula (6)."""


def break_even_chart(plan: Plan) -> str:
    """Return the figure: our round, the formula, federated averaging, and where they cost the same."""
    total = plan.total
    lines = [
        _Line("data collaboration, formula (6)", "--formula", "", total.formula_bytes, 0),
        _Line("the same, ours", "--ours", "10 10", total.ours_bytes, 0),
    ]
    for number, one in enumerate(plan.federated_averaging):
        share, crossing = one.participation, one.break_even_rounds
        words = f"federated averaging (7), p = {share:g}: R* = {crossing:.3g}"
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
        lines.append(_Line(words, colour, dash, 0, one.one_round_bytes, crossing))
    axes = _Axes(plan.rounds, _HEADROOM * max(total.formula_bytes, total.ours_bytes))
    crossings = "; ".join(
        f"at p = {one.participation:g} after {one.break_even_rounds:.3g} rounds"
        for one in plan.federated_averaging
    )
    described = (
        f"One round of data collaboration costs {size(total.formula_bytes)} by formula (6) and"
        f" {size(total.ours_bytes)} as we send it. Federated averaging costs as much {crossings}."
    )
    return "\n".join(
        [
            '<figure class="broad" tabindex="0">'
            f'<svg viewBox="0 0 {_WIDTH} {_legend_height(lines) + _HEIGHT - _TOP}" role="img"'
            ' aria-labelledby="chart-title chart-words">',
            '<title id="chart-title">Total bytes over rounds of federated averaging</title>',
            f'<desc id="chart-words">{escape(described)}</desc>',
            *_legend(lines),
            f'<g transform="translate(0 {_legend_height(lines) - _TOP})">',
            *_grid(axes),
            *(_drawn(line, axes) for line in lines),
            *(_crossing(line, axes, total.formula_bytes) for line in lines),
            "</g>",
            "</svg>",
            f"<figcaption>{escape(described)}</figcaption></figure>",
        ]
    )


def _legend_height(lines: list[_Line]) -> int:
    return 24 + 20 * len(lines)


def _legend(lines: list[_Line]) -> list[str]:
    return [
        f'<line x1="{_LEFT}" x2="{_LEFT + 44}" y1="{14 + 20 * row}" y2="{14 + 20 * row}" {_stroke(line)}/>'
        f'<text x="{_LEFT + 54}" y="{18 + 20 * row}">{escape(line.words)}</text>'
        for row, line in enumerate(lines)
    ]


def _stroke(line: _Line) -> str:
    dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    return f'stroke="var({line.colour})" stroke-width="2.5" fill="none"{dash}'


def _grid(axes: _Axes) -> list[str]:
    left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for count in ticks(axes.top_bytes):
        y = axes.y(count)
        parts.append(
            f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{size(count)}</text>'
        )
    parts += [
        f'<text x="{axes.x(tick):.1f}" y="{bottom + 20}" text-anchor="middle">{tick:g}</text>'
        for tick in ticks(axes.rounds)
    ]
    parts.append(
        f'<text x="{(left + right) / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "rounds R of federated averaging</text>"
    )
    return parts


def _drawn(line: _Line, axes: _Axes) -> str:
    """Return the part of a line that is inside the chart."""
    end = axes.rounds
    if line.bytes_a_round:
        end = min(end, (axes.top_bytes - line.start_bytes) / line.bytes_a_round)
    y_end = axes.y(line.start_bytes + line.bytes_a_round * end)
    return (
        f'<line x1="{axes.x(0):.1f}" y1="{axes.y(line.start_bytes):.1f}" x2="{axes.x(end):.1f}"'
        f' y2="{y_end:.1f}" {_stroke(line)}/>'
    )


def _crossing(line: _Line, axes: _Axes, total_bytes: float) -> str:
    """Return the break-even mark of one participation: a line down from where both cost the same."""
    if line.crossing is None or line.crossing > axes.rounds:
        return ""
    x, y, bottom = axes.x(line.crossing), axes.y(total_bytes), _HEIGHT - _BOTTOM
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{bottom}" stroke="var({line.colour})"'
        ' stroke-width="1.5" stroke-dasharray="3 3"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="var({line.colour})"/>'
        f'<text x="{x + 8:.1f}" y="{y + 20:.1f}">R* = {line.crossing:.3g}</text>'
    )
