"""The application of the pages, and the way in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from pages.rendering import static_file
from protocol.errors import NotFoundError, NotPermittedError, OdcError
from user_client.sdk.session import unix_now
from user_client.ui import acting, looking
from user_client.ui.answers import OpenRoute, entry_of, go_to, no_such_page, problem, under_policy
from user_client.ui.entry import ROOT, Entry
from user_client.ui.work import Desk

way_in = APIRouter(route_class=OpenRoute, include_in_schema=False)
_LIVE: Final = "/live"


@way_in.get("/")
async def root() -> Response:
    """Lead whoever types the bare address to the pages."""
    return go_to(ROOT)


@way_in.get(f"{ROOT}/enter/{{token}}")
async def enter(request: Request, token: str) -> Response:
    """Let the first browser in that has the token; one that is in already goes on."""
    entry = entry_of(request)
    if entry.knows(request.cookies):
        return go_to(ROOT)
    value = entry.open(token)
    response = go_to(ROOT)
    # without Secure, which loopback addresses without TLS cannot have in every browser
    response.set_cookie(entry.cookie, value, httponly=True, samesite="strict", path="/")
    return response


@way_in.get(f"{ROOT}/static/{{name}}")
async def static(name: str) -> Response:
    """Return a file that pages load; its address changes with its content."""
    found = static_file(name)
    if found is None:
        raise NotFoundError("there is no such file")
    headers = {"cache-control": "max-age=31536000, immutable"}
    return Response(found.content, media_type=found.media_type, headers=headers)


def create_app(desk: Desk, entry: Entry, clock: Callable[[], int] = unix_now) -> FastAPI:
    """Return the application; ``state.seen`` is when somebody last asked for a page, of a monotonic clock."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.desk, app.state.entry, app.state.clock = desk, entry, clock
    app.state.seen = time.monotonic()

    @app.middleware("http")
    async def note(request: Request, call_next: Callable[[Request], asyncio.Future[Response]]) -> Response:
        if not request.url.path.endswith(_LIVE):  # a page that nobody looks at keeps nothing alive
            app.state.seen = time.monotonic()
        return await call_next(request)

    app.add_exception_handler(StarletteHTTPException, _on_http_error)
    for router in (way_in, looking.router, acting.router):
        app.include_router(router)
    return app


async def _on_http_error(request: Request, _error: Exception) -> Response:
    """Answer for an address or a method that no route has."""
    error: OdcError = no_such_page()
    try:
        entry_of(request).require_host(request.headers.get("host", ""))
    except NotPermittedError as refused:
        error = refused
    return under_policy(problem(request, error))
