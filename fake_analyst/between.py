"""What stands between the client and the real analyst: it notes every request, and answers some with a lie.

Requests of other parties, who have certificates of their own, pass untouched and unnoted.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protocol.identity import certified_name, load_certificate
from protocol.limits import MAX_ANSWER_BYTES
from protocol.operations import Operation, find

MOST_SENT_BYTES: Final = 3 * MAX_ANSWER_BYTES
"""Where an endless answer ends after all, so that a client without a bound costs no more."""
PIECE_BYTES: Final = 2**16


@dataclass(frozen=True)
class Request:
    """One request of the client."""

    operation: Operation | None
    ids: Mapping[str, str]
    query: str
    headers: Mapping[str, str]
    """Names in lower case."""
    at_s: float
    """By a clock that only goes forward."""

    @property
    def start(self) -> int:
        """The first entry of the ledger that is asked for."""
        found = dict(part.partition("=")[::2] for part in self.query.split("&")).get("start", "0")
        return int(found) if found.isdigit() else 0

    @property
    def acknowledges(self) -> bool:
        """Whether it says that a downlink is on the client's disk."""
        return "if-none-match" in self.headers


@dataclass(frozen=True)
class Answer:
    """One answer, honest or not."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    hangs_up_after: int | None = None
    """So many bytes of the body are sent; then the connection ends."""
    is_endless: bool = False
    """The body comes again and again, until the client hangs up."""


Change = Callable[[Request, Answer], Answer | None]
"""Makes a lie of an honest answer; None leaves it as it is."""
Instead = Callable[[Request], Answer | None]
"""Answers in the place of the analyst, who never sees the request; None lets it through."""


@dataclass(frozen=True)
class Lie:
    """One kind of answer that is not what the analyst should say."""

    about: Operation | None
    """None: whatever is asked."""
    change: Change | None = None
    instead: Instead | None = None

    def concerns(self, request: Request) -> bool:
        return self.about is None or request.operation is self.about


@dataclass
class Noted:
    """A request of the client, and what became of it."""

    request: Request
    lied: bool = False
    status: int = 0
    sent_bytes: int = 0


class Between:
    """The application that is served: the real one, with lies about it for one client alone."""

    def __init__(self, app: ASGIApp, client: str) -> None:
        self._app, self._client = app, client
        self._names: dict[str, str] = {}
        self.lies: Sequence[Lie] = ()
        self.noted: list[Noted] = []

    def begin(self, lies: Sequence[Lie]) -> None:
        """Forget what was noted, and tell these lies from now on."""
        self.noted, self.lies = [], lies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._is_clients(scope):
            await self._app(scope, receive, send)
            return
        noted = Noted(_request_of(scope))
        self.noted.append(noted)
        lies = [lie for lie in self.lies if lie.concerns(noted.request)]
        for lie in lies:
            if lie.instead is not None:
                answer = await asyncio.to_thread(lie.instead, noted.request)
                if answer is not None:
                    noted.lied = True
                    await _send(answer, noted, receive, send)
                    return
        changes = [lie.change for lie in lies if lie.change is not None]
        if not changes:
            await self._app(scope, receive, _watched(send, noted))
            return
        answer, lied = await self._answer_of(scope, receive), False
        for change in changes:
            changed = await asyncio.to_thread(change, noted.request, answer)
            answer, lied = changed or answer, lied or changed is not None
        noted.lied = lied
        await _send(answer, noted, receive, send)

    def _is_clients(self, scope: Scope) -> bool:
        """Return whether the client asks: by its certificate, or as the one stranger there is."""
        chain = scope["extensions"]["tls"]["client_cert_chain"]
        if not chain:
            return True
        if chain[0] not in self._names:
            self._names[chain[0]] = certified_name(load_certificate(chain[0].encode())).name
        return self._names[chain[0]] == self._client

    async def _answer_of(self, scope: Scope, receive: Receive) -> Answer:
        """Return the whole honest answer, not compressed."""
        plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        came: list[Message] = []

        async def keep(message: Message) -> None:
            came.append(message)

        await self._app({**scope, "headers": plain}, receive, keep)
        headers = {name.decode().lower(): value.decode() for name, value in came[0].get("headers", [])}
        return Answer(came[0]["status"], headers, b"".join(part.get("body", b"") for part in came[1:]))


def _request_of(scope: Scope) -> Request:
    found = find(scope["method"], scope["path"])
    operation, ids = found or (None, {})
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return Request(operation, ids, scope["query_string"].decode(), headers, time.monotonic())


def _watched(send: Send, noted: Noted) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            noted.status = message["status"]
        noted.sent_bytes += len(message.get("body", b""))
        await send(message)

    return sent


async def _send(answer: Answer, noted: Noted, receive: Receive, send: Send) -> None:
    headers = dict(answer.headers)
    if answer.is_endless:
        headers.pop("content-length", None)
    elif answer.status not in (204, 304) or "content-length" in headers:
        headers.setdefault("content-length", str(len(answer.body)))
    noted.status = answer.status
    listed = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": listed})
    if answer.is_endless:
        await _send_on(answer.body, noted, receive, send)
        return
    body = answer.body if answer.hangs_up_after is None else answer.body[: answer.hangs_up_after]
    noted.sent_bytes = len(body)
    is_cut = answer.hangs_up_after is not None
    await send({"type": "http.response.body", "body": body, "more_body": is_cut})
    # uvicorn closes the connection of an application that returns before the end of its answer


async def _send_on(body: bytes, noted: Noted, receive: Receive, send: Send) -> None:
    """Send the same again and again until the client hangs up."""
    gone = asyncio.ensure_future(_hang_up(receive))
    while not gone.done() and noted.sent_bytes < MOST_SENT_BYTES:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        noted.sent_bytes += len(body)
        await asyncio.sleep(0)
    gone.cancel()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def with_body(answer: Answer, body: bytes, **headers: str) -> Answer:
    """Return the same answer with another body."""
    kept = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return replace(answer, headers={**kept, **headers}, body=body)


def in_json(value: Any, status: int = 200, media_type: str = "application/json", **headers: str) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, {"content-type": media_type, **headers}, json.dumps(value).encode())
