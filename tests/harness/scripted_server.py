"""An analyst on the other side of `AnalystConnection`, without a socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

import httpx

from tests.harness.certificates import shared_root
from user_client.transport import AnalystConnection, Traffic

Handler = Callable[[httpx.Request], httpx.Response]


class Pauses(list[float]):
    """Remembers how long it was asked to wait, and does not."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def connect(handler: Handler, pauses: Pauses | None = None, **options: Any) -> AnalystConnection:
    """Return a connection whose requests ``handler`` answers."""
    named: dict[str, Any] = {
        "identity": None,
        "transport": lambda _context, _identity: httpx.MockTransport(handler),
        **options,
    }
    return AnalystConnection(
        "https://analyst:8443/",
        shared_root().pem.decode(),
        traffic=Traffic(),
        pause=Pauses() if pauses is None else pauses,
        **named,
    )


def problem(status: int, body: dict[str, Any], **headers: str) -> httpx.Response:
    found = httpx.Response(status, json=body, headers=headers)
    found.headers["content-type"] = "application/problem+json"
    return found


NO_SUCH_NAME: Final = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def caused_by(cause: OSError) -> httpx.ConnectError:
    """What httpx raises where the operating system has said this."""
    error = httpx.ConnectError(str(cause))
    error.__cause__ = cause
    return error


class InTurn:
    """Answers each request with the next of a list; an exception is raised."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer
