"""One line in the log for each request, refused ones too: who asked for what, and how it ended."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protocol.errors import PROBLEM_TYPE_PREFIX, OdcError
from protocol.identity import load_certificate
from protocol.tokens import token_digest, token_id
from protocol.tracing import HEADER, request_id
from runtime.logs import FIELDS, REQUEST, tell

log = logging.getLogger(__name__)

OK: Final = "ok"
CUT_OFF: Final = "cut-off"
"""How a request ended that has no whole answer."""
UNEXPECTED: Final = "unexpected"


Observer = Callable[[str, str, int | None, float], None]
"""Takes method, path, status (None without an answer) and seconds of a request."""


class AccessLog:
    """Logs each request once it is answered, with the code of the problem if it was refused.

    ``observe`` is told of each as well.

    The outermost layer, so that it sees what any other refuses. A certificate is named by its serial number
    and a token by its id, also where they are not valid; the party is named only if the identity was checked.
    """

    def __init__(
        self, app: ASGIApp, observe: Observer = lambda _method, _path, _status, _seconds: None
    ) -> None:
        self._app, self._observe = app, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answer = time.perf_counter(), _Answer()
        # for the whole task: the layer that answers unexpected errors is outside of this one
        tell(REQUEST, request_id(Headers(scope=scope).get(HEADER)))

        async def noted(message: Message) -> None:
            answer.note(message)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:
            answer.status, answer.outcome = 500, UNEXPECTED  # which the layer around all layers answers
            raise
        finally:
            seconds = time.perf_counter() - began
            self._observe(scope["method"], scope["path"], answer.status, seconds)
            fields = {
                **_who(scope),
                "method": scope["method"],
                "path": scope["path"],
                "status": answer.status,
                "outcome": answer.outcome,
                "ms": round(1000 * seconds),
            }
            log.info("%s", _in_text(fields), extra={FIELDS: fields})


def _in_text(fields: Mapping[str, Any]) -> str:
    """Return what is known of some fields as ``name=value``, in the way of logfmt.

    Whatever could be read as another field is in quotes: a path is what a stranger has asked for, decoded.
    """
    return " ".join(f"{name}={_quoted(str(value))}" for name, value in fields.items() if value is not None)


def _quoted(value: str) -> str:
    if not any(each in '="\\' or each.isspace() for each in value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Answer:
    """What is known of an answer so far."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.outcome = CUT_OFF
        self._is_problem = False

    def note(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            kind = Headers(raw=message.get("headers", [])).get("content-type", "")
            self._is_problem = kind.startswith("application/problem+json")
        elif message["type"] == "http.response.body" and not message.get("more_body"):
            self.outcome = OK if self.status is not None and self.status < 400 else "refused"
            if self._is_problem:
                self.outcome = _code(message.get("body", b""))


def _code(body: bytes) -> str:
    """Return the code of a problem document, which is ours; of another its title."""
    try:
        problem = json.loads(body)
        kind = str(problem["type"])
        return str(problem["title"]) if kind == "about:blank" else kind.removeprefix(PROBLEM_TYPE_PREFIX)
    except (ValueError, KeyError, TypeError):  # sent in parts, or compressed
        return "refused"


def _who(scope: Scope) -> dict[str, Any]:
    state = scope.get("state", {})
    identity, grant = state.get("identity"), state.get("grant")
    holder = identity or (grant.holder if grant is not None else None)
    chain = scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or ()
    return {
        "address": (scope.get("client") or (None,))[0],
        "party": holder.name if holder else None,
        "role": holder.role if holder else ("operator" if grant is not None else None),
        "serial": _serial(chain[0]) if chain else None,
        "token": state.get("token_id") or _token(Headers(scope=scope).get("authorization")),
    }


@lru_cache(maxsize=1024)
def _serial(pem: str) -> str:
    try:
        return f"{load_certificate(pem.encode()).serial_number:x}"
    except OdcError:
        return "unreadable"


def _token(header: str | None) -> str | None:
    """Return the id of the token in an Authorization header; the token itself is never logged."""
    scheme, _, token = (header or "").partition(" ")
    try:
        return token_id(token_digest(token.strip())) if scheme.lower() == "bearer" else None
    except OdcError:  # it is none
        return None
