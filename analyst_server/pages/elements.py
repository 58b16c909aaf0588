"""The parts that plans and reports are made of, from the templates that all pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from analyst_server.services.planning import Comparison
from pages.numbers import exact, ratio, size
from pages.rendering import Templates, standalone_style

__all__ = ["TEMPLATES", "comparison_cells", "exact", "heading", "page", "paragraph", "ratio", "size", "table"]

TEMPLATES: Final = Templates("analyst_server.pages")
_PARTS: Final = "parts.html"


def page(title: str, *parts: str) -> str:
    """Return a whole document of ``parts``, which are HTML already: it loads nothing and runs nothing."""
    style, policy = standalone_style()
    made = [Markup(part) for part in parts]  # noqa: S704  # made by the functions below, and by charts
    return TEMPLATES.render("standalone.html", title=title, parts=made, style=style, policy=policy)


def paragraph(text: str, *, quiet: bool = False) -> str:
    """Return a paragraph; a quiet one is in a paler colour."""
    return TEMPLATES.macro(_PARTS, "paragraph", text, quiet)


def heading(text: str) -> str:
    """Return a heading of the second level."""
    return TEMPLATES.macro(_PARTS, "heading", text)


def figures(charts: Sequence[str]) -> list[str]:
    """Return charts side by side, as far as there is room; nothing without any."""
    return [TEMPLATES.macro(_PARTS, "figures", charts)] if charts else []


def comparison_cells(row: Comparison) -> list[str]:
    """Return the cells of a comparison: what, formula, bytes by the formula, ours, ratio."""
    return [row.what, row.formula, exact(row.formula_bytes), exact(row.ours_bytes), ratio(row.ratio)]


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], total: Sequence[str] | None = None
) -> str:
    """Return a table of texts, whose first column names its rows."""
    return TEMPLATES.macro(_PARTS, "table", caption, head, list(rows), total)
