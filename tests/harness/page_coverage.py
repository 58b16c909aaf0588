"""Every page and form of both sides, as they stand in the code, and which of them a browser has seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from fastapi import APIRouter
from fastapi.routing import APIRoute

from analyst_server import app  # noqa: F401  # first, so that handlers are registered in the usual order
from analyst_server.browser import acting, drafting, keys, live, looking, sign_in
from analyst_server.pages.acts import ACTS
from tests.harness.browser import Asked, Watched
from tests.harness.tree import REPOSITORY
from user_client.ui import acting as own_acting
from user_client.ui import app as own_app
from user_client.ui import looking as own_looking

SIDES: Final[dict[str, tuple[APIRouter, ...]]] = {
    "analyst": tuple(one.router for one in (sign_in, drafting, keys, looking, live, acting)),
    "own": (own_app.way_in, own_looking.router, own_acting.router),
}
_TEMPLATES: Final = {
    "analyst": REPOSITORY / "analyst_server" / "pages" / "templates",
    "own": REPOSITORY / "user_client" / "ui" / "templates",
}
_BOX: Final = re.compile(r'type="checkbox" name="(\w+)"')
_FORM: Final = re.compile(r"<form.*?</form>", re.DOTALL)
_ACTION: Final = re.compile(r'action="{{ root }}[^"]*/(\w+)"')


def all_of() -> set[str]:
    """Return a line for each page, form and box of each side.

    They are as ``own: GET /ui``, ``analyst: page tokens`` and ``own: tick consumer to contribute``.
    """
    found = set()
    for side, folder in _TEMPLATES.items():
        found |= {f"{side}: {method} {path}" for method, path in _routes(side)}
        found |= {f"{side}: page {name}" for name in _pages(folder)}
        found |= {f"{side}: tick {box} to {form}" for form, box in _boxes(folder)}
    return found


def seen_in(windows: Iterable[Watched]) -> set[str]:
    """Return what was answered, looked at and ticked in some windows: lines as those of `all_of`."""
    found: set[str] = set()
    for window in windows:
        found |= {f"{window.side}: page {name}" for name in window.looked}
        for asked in window.asked:
            found |= {f"{window.side}: {line}" for line in _lines(window.side, asked)}
    return found


def _lines(side: str, asked: Asked) -> Iterator[str]:
    for method, path in _routes(side):
        pattern = re.sub(r"\\{\w+(:path)?\\}", "[^/]+", re.escape(path))
        if method == asked.method and re.fullmatch(pattern, asked.path):
            # the last route says that there is no page
            if asked.status < 400 or path.endswith(":path}"):
                yield f"{method} {path}"
                yield from (f"tick {field} to {path.rpartition('/')[2]}" for field in asked.fields)
            return  # as an application does: the first that fits


def _routes(side: str) -> list[tuple[str, str]]:
    found = []
    for router in SIDES[side]:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            for method in sorted(set(route.methods or ()) - {"HEAD"}):
                if route.path.endswith("/{name}") and router is acting.router:
                    found += [(method, route.path.replace("{name}", act)) for act in ACTS]
                else:
                    found.append((method, route.path))
    return found


def _pages(folder: Path) -> Iterator[str]:
    """Yield the names of the templates that are a whole page; another one is extended, or a part."""
    texts = {path.stem: path.read_text() for path in folder.glob("*.html")}
    extended = {name for text in texts.values() for name in re.findall(r'extends "(\w+)\.html"', text)}
    for name, text in texts.items():
        if "{% extends" in text and name not in extended:
            yield name


def _boxes(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each box that may have to be ticked before a form is sent, with the last word of its address."""
    for path in folder.glob("*.html"):
        for form in _FORM.findall(path.read_text()):
            for box in _BOX.findall(form):
                if box != "confirmed":
                    (name,) = _ACTION.findall(form)
                    yield name, box
