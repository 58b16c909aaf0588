"""Who asks: the one place where a certificate becomes an identity, before any route is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from analyst_server.api.problems import problem_response
from protocol.errors import CertificateRequiredError, OdcError
from protocol.identity import Identity, TrustRoot, load_certificate

PUBLIC_PATHS: Final = ("/.well-known/odc", "/healthz")
PUBLIC_ENROLMENT: Final = "/v1/enrolments"
PUBLIC_REVOCATIONS: Final = "/v1/revocations"


def is_public(method: str, path: str) -> bool:
    """Whether a request needs no certificate: discovery, health, asking for one, and who lost theirs."""
    if path in PUBLIC_PATHS or (method == "GET" and path == PUBLIC_REVOCATIONS):
        return True
    if method == "POST":
        return path == PUBLIC_ENROLMENT
    return method == "GET" and path.startswith(PUBLIC_ENROLMENT + "/")


class RequireIdentity:
    """Lets a request through only with a certificate of the consortium, or to a public path."""

    def __init__(self, app: ASGIApp, root: TrustRoot, clock: Callable[[], int]) -> None:
        self._app, self._root, self._clock = app, root, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                identity = self._identify(scope)
                if identity is None and not is_public(scope["method"], scope["path"]):
                    raise CertificateRequiredError("this address needs a client certificate")
            except OdcError as error:
                await problem_response(error, scope["path"])(scope, receive, send)
                return
            scope.setdefault("state", {})["identity"] = identity
        await self._app(scope, receive, send)

    def _identify(self, scope: Scope) -> Identity | None:
        chain = scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or ()
        if not chain:
            return None
        return self._root.identify(load_certificate(chain[0].encode()), at=self._clock())


def _sender(request: Request) -> Identity:
    identity: Identity | None = request.state.identity
    if identity is None:
        raise CertificateRequiredError("this address needs a client certificate")
    return identity


Sender = Annotated[Identity, Depends(_sender)]
