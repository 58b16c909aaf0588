"""The parts that plans and reports are made of: numbers as people read them, the page, its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from analyst_server.services.planning import Comparison

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --quiet: #5a6675; --line: #d5dbe3; --paper: #ffffff;
  --ours: #0b6e4f; --formula: #1d4e9e; --one: #b3410b; --two: #8a2b6d; --three: #6b5900; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7ebf0; --quiet: #a5b0bd; --line: #3b4654; --paper: #161b22;
    --ours: #55c79b; --formula: #82b1ff; --one: #ff9a66; --two: #e79bd0; --three: #d9c45a; } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p.quiet, caption, figcaption { color: var(--quiet); }
div.wide { overflow-x: auto; margin: 1rem 0 1.5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .4rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 2px solid var(--quiet); }
tbody th { font-weight: inherit; } tr.total > * { font-weight: 600; border-top: 2px solid var(--quiet); }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 13px; }
"""

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def size(count: float) -> str:
    """Return bytes with three digits and a decimal unit, as the papers count: 10.1 GB."""
    step = 0
    while abs(count) >= 999.5 and step < len(_UNITS) - 1:
        count, step = count / 1000, step + 1
    if step == 0:
        return f"{count:.0f} B"
    digits = max(0, 2 - (abs(count) >= 9.995) - (abs(count) >= 99.95))
    return f"{count:.{digits}f} {_UNITS[step]}"


def exact(count: float) -> str:
    """Return every digit of a count, in groups of three."""
    return f"{count:,.0f}"


def ratio(value: float | None) -> str:
    """Return ours over the formula with four digits, or nothing if the formula has nothing."""
    return "" if value is None else f"{value:.4g}"


def page(title: str, *parts: str) -> str:
    """Return a whole document of ``parts``, which are HTML already."""
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # the browser loads and runs nothing, even if a title had markup in it
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def paragraph(text: str, *, quiet: bool = False) -> str:
    """Return a paragraph; a quiet one is in a paler colour."""
    mark = ' class="quiet"' if quiet else ""
    return f"<p{mark}>{escape(text)}</p>"


def heading(text: str) -> str:
    """Return a heading of the second level."""
    return f"<h2>{escape(text)}</h2>"


def comparison_cells(row: Comparison) -> list[str]:
    """Return the cells of a comparison: what, formula, bytes by the formula, ours, ratio."""
    return [row.what, row.formula, exact(row.formula_bytes), exact(row.ours_bytes), ratio(row.ratio)]


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], total: Sequence[str] | None = None
) -> str:
    """Return a table of texts, whose first column names its rows."""
    lines = [_table_row(row) for row in rows]
    if total is not None:
        lines.append(_table_row(total, "total"))
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    return (
        f'<div class="wide"><table>\n<caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table></div>"
    )


def _table_row(cells: Sequence[str], kind: str = "") -> str:
    first, *others = (escape(cell) for cell in cells)
    mark = f' class="{kind}"' if kind else ""
    rest = "".join(f"<td>{cell}</td>" for cell in others)
    return f'<tr{mark}><th scope="row">{first}</th>{rest}</tr>'
