"""Settings of Sphinx for the manual: ``make manual`` builds the pages of docs/ into build/manual.

The source directory is the repository, so that a link between two Markdown files is the same on a forge and
in the site. Nothing is fetched while it is built, and the site loads nothing from another host.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

project = "Orthonormal Data Collaboration"
author = "the maintainers"
html_title = "Orthonormal Data Collaboration"
language = "en"

extensions = ["myst_parser", "manual.site"]
include_patterns = ["*.md", "docs/**.md", "tests/vectors/README.md", "examples/node-institution/README.md"]
exclude_patterns = [".*", "build", "**/node_modules", "**/__pycache__"]
root_doc = "docs/index"
nitpicky = True

myst_heading_anchors = 4  # with the names that forges give them
myst_links_external_new_tab = False

highlight_language = (
    "none"  # most indented blocks are commands with the prompt of a machine, or pictures in characters
)
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

html_theme = "furo"
html_theme_options = {
    "navigation_with_keys": False,
    "light_css_variables": {
        "font-stack": "system-ui, sans-serif",
        "font-stack--monospace": "ui-monospace, monospace",
    },
}
html_static_path = [str(HERE / "theme")]
html_css_files = ["manual.css"]
html_extra_path = [str(HERE / "entrance")]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_show_search_summary = False  # it fetches pages, which browsers refuse to do for files
html_permalinks_icon = "#"
