"""How a page is answered: HTML under one policy, errors as pages, and forms that only our pages can send."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, quote

from anyio import to_thread
from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, RedirectResponse, Response

from analyst_server.api.access import PAGES
from analyst_server.api.bodies import read_limited
from analyst_server.api.problems import on_odc_error
from analyst_server.browser.visits import COOKIE, SignInNeededError, TheVisitor, Visitor, sessions_of
from analyst_server.pages.elements import TEMPLATES
from pages.guard import is_from_our_page
from pages.rendering import HEADERS
from protocol.errors import InputError, MalformedMessageError, NotFoundError, NotPermittedError, OdcError
from protocol.limits import MAX_MESSAGE_BYTES
from protocol.operations import JSON, PUBLISH_TERMS

PRODUCT: Final = "ODC analyst"
SIGN_IN: Final = f"{PAGES}/sign-in"
FORM_TOKEN: Final = "form_token"  # noqa: S105  # the name of a field
_MAX_FORM_BYTES: Final = 3 * MAX_MESSAGE_BYTES
"""A draft of terms, in which any character may be written as three."""
_MAX_FIELDS: Final = 20


def show(
    request: Request, name: str, *, visitor: Visitor | None = None, code: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page made of a template.

    ``twin`` among the values is the REST address that answers the same, with its media type after a space if
    it is not JSON; ``calls`` is the REST operation, with its ids, that does what the form of the page does.
    """
    sessions = sessions_of(request)
    url, _, media_type = values.pop("twin", "").partition(" ")
    operation, ids = values.pop("calls", (None, {}))
    subject = visitor.subject if visitor else "sign-in"
    text = TEMPLATES.render(
        name,
        root=PAGES,
        product=PRODUCT,
        visitor=visitor,
        may_create=visitor is not None and visitor.may(PUBLISH_TERMS),
        twin={"url": url, "media_type": media_type or JSON} if url else None,
        calls=f"{operation.method} {operation.url(**ids)}" if operation else "",
        form_token=sessions.guard.form_token(subject, sessions.analyst.clock()),
        **values,
    )
    return HTMLResponse(text, code)


def go_to(path: str) -> RedirectResponse:
    """Send the browser to another page, which it asks for with GET."""
    return RedirectResponse(path, 303)


class PageRoute(APIRoute):
    """A route whose errors are pages, and whose answers carry the policy of all pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                response = await answer(request)
            except SignInNeededError:
                response = _to_sign_in(request)
            except OdcError as error:
                response = await _problem_page(request, error)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            sessions_of(request).renew(request, response)
            return response

        return handle


def _to_sign_in(request: Request) -> Response:
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        # a link from elsewhere carries no strict cookie: our own page asks once more, with it
        return show(request, "once_more.html", here=_here(request))
    if "hx-request" in request.headers:  # a part of a page, in whose place no other page must come
        return Response(headers={"hx-refresh": "true"})
    ended = "&ended=yes" if request.method == "POST" else ""
    response = go_to(f"{SIGN_IN}?next={quote(_here(request))}{ended}")
    if COOKIE in request.cookies:
        response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict")
    return response


def _here(request: Request) -> str:
    if request.method != "GET":
        return PAGES
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


async def _problem_page(request: Request, error: OdcError) -> Response:
    problem = await on_odc_error(request, error)
    status = HTTPStatus(problem.status_code)
    visitor = await to_thread.run_sync(_visitor_if_any, request)
    page = show(
        request, "problem.html", visitor=visitor, code=status, error=error, is_act=request.method == "POST"
    )
    for name in ("www-authenticate", "retry-after"):
        if name in problem.headers:
            page.headers[name] = problem.headers[name]
    return page


def _visitor_if_any(request: Request) -> Visitor | None:
    try:
        return sessions_of(request).visitor(request)
    except (OdcError, SignInNeededError):
        return None


def no_such_page() -> NotFoundError:
    """Return the error of an address that no page has."""
    error = NotFoundError("there is no such page")
    error.hint = "follow the link below: every page is reached from there"
    return error


async def fields_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; raises `MalformedMessageError` and `LimitExceededError`."""
    body = await read_limited(request, _MAX_FORM_BYTES)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise MalformedMessageError("form", "is not one of ours") from None


def check_form(request: Request, fields: dict[str, str], subject: str) -> None:
    """Raise `NotPermittedError` unless one of our own pages has sent a form, in the same session."""
    sessions = sessions_of(request)
    is_ours = sessions.guard.is_form_token(fields.get(FORM_TOKEN, ""), subject, sessions.analyst.clock())
    if not is_ours or not is_from_our_page(request.headers):
        error = NotPermittedError("this form was not sent from a page of this session")
        error.hint = "go back, load the page again, and send the form once more; nothing was changed"
        raise error


async def _form(request: Request, visitor: TheVisitor) -> dict[str, str]:
    fields = await fields_of(request)
    check_form(request, fields, visitor.subject)
    return fields


def require_yes(fields: Mapping[str, str]) -> None:
    """Raise `InputError` unless the box was ticked that says what a form does."""
    if fields.get("confirmed") != "yes":
        error = InputError("the box was not ticked")
        error.hint = "go back, read what the step does, and tick the box"
        raise error


Form = Annotated[dict[str, str], Depends(_form)]
"""The fields of a form that one of our own pages has sent in the visitor's session."""
