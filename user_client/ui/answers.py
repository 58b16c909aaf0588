"""How a page is answered: HTML under one policy, a twin in JSON, errors as pages, and our own forms alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from pages.rendering import HEADERS, Templates
from protocol.errors import (
    InputError,
    LimitExceededError,
    MalformedMessageError,
    NotFoundError,
    NotPermittedError,
    OdcError,
    RoundError,
)
from runtime.start_up import as_ours
from user_client.errors import BusyError, ConnectionFailedError
from user_client.ui.entry import FORM_TOKEN, ROOT, Entry
from user_client.ui.work import Desk

PRODUCT: Final = "ODC institution"
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
_TEMPLATES: Final = Templates("user_client.ui")
_MAX_FORM_BYTES: Final = 64 * 2**10
_MAX_FIELDS: Final = 20
_STATUS: Final[tuple[tuple[type[OdcError], HTTPStatus], ...]] = (
    (NotPermittedError, HTTPStatus.FORBIDDEN),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (LimitExceededError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (BusyError, HTTPStatus.CONFLICT),
    (ConnectionFailedError, HTTPStatus.BAD_GATEWAY),
    (RoundError, HTTPStatus.CONFLICT),
)


def desk_of(request: Request) -> Desk:
    """Return the institution whose pages are asked for."""
    desk: Desk = request.app.state.desk
    return desk


def entry_of(request: Request) -> Entry:
    """Return who may look at these pages."""
    entry: Entry = request.app.state.entry
    return entry


TheDesk = Annotated[Desk, Depends(desk_of)]


def show(
    request: Request, name: str, twin: Mapping[str, Any] | None = None, *, code: int = 200, **values: Any
) -> Response:
    """Return a page made of a template, or with ``?as=json`` what it shows for machines.

    Parameters
    ----------
    twin : mapping, optional
        What the page shows, as JSON; None for a page that shows nothing but a form or an error.
    """
    if twin is not None and request.query_params.get("as") == "json":
        return JSONResponse(dict(twin), code)
    url = f"{request.url.path}?as=json"
    text = _TEMPLATES.render(
        name,
        root=ROOT,
        product=PRODUCT,
        twin={"url": url, "media_type": JSON} if twin is not None else None,
        calls="",  # its commands do what the forms do
        advice=advice,
        form_token=entry_of(request).form_token(request.app.state.clock()),
        **values,
    )
    return HTMLResponse(text, code)


def go_to(path: str) -> RedirectResponse:
    """Send the browser to another page, which it asks for with GET."""
    return RedirectResponse(path, 303)


def under_policy(response: Response) -> Response:
    """Give an answer the policy of all pages."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


class PageRoute(APIRoute):
    """A route for the browser that was let in; its errors are pages, and all answers carry one policy."""

    is_open = False
    """Whether it can be asked for without the cookie."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                entry_of(request).require_host(request.headers.get("host", ""))
                if not self.is_open:
                    entry_of(request).require_session(request.cookies)
                response = await answer(request)
            except OdcError as error:
                response = problem(request, error)
            except Exception as error:  # noqa: BLE001  # `as_ours` logs what is not ours
                response = problem(request, as_ours(error))
            return under_policy(response)

        return handle


class OpenRoute(PageRoute):
    """A route that everybody on this machine may ask for, by the right name."""

    is_open = True


def problem(request: Request, error: OdcError) -> Response:
    """Return an error as a page, or as JSON where that is asked for."""
    code = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)
    if request.query_params.get("as") == "json":
        body = {**error.to_problem(), "status": code.value}
        return JSONResponse(body, code, media_type=PROBLEM)
    if "hx-request" in request.headers:  # a part of a page: what is shown stays, and is asked for again
        return Response(status_code=204)
    is_act = request.method == "POST"
    # without an answer nobody knows whether the analyst has got it
    is_unchanged = is_act and not isinstance(error, ConnectionFailedError)
    hint = advice(error) if is_act else advice(error, "load the page again")
    return show(request, "problem.html", code=code, error=error, hint=hint, is_unchanged=is_unchanged)


def advice(error: OdcError, again: str = "send the form again") -> str:
    """Return what to do about an error, for who clicks and types no command."""
    return re.sub("run the command again(?! with)", again, error.hint)


def no_such_page() -> NotFoundError:
    """Return the error of an address that no page has."""
    error = NotFoundError("there is no such page")
    error.hint = "follow the link below: every page is reached from there"
    return error


async def _form(request: Request) -> dict[str, str]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MAX_FORM_BYTES:
            raise LimitExceededError("form", _MAX_FORM_BYTES)
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise MalformedMessageError("form", "is not one of ours") from None
    entry_of(request).check_form(request.headers, fields.get(FORM_TOKEN, ""), request.app.state.clock())
    return fields


Form = Annotated[dict[str, str], Depends(_form)]
"""The fields of a form that one of our own pages has sent."""


def require_yes(fields: Mapping[str, str]) -> None:
    """Raise `InputError` unless the box was ticked that says what a form does."""
    if fields.get("confirmed") != "yes":
        error = InputError("the box was not ticked")
        error.hint = "go back, read what the step does, and tick the box"
        raise error
