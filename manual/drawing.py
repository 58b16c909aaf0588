"""A few shapes in SVG, in colours that follow the reader's choice of light or dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

LIGHT: Final[Mapping[str, str]] = {
    "ink": "#1a2230",
    "quiet": "#4f5b6b",
    "line": "#8a95a5",
    "paper": "#f6f7f9",
    "card": "#ffffff",
    "stays": "#0a5c41",
    "leaves": "#17458f",
    "warn": "#8f3a00",
}
DARK: Final[Mapping[str, str]] = {
    "ink": "#e8ecf2",
    "quiet": "#b4bfcc",
    "line": "#7d8a9a",
    "paper": "#10151c",
    "card": "#1c2430",
    "stays": "#7ad6b0",
    "leaves": "#8db6ff",
    "warn": "#ffb27a",
}
LINE_PX: Final = 20
"""From one line of text to the next."""
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def palette(colours: Mapping[str, str]) -> str:
    """Return the declarations of a palette in CSS."""
    return " ".join(f"--odc-{name}: {colour};" for name, colour in colours.items())


STYLE: Final = (
    f"<style>.odc-picture {{ {palette(LIGHT)} }} "
    f"@media (prefers-color-scheme: dark) {{ .odc-picture {{ {palette(DARK)} }} }}</style>"
)
"""For a picture that is shown by itself, as on a forge; in the site the page has these colours."""
IN_A_PAGE: Final = (
    f".odc-picture {{ {palette(LIGHT)} }}\n"
    f'body[data-theme="dark"] .odc-picture {{ {palette(DARK)} }}\n'
    f"@media (prefers-color-scheme: dark) {{\n"
    f'  body:not([data-theme="light"]) .odc-picture {{ {palette(DARK)} }}\n}}\n'
)
"""The same for pictures inside a page, whose reader can choose."""


class Drawing:
    """A picture of fixed width, to which shapes are added from the back to the front."""

    def __init__(self, height: int, width: int = 480) -> None:
        self.width, self.height = width, height
        self._shapes: list[str] = []

    def box(
        self, x: int, y: int, width: int, height: int, colour: str = "line", *, dashed: bool = False
    ) -> None:
        """Add a box with round corners."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="var(--odc-card)"'
            f' stroke="var(--odc-{colour})" stroke-width="1.5"{dashes}/>'
        )

    def cells(self, x: int, y: int, columns: int, rows: int, colour: str, size: int = 14) -> None:
        """Add a matrix, drawn as a grid."""
        lines = [f"M{x + column * size} {y}v{rows * size}" for column in range(columns + 1)]
        lines += [f"M{x} {y + row * size}h{columns * size}" for row in range(rows + 1)]
        width, height = columns * size, rows * size
        self._shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="var(--odc-{colour})"'
            f' fill-opacity="0.18"/><path d="{"".join(lines)}" stroke="var(--odc-{colour})" fill="none"/>'
        )

    def text(
        self,
        x: int,
        y: int,
        lines: str | Sequence[str],
        *,
        colour: str = "ink",
        anchor: str = "start",
        size: int = 15,
        bold: bool = False,
    ) -> None:
        """Add lines of text; ``y`` is the base line of the first."""
        weight = ' font-weight="650"' if bold else ""
        for number, line in enumerate([lines] if isinstance(lines, str) else lines):
            self._shapes.append(
                f'<text x="{x}" y="{y + number * LINE_PX}" font-size="{size}" text-anchor="{anchor}"{weight}'
                f' fill="var(--odc-{colour})">{escape(line)}</text>'
            )

    def arrow(self, *points: tuple[int, int], colour: str = "ink", dashed: bool = False) -> None:
        """Add a line through points, with a head at its end."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        path = " ".join(f"{x},{y}" for x, y in points)
        (x0, y0), (x1, y1) = points[-2:]
        length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1.0)
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        corners = [
            (x1, y1),
            *((x1 - 9 * dx - side * 5 * dy, y1 - 9 * dy + side * 5 * dx) for side in (1, -1)),
        ]
        head = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self._shapes.append(
            f'<polyline points="{path}" fill="none" stroke="var(--odc-{colour})" stroke-width="1.8"{dashes}/>'
            f'<polygon points="{head}" fill="var(--odc-{colour})"/>'
        )

    def dot(self, x: int, y: int, colour: str, shape: str = "circle") -> None:
        """Add a mark: a circle, a square or a triangle, so that colour is not the only difference."""
        fill = f'fill="var(--odc-{colour})" fill-opacity="0.75"'
        self._shapes.append(
            {
                "circle": f'<circle cx="{x}" cy="{y}" r="5" {fill}/>',
                "square": f'<rect x="{x - 4}" y="{y - 4}" width="9" height="9" {fill}/>',
                "triangle": f'<path d="M{x} {y - 6}l6 11h-12z" {fill}/>',
            }[shape]
        )

    def svg(self) -> str:
        """Return the picture as the text of a file."""
        shapes = "\n".join(self._shapes)
        width, height = self.width, self.height
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="odc-picture" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" font-family="{_FONT}">\n{STYLE}\n'
            f'<rect width="{width}" height="{height}" rx="10" fill="var(--odc-paper)"/>\n{shapes}\n</svg>\n'
        )
