"""Who asks: the one place where a certificate or a token becomes an identity, before any route is looked at.

A certificate goes before a token. What a route takes is what it asks for: `Sender`, a certificate; `Viewer`,
also a token that reads; `Manager`, the operator's token. A route that asks for nothing is public only if its
path is named here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final

from anyio import to_thread
from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from analyst_server.api.problems import problem_response
from analyst_server.services.api_tokens import Grant
from protocol.errors import CertificateRequiredError, NotPermittedError, OdcError, TokenRefusedError
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
    """Lets a request through only with a certificate of the consortium or a token, or to a public path."""

    def __init__(
        self, app: ASGIApp, root: TrustRoot, clock: Callable[[], int], check_token: Callable[[str], Grant]
    ) -> None:
        self._app, self._root, self._clock, self._check_token = app, root, clock, check_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                pem = _client_certificate(scope)
                identity = self._identify(pem)
                is_free = identity is not None or is_public(scope["method"], scope["path"])
                # whoever comes by a token is no party to the meter: a round's bytes are its members'
                grant = None if is_free else await to_thread.run_sync(self._check_token, _token(scope))
            except OdcError as error:
                await problem_response(error, scope["path"])(scope, receive, send)
                return
            scope.setdefault("state", {}).update(identity=identity, certificate=pem, grant=grant)
        await self._app(scope, receive, send)

    def _identify(self, pem: bytes | None) -> Identity | None:
        return self._root.identify(load_certificate(pem), at=self._clock()) if pem else None


def _client_certificate(scope: Scope) -> bytes | None:
    chain = scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or ()
    pem: str | None = chain[0] if chain else None
    return pem.encode() if pem else None


def _token(scope: Scope) -> str:
    """Return the token of a request (RFC 6750, 2.1): in this header, and nowhere that is logged."""
    header = Headers(scope=scope).get("authorization")
    if header is None:
        raise CertificateRequiredError("this address needs a client certificate, or an API token")
    found = re.fullmatch("bearer +([^ ]+)", header, re.IGNORECASE)
    if found is None:
        raise TokenRefusedError("the Authorization header holds no bearer token")
    return found[1]


def _sender(request: Request) -> Identity:
    identity: Identity | None = request.state.identity
    if identity is None:
        if getattr(request.state, "grant", None) is not None:
            raise NotPermittedError("this address needs a client certificate: no API token is enough")
        raise CertificateRequiredError("this address needs a client certificate")
    return identity


def _certificate(request: Request) -> bytes:
    _sender(request)
    pem: bytes = request.state.certificate
    return pem


_IN_OPENAPI = Depends(
    HTTPBearer(scheme_name="API token", description="Made by `odc token create`.", auto_error=False)
)
"""Tells a reader of the OpenAPI document what is checked above."""


def _viewer(request: Request, _documented: object = _IN_OPENAPI) -> Grant:
    grant: Grant = request.state.grant or Grant(_sender(request))
    grant.require("read", request.path_params.get("collaboration_id"))
    return grant


def _manager(request: Request, _documented: object = _IN_OPENAPI) -> Grant:
    grant: Grant = request.state.grant or Grant(_sender(request))
    grant.require("manage", request.path_params.get("collaboration_id"))
    return grant


Sender = Annotated[Identity, Depends(_sender)]
"""By certificate alone."""

SenderCertificate = Annotated[bytes, Depends(_certificate)]
"""The sender's certificate (PEM)."""

Viewer = Annotated[Grant, Depends(_viewer)]
"""By certificate, or by a token that is for the collaboration of the path."""

Manager = Annotated[Grant, Depends(_manager)]
"""By a token of the analyst's operator."""
