"""From the table of operations to routes: `serve` makes a function the handler of an operation.

An operation has one handler, and a handler calls one use case. `routes` has those whose bodies fit into
memory, `uploads` and `downlink` those that stream, `status` the one that may be held. `description` tells
programs what is served here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar, get_type_hints

from fastapi import APIRouter, Depends, Request
from fastapi.datastructures import Default
from starlette.responses import JSONResponse, Response

from analyst_server.api.access import admit
from analyst_server.api.fields import Field
from analyst_server.services.analyst import Analyst
from protocol.operations import JSON, Operation

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True)
class Bytes:
    """Content that is not JSON: what it is, and under which heading docs/protocol.md specifies it."""

    what: str
    heading: str


@dataclass(frozen=True)
class Draft:
    """The JSON of a type without members that the analyst fills in itself; it ignores them."""

    of: type
    filled_in: tuple[str, ...]


Content = type | Bytes | Draft
"""What a body contains; a type stands for its JSON."""


@dataclass(frozen=True)
class Says:
    """What an answer of one status says besides its content.

    Attributes
    ----------
    about : str
        When it comes; "" for a status that the table has.
    content : Content, optional
        Of a status that the table does not have; without it the answer has no body.
    is_problem : bool
        Whether the content is a problem document that has no slug.
    """

    status: int
    about: str = ""
    fields: Sequence[Field] = ()
    content: Content | None = None
    is_problem: bool = False


CUT_OFF: Final = Says(408, "The body did not come to its end; nobody reads this.")


@dataclass(frozen=True)
class Served:
    """What a handler adds to the entry of its operation in the table, for the description."""

    about: str
    takes: Content | None
    answers: Content | None
    reads: Sequence[Field]
    queries: Sequence[Field]
    says: Sequence[Says]


SERVED: Final[dict[Operation, Served]] = {}
"""Every operation that has a handler; complete once the modules of this package are loaded."""


def serve(
    router: APIRouter,
    operation: Operation,
    *,
    takes: Content | None = None,
    answers: Content | None = None,
    reads: Sequence[Field] = (),
    queries: Sequence[Field] = (),
    says: Sequence[Says] = (),
) -> Callable[[Handler], Handler]:
    """Return a decorator that serves an operation by the function below it.

    Path, method, callers, media types and problems come from the table. The rest is for the description,
    which also has the function's docstring: ``takes`` and ``answers`` are what the bodies contain (the type
    that the function returns, if nothing else is said), ``reads`` and ``queries`` the header fields and
    parameters that are looked at, ``says`` what answers have besides.
    """
    answers_json = operation.answer == JSON

    def register(handler: Handler) -> Handler:
        router.add_api_route(
            operation.path,
            handler,
            methods=[operation.method],
            name=operation.name,
            dependencies=admit(operation),
            status_code=success(operation),
            response_model=dict[str, Any] if answers_json else None,
            response_class=Default(JSONResponse) if answers_json else Response,
        )
        returned = answers or (get_type_hints(handler)["return"] if answers_json else None)
        about = inspect.getdoc(handler) or ""
        SERVED[operation] = Served(about, takes, returned, reads, queries, says)
        return handler

    return register


def created(content: Any, is_new: bool) -> JSONResponse:
    """Return the answer of an operation that creates: 201 the first time, and 200 when it is repeated."""
    return JSONResponse(content, 201 if is_new else 200)


def done() -> Response:
    """Return the answer of an operation that has nothing to say."""
    return Response(status_code=204)


async def _analyst(request: Request) -> Analyst:
    analyst: Analyst = request.app.state.analyst
    return analyst


TheAnalyst = Annotated[Analyst, Depends(_analyst)]
"""The analyst whose application serves the request."""


def success(operation: Operation) -> int:
    """Return the status of the answer to a first request."""
    if operation.answer is None:
        return 204
    return 201 if operation.creates else 200
