"""Templates and the files that pages load; every text from outside is escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pages.numbers import exact, ratio, size, when

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The Content-Security-Policy of every page that is served."""
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # not no-referrer: with it a browser sends the Origin "null" with our own forms
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""What every page is answered with."""
_BETWEEN_BACKTICKS: Final = re.compile(r"`([^`]+)`")
_WORD: Final = re.compile(r"[a-z]+,?(\s|$)")
"""A word at the beginning of a text; names mostly have a digit, a hyphen, a dot or a slash as well."""
_MEDIA_TYPES: Final = {
    "pages.css": "text/css",
    "pages.js": "text/javascript",
    "htmx.min.js": "text/javascript",
}


class StaticFile(NamedTuple):
    """A file that pages load, and what names this version of it."""

    content: bytes
    media_type: str
    tag: str


class Templates:
    """The templates of one side, on top of those that all pages share.

    Parameters
    ----------
    package : str
        The package with the folder ``templates`` of that side.
    """

    def __init__(self, package: str) -> None:
        loader = ChoiceLoader([PackageLoader(package), PackageLoader("pages")])
        self._environment = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.filters |= {"size": size, "exact": exact, "ratio": ratio, "when": when}
        self._environment.filters |= {"sentence": sentence, "marked": marked}
        self._environment.globals["static"] = static_url

    def render(self, name: str, **values: Any) -> str:
        """Return a template with its values filled in; one that is missing is an error."""
        return self._environment.get_template(name).render(page=name.removesuffix(".html"), **values)

    def macro(self, name: str, macro: str, *values: Any) -> Markup:
        """Return what a macro of a template makes of some values."""
        found: Markup = getattr(self._environment.get_template(name).module, macro)(*values)
        return found


@cache
def static_file(name: str) -> StaticFile | None:
    """Return a file that pages load, or None for any other name."""
    if name not in _MEDIA_TYPES:
        return None
    content = (files("pages") / "static" / name).read_bytes()
    return StaticFile(content, _MEDIA_TYPES[name], hashlib.sha256(content).hexdigest()[:16])


def static_url(root: str, name: str) -> str:
    """Return the address of a file below ``root``, which changes with its content."""
    found = static_file(name)
    if found is None:
        raise KeyError(name)
    return f"{root}/static/{name}?{found.tag}"


def sentence(text: str) -> str:
    """Return a text with a capital letter, unless it begins with a name, a path or an address."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def marked(text: str) -> Markup:
    """Return a text in which what stands between backticks, a command as a rule, is marked as such."""
    return Markup(_BETWEEN_BACKTICKS.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  # escaped first


def standalone_style() -> tuple[Markup, str]:
    """Return the style for a page in a file of its own, and the policy that allows it and nothing else."""
    found = static_file("pages.css")
    assert found is not None  # noqa: S101  # it is one of ours
    style = found.content.decode()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return Markup(style), f"default-src 'none'; style-src 'sha256-{digest}'"  # noqa: S704  # no text from outside
