"""What the site does beside Sphinx: pictures inside the pages, contents, and help for screen readers."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from manual.drawing import IN_A_PAGE, STYLE

_PALETTE_FILE: Final = "pictures.css"
_ACCESSIBLE: Final[Mapping[str, str]] = {
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<th class="head"><p></p></th>': "<td></td>",
    # what can be scrolled has to be reached by the keyboard
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper colwidths-auto docutils container">': (
        '<div class="table-wrapper colwidths-auto docutils container" tabindex="0">'
    ),
}
"""What the theme and Sphinx write, and what has to stand there instead so that nobody is shut out."""
_STATES: Final = "The states of a collaboration, and the events that lead from one to another."


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx, which calls this."""
    app.add_lexer("hex", TextLexer)  # the bytes in docs/protocol.md
    app.add_css_file(_PALETTE_FILE)
    app.connect("source-read", _add_contents)
    app.connect("doctree-resolved", _put_pictures_inside)
    app.connect("doctree-resolved", _drop_empty_heads)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_contents(_: Sphinx, page: str, source: list[str]) -> None:
    # here and not in the pages, because a forge would show these lines as they stand
    if page == "docs/index":
        source[0] += "\n" + (Path(__file__).parent / "contents.md").read_text()
    elif page == "docs/adr/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"


def _put_pictures_inside(app: Sphinx, doctree: nodes.document, _: str) -> None:
    for image in list(doctree.findall(nodes.image)):
        if image["uri"].endswith(".svg"):
            image.replace_self(_inside(Path(app.srcdir) / image["uri"], image["alt"]))
    for block in list(doctree.findall(nodes.literal_block)):
        # a forge draws Mermaid by a script that it brings; the site has the picture made from the same table
        if block.get("language") == "mermaid":
            block.replace_self(_inside(Path(app.srcdir) / "docs" / "pictures" / "states.svg", _STATES))


def _inside(path: Path, alt: str) -> nodes.raw:
    text = path.read_text().replace(STYLE, "")
    text = text.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)
    return nodes.raw("", text, format="html")


def _drop_empty_heads(_: Sphinx, doctree: nodes.document, __: str) -> None:
    # Markdown has no table without a head
    for head in list(doctree.findall(nodes.thead)):
        if not head.astext().strip():
            head.parent.remove(head)


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is not None:
        return
    output = Path(app.outdir)
    (output / "_static" / _PALETTE_FILE).write_text(IN_A_PAGE)
    for page in output.rglob("*.html"):
        text = page.read_text()
        for written, accessible in _ACCESSIBLE.items():
            text = text.replace(written, accessible)
        page.write_text(text)
