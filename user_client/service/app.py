"""The application of the local service: one predictor, asked over HTTP.

Rows are never logged, and no answer quotes one: an error names row and column.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import traceback
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protocol import __version__
from protocol.errors import InputError, OdcError
from user_client.errors import FieldError, TableError
from user_client.local_http import keep_connection
from user_client.sdk.predictor import Predictor
from user_client.service.body import BodyError, JsonRoute, wrong_type
from user_client.service.content import (
    ModelAnswer,
    PredictionAnswer,
    PredictionRequest,
    columns_of,
    predicted,
)
from user_client.service.description import ABOUT, PROBLEM, TEXT, refusals, security, with_schemes

log = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 16 * 2**20
MOST_UNDER_WAY: Final = 100
"""Requests for predictions, each with its body in memory."""
HEALTH: Final = "/healthz"
MODEL: Final = "/v1/model"
PREDICTIONS: Final = "/v1/predictions"
METRICS: Final = "/metrics"
DESCRIPTION: Final = "/openapi.json"
PATHS: Final = (HEALTH, MODEL, PREDICTIONS, METRICS, DESCRIPTION)
OPEN: Final = (HEALTH, DESCRIPTION)
"""They say nothing of the model, and need no token."""
DISCONNECTED: Final = "disconnected"
"""What is counted in the place of a status for whoever hangs up before the end of the body."""
_NO_TOKEN: Final = {"type": "about:blank", "title": "Send `Authorization: Bearer TOKEN`"}
_TOO_MANY: Final = {"type": "about:blank", "title": "Too many requests are under way: ask again"}
_ENDS: Final = {"type": "about:blank", "title": "The service ends: ask again when it runs"}
_HINT: Final = (
    f"GET {MODEL} says what is predicted and what each column holds; {DESCRIPTION} has the form of a body"
)
_SKIPPING: Final = '`"skip_unfit": true` in the body predicts for all rows that fit'
_LATER: Final = {"retry-after": "1"}
_UNEXPECTED: Final = {
    "type": "/problems/unexpected",
    "title": "Unexpected error",
    "hint": "the log of the service says where; report it, without rows",
}


class Metrics:
    """What the service counts, for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "odc_requests", "Requests by path and status", ["path", "status"], registry=self.registry
        )
        self.rows = Counter("odc_predicted_rows", "Rows predicted", registry=self.registry)
        self.seconds = Histogram(
            "odc_prediction_seconds", "Seconds per request for predictions", registry=self.registry
        )


class Gate:
    """Asks for the token before it reads a body, bounds bodies and requests, and counts the answers.

    It answers what is unexpected too: the layer outside of it would log the error's text, and that may quote
    a row. What asks with HEAD gets what GET would get, without the body.
    """

    def __init__(self, app: ASGIApp, token: str | None, metrics: Metrics) -> None:
        self._app, self._token, self._metrics = app, token, metrics
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, answer = time.perf_counter(), _Answer(send, without_body=scope["method"] == "HEAD")
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        try:
            await self._answer(scope, receive, answer)
        except ClientDisconnect:
            answer.status = answer.status or DISCONNECTED
        except asyncio.CancelledError:  # the service ends, and has waited for a while
            if answer.status is None:
                await _problem(_ENDS, 503, _LATER)(scope, receive, answer)
        except Exception as error:
            log.error("unexpected %s at %s", type(error).__name__, _where(error))
            if answer.status is not None:  # it has begun
                raise
            await _problem(_UNEXPECTED, 500)(scope, receive, answer)
        finally:
            path = scope["path"] if scope["path"] in PATHS else "other"  # what strangers ask is no label
            self._metrics.requests.labels(path, str(answer.status or 500)).inc()
            if path == PREDICTIONS:
                self._metrics.seconds.observe(time.perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._may_ask(scope):
            await _problem(_NO_TOKEN, 401, {"www-authenticate": "Bearer"})(scope, receive, send)
        elif scope["path"] != PREDICTIONS:  # nothing else takes a body
            await self._app(scope, receive, send)
        elif self._under_way >= MOST_UNDER_WAY:
            await _problem(_TOO_MANY, 503, _LATER)(scope, receive, send)
        else:
            keep_connection(scope)
            self._under_way += 1
            try:
                body, refusal = await _bounded_body(receive)
                await (refusal or self._app)(scope, _replaying(body, receive), send)
            finally:
                self._under_way -= 1

    def _may_ask(self, scope: Scope) -> bool:
        if self._token is None or scope["path"] in OPEN:
            return True
        scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and secrets.compare_digest(given.strip(), self._token.encode())


class _Answer:
    """A `send` that knows the status of what it has sent."""

    def __init__(self, send: Send, *, without_body: bool) -> None:
        self._send, self._without_body = send, without_body
        self.status: int | str | None = None

    async def __call__(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        if self._without_body and "body" in message:
            message = {**message, "body": b""}
        await self._send(message)


def _where(error: Exception) -> str:
    """Return the lines of code that an error has come through, innermost first, without its text."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)


async def _bounded_body(receive: Receive) -> tuple[bytes, JSONResponse | None]:
    """Return the body, or the answer to one that is too large; raises `ClientDisconnect`."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            title = f"A request has at most {MAX_BODY_BYTES:,} bytes: send fewer rows"
            return b"", _problem({"type": "about:blank", "title": title}, 413)
        if not message.get("more_body"):
            return bytes(body), None


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with a body that was read already."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


class _Service(FastAPI):
    """An application that says how its callers prove who they are."""

    def openapi(self) -> dict[str, Any]:
        return with_schemes(super().openapi(), self.state.security)


def create_app(predictor: Predictor, token: str | None, *, by_certificate: bool = False) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    predictor : Predictor
    token : str, optional
        What every request but that for the health has to carry; without it, whoever reaches the service may
        ask, which is meant for connections with a client certificate.
    by_certificate : bool
        Whether TLS asks for one; only for the description.
    """
    app = _Service(
        title="ODC predictions",
        description=ABOUT,
        version=__version__,
        openapi_url=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address would be made of what the caller says the host is
        generate_unique_id_function=lambda route: route.name,
    )
    metrics, needed = Metrics(), security(by_certificate=by_certificate, by_token=token is not None)
    app.state.security, app.state.predictor = needed, predictor
    app.router.route_class = JsonRoute
    refused = (401,) if token is not None else ()  # `Gate` checks; this describes it
    checked: dict[str, Any] = {"openapi_extra": {"security": needed}}

    @app.get(HEALTH, openapi_extra={"security": security(by_certificate=by_certificate, by_token=False)})
    def health() -> dict[str, str]:
        """Answer that the service runs and its model is loaded."""
        return {"status": "ok"}

    @app.get(MODEL, responses=refusals(*refused), response_model_exclude_none=True, **checked)
    def model() -> ModelAnswer:
        """Return what is predicted, and the columns it is predicted from."""
        return ModelAnswer.of(predictor.terms, predictor.schema, predictor.kind)

    @app.post(
        PREDICTIONS,
        responses=refusals(400, *refused, 413, 422, 503),
        response_model_exclude_none=True,
        **checked,
    )
    def predict(asked: PredictionRequest) -> PredictionAnswer:
        """Predict for one row or many."""
        try:
            found = predicted(asked, predictor)
        except FieldError as error:
            if "hint" not in vars(error):
                error.hint = f"{_HINT}; {_SKIPPING}"
            raise
        metrics.rows.inc(len(found.predictions) - len(found.unfit or ()))
        return found

    @app.get(METRICS, responses={**refusals(*refused), **TEXT}, response_class=Response, **checked)
    def counted() -> Response:
        """Return the counters for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    app.add_middleware(Gate, token=token, metrics=metrics)
    app.add_exception_handler(OdcError, _on_our_error)
    app.add_exception_handler(RequestValidationError, _on_wrong_type)
    app.add_exception_handler(BodyError, _on_wrong_body)
    app.add_exception_handler(StarletteHTTPException, _on_http_error)
    return app


async def _on_our_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OdcError)  # noqa: S101  # how the handler is registered
    body = {**error.to_problem(), "instance": request.url.path}
    has_its_own = "hint" in vars(error)  # that of a class is for who runs a command
    if isinstance(error, InputError) and not has_its_own:
        body["hint"] = _HINT
    return _problem(body, 422 if isinstance(error, TableError) else 400)


async def _on_wrong_type(request: Request, error: Exception) -> JSONResponse:
    """Say where a body is wrong; the framework's own answer would quote it."""
    assert isinstance(error, RequestValidationError)  # noqa: S101  # as above
    found = wrong_type(error, columns_of(request.app.state.predictor.schema))
    return await (_on_our_error if isinstance(found, FieldError) else _on_wrong_body)(request, found)


async def _on_wrong_body(request: Request, error: Exception) -> JSONResponse:
    body = {"type": "about:blank", "title": "Request is malformed", "detail": str(error), "hint": _HINT}
    return _problem({**body, "instance": request.url.path}, 422)


async def _on_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)  # noqa: S101  # as above
    body = {"type": "about:blank", "title": str(error.detail)}
    return _problem(body, error.status_code, dict(error.headers or {}))


def _problem(body: dict[str, Any], status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({**body, "status": status}, status, headers, media_type=PROBLEM)
