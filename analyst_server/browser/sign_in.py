"""The way in and out, and the files that pages load: what everybody may ask for."""

from __future__ import annotations

import math
from typing import Final

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from analyst_server.api.access import PAGES
from analyst_server.api.doors import network_of
from analyst_server.api.problems import STATUS
from analyst_server.browser.answers import SIGN_IN, Form, PageRoute, check_form, fields_of, go_to, show
from analyst_server.browser.visits import COOKIE, TheSessions
from pages.rendering import static_file
from protocol.busy import TooManyRequestsError
from protocol.errors import NotFoundError, OdcError, TrustError

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_YEAR_S: Final = 365 * 86400


@router.get("/")
async def root() -> Response:
    """Lead whoever types the bare address to the pages."""
    return go_to(PAGES)


@router.get(f"{PAGES}/static/{{name}}")
async def static(name: str) -> Response:
    """Return a file that pages load; its address changes with its content."""
    found = static_file(name)
    if found is None:
        raise NotFoundError("there is no such file")
    headers = {"cache-control": f"public, max-age={_YEAR_S}, immutable"}
    return Response(found.content, media_type=found.media_type, headers=headers)


@router.get(SIGN_IN)
async def sign_in(request: Request, next: str = PAGES, ended: str = "") -> Response:  # noqa: A002  # as in the address
    """Ask for an API token; say first that a session has ``ended``, if a form was sent in it."""
    return show(request, "sign_in.html", next=_own(next), error=None, has_ended=ended == "yes")


@router.post(SIGN_IN)
async def begin(request: Request, sessions: TheSessions) -> Response:
    """Begin a session with an API token."""
    fields = await fields_of(request)
    wait_s = sessions.sign_ins.wait_s(network_of(request.client.host if request.client else ""))
    if wait_s:
        raise TooManyRequestsError("too many sign-ins from this address", retry_after_s=math.ceil(wait_s))
    check_form(request, fields, "sign-in")
    target = _own(fields.get("next", PAGES))
    try:
        cookie = await to_thread.run_sync(sessions.begin, fields.get("token", "").strip())
    except TrustError as error:
        return _refused(request, error, target)
    response = go_to(target)
    sessions.keep(response, cookie)
    return response


@router.post(f"{PAGES}/sign-out")
def sign_out(request: Request, sessions: TheSessions, _form: Form) -> Response:
    """End the session."""
    sessions.end(request.cookies.get(COOKIE, ""))
    request.state.session = None  # is not renewed
    response = go_to(SIGN_IN)
    response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict")
    return response


def _refused(request: Request, error: OdcError, target: str) -> Response:
    page = show(request, "sign_in.html", next=target, error=error, has_ended=False, code=STATUS[type(error)])
    if page.status_code == 401:  # it has to name a scheme of authentication (RFC 9110, 15.5.2)
        page.headers["www-authenticate"] = "Bearer"
    return page


def _own(path: str) -> str:
    """Return an address to go to after the sign-in: one of our pages, or the first of them."""
    is_plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if is_plain and path.startswith(f"{PAGES}/") else PAGES
