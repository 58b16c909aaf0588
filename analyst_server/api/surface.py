"""From the table of operations to routes: `serve` makes a function the handler of an operation.

An operation has one handler, and a handler calls one use case. `routes` has those whose bodies fit into
memory, `uploads` and `downlink` those that stream, `status` the one that may be held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.datastructures import Default
from starlette.responses import JSONResponse, Response

from analyst_server.api.access import admit
from analyst_server.api.problems import PROBLEM_MEDIA_TYPE, STATUS
from analyst_server.services.analyst import Analyst
from protocol.operations import JSON, Operation

Handler = TypeVar("Handler", bound=Callable[..., Any])


def serve(
    router: APIRouter,
    operation: Operation,
    *,
    schema: dict[str, Any] | None = None,
    responses: dict[int | str, dict[str, Any]] | None = None,
) -> Callable[[Handler], Handler]:
    """Return a decorator that serves an operation by the function below it.

    Path, method, callers, media types and problems come from the table, and the description in the
    OpenAPI document from the function's docstring. There, ``schema`` describes a JSON body, and
    ``responses`` answers that the table does not have.
    """
    answers_json = operation.answer == JSON

    def register(handler: Handler) -> Handler:
        router.add_api_route(
            operation.path,
            handler,
            methods=[operation.method],
            name=operation.name,
            operation_id=operation.name,
            tags=[operation.tag],
            dependencies=admit(operation),
            status_code=_success(operation),
            response_model=dict[str, Any] if answers_json else None,
            response_class=Default(JSONResponse) if answers_json else Response,
            responses={**_responses(operation), **(responses or {})},
            openapi_extra=_request_body(operation, schema),
        )
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


def _success(operation: Operation) -> int:
    if operation.answer is None:
        return 204
    return 201 if operation.creates else 200


def _responses(operation: Operation) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says of the answers, besides the schema of a JSON answer."""
    found: dict[int | str, dict[str, Any]] = {}
    if operation.answer is not None and operation.answer != JSON:
        found[_success(operation)] = {"content": {operation.answer: {}}}
    if operation.creates:
        found[200] = {
            "description": "The same request was answered before.",
            "content": {JSON: {"schema": {"type": "object"}}},
        }
    by_status = defaultdict(list)
    for problem in operation.all_problems:
        by_status[STATUS[problem]].append(problem.code)
    for status, codes in sorted(by_status.items()):
        types = {"type": {"enum": [f"/problems/{code}" for code in codes]}}
        found[status] = {
            "description": "Problem: " + ", ".join(codes),
            "content": {PROBLEM_MEDIA_TYPE: {"schema": {"type": "object", "properties": types}}},
        }
    return found


def _request_body(operation: Operation, schema: dict[str, Any] | None) -> dict[str, Any] | None:
    if operation.body is None:
        return None
    binary = {"type": "string", "format": "binary"}
    media_type = operation.body.media_type or "application/octet-stream"
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema or binary}}}}
