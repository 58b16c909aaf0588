"""The analyst's application, called without a socket; a certificate is put where TLS would put it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import jsonschema_rs
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from analyst_server.api.description import document
from analyst_server.api.problems import PROBLEM_MEDIA_TYPE
from analyst_server.app import create_app
from analyst_server.settings import Settings
from protocol.coding import PREFIX
from protocol.operations import JSON, Operation, find
from tests.harness.certificates import shared_member
from tests.harness.world import World, role_of


class WithCertificate:
    """What `analyst_server.api.tls` does for a connection."""

    def __init__(self, app: ASGIApp, pem: str | None) -> None:
        self._app, self._pem = app, pem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chain = (self._pem,) if self._pem else ()
        scope.setdefault("extensions", {})["tls"] = {"client_cert_chain": chain}
        await self._app(scope, receive, send)


class _Whole(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content


class ToApp(httpx.BaseTransport):
    """Hands each request to an application and waits for its whole answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        content = request.read()

        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            asked = httpx.Request(request.method, request.url, headers=request.headers, content=content)
            found = await transport.handle_async_request(asked)
            body = b"".join([piece async for piece in found.aiter_raw()])  # as it came: perhaps compressed
            return httpx.Response(found.status_code, headers=found.headers, stream=_Whole(body))

        return asyncio.run(answer())


class InProcess(ToApp):
    """Hands each request to the analyst's application, and checks the answer against the description."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        found = super().handle_request(request)
        check_against_the_description(request, found)
        return found


def check_against_the_description(request: httpx.Request, answer: httpx.Response) -> None:
    """Raise if an operation answers what the OpenAPI document does not have."""
    called = find(request.method, request.url.path)
    if called is None:
        return
    operation, _ = called
    said = document()["paths"][operation.path][operation.method.lower()]["responses"]
    where = f"{operation.name} {answer.status_code}"
    assert str(answer.status_code) in said, where
    told = said[str(answer.status_code)]
    for name, header in told.get("headers", {}).items():
        value = answer.headers.get(name)
        assert value is not None or not header["required"], (where, name)
        assert value is None or re.search(header["schema"]["pattern"], value), (where, name, value)
    media_type = answer.headers.get("content-type")
    if request.method == "HEAD" or (media_type is None and not answer.read()):
        assert answer.status_code == 503 or "content" not in told or request.method == "HEAD", where
        return
    assert media_type in told["content"], (where, media_type)
    is_packed = answer.headers.get("content-encoding", "").startswith(PREFIX)  # httpx does not unpack it
    if media_type in (JSON, PROBLEM_MEDIA_TYPE) and not is_packed:
        validator_of(operation, answer.status_code, media_type).validate(json.loads(answer.read()))


@cache
def validator_of(operation: Operation, status: int, media_type: str) -> jsonschema_rs.Draft202012Validator:
    """Return what checks an answer; an object may have no member that its schema does not name."""
    said = document()["paths"][operation.path][operation.method.lower()]["responses"][str(status)]
    schemas = {name: _closed(one) for name, one in document()["components"]["schemas"].items()}
    whole = {**said["content"][media_type]["schema"], "components": {"schemas": schemas}}
    return jsonschema_rs.Draft202012Validator(whole)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    is_open = schema.get("title") == "Problem" or "properties" not in schema
    return schema if is_open else {"additionalProperties": False, **schema}


class Api:
    """Clients of one application, each with its own certificate."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.app: FastAPI = create_app(world.analyst, Settings(data_dir=world.directory))

    def transport(self, pem: str | None) -> InProcess:
        return InProcess(WithCertificate(self.app, pem))

    def with_pem(self, pem: str | None) -> httpx.Client:
        return httpx.Client(transport=self.transport(pem), base_url="https://analyst")

    def as_party(self, party: str) -> httpx.Client:
        return self.with_pem(shared_member(role_of(party), party).pem.decode())

    def broken_off(
        self,
        party: str,
        path: str,
        headers: dict[str, str],
        sent: list[bytes],
        *,
        hangs_up: bool,
        method: str = "PATCH",
    ) -> int:
        """Return the status of a request whose sender hangs up or falls silent before the end of its body."""
        pem = shared_member(role_of(party), party).pem.decode()
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        events: list[Message] = [{"type": "http.request", "body": one, "more_body": True} for one in sent]
        answered: list[Message] = []

        async def receive() -> Message:
            if events:
                return events.pop(0)
            if not hangs_up:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            answered.append(message)

        asyncio.run(WithCertificate(self.app, pem)(scope, receive, send))
        return int(answered[0]["status"])

    @property
    def anonymous(self) -> httpx.Client:
        return self.with_pem(None)


def routes(api: Api) -> list[Any]:
    """Return all routes of the application, those of its routers as well."""
    found, stack = [], list(api.app.routes)
    while stack:
        route = stack.pop()
        if hasattr(route, "methods"):
            found.append(route)
        else:  # a router, which FastAPI keeps as it was or behind a wrapper
            inner: Any = getattr(route, "original_router", route)
            stack.extend(inner.routes)
    return found


def slug(answer: Any) -> str:
    """Return the slug of a problem document, whose form is checked on the way."""
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["title"]
    assert body["detail"]
    assert body["hint"]
    assert body["instance"].startswith("/")
    return str(body["type"]).rpartition("/")[2]
