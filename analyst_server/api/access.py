"""Who asks: the one place where a certificate or an API token becomes an identity.

`RequireIdentity` looks at every request before any route is chosen; a certificate takes precedence over a
token. `admit` then lets only those callers reach an operation whom `protocol.operations` names. Pages for a
browser ask for a sign-in themselves (`analyst_server.browser`), and ask `scope_of` who may see them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final

from anyio import to_thread
from fastapi import Depends, Request
from fastapi.params import Depends as Dependency
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from analyst_server.api.problems import problem_response
from analyst_server.services.acts import Actor, act_as
from analyst_server.services.api_tokens import Grant, actor_of
from pages.guard import is_from_another_site
from protocol.errors import (
    CertificateRequiredError,
    NotFoundError,
    NotPermittedError,
    OdcError,
    TokenRefusedError,
)
from protocol.identity import Identity, TrustRoot, load_certificate
from protocol.operations import Caller, Operation, find, methods_of
from protocol.tokens import Scope as TokenScope

PAGES: Final = "/pages"
"""Below this address stand the pages for a browser."""


def is_page(path: str) -> bool:
    """Return whether an address is that of a page, or the one without a path, which leads to them."""
    return path in ("/", PAGES) or path.startswith(f"{PAGES}/")


def is_public(method: str, path: str) -> bool:
    """Return whether a request calls an operation that needs no certificate."""
    found = find(method, path)
    return found is not None and found[0].caller is Caller.ANYBODY


def is_wrong_method(method: str, path: str) -> bool:
    """Return whether an address is one of ours, and no operation has this method on it."""
    taken = methods_of(path)
    return bool(taken) and method not in taken


class RequireIdentity:
    """Lets a request through only with a certificate of the consortium or a token, or if it is public."""

    def __init__(
        self, app: ASGIApp, root: TrustRoot, clock: Callable[[], int], check_token: Callable[[str], Grant]
    ) -> None:
        self._app, self._root, self._clock, self._check_token = app, root, clock, check_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                _refuse_nul(scope)
                pem = _client_certificate(scope)
                identity = self._identify(pem)
                asked = scope["method"], scope["path"]
                if identity is not None and not is_page(scope["path"]) and not is_public(*asked):
                    _refuse_other_sites(scope)
                # a wrong method is told nothing but the right ones, which anybody can read in the description
                is_open = is_public(*asked) or is_wrong_method(*asked) or is_page(scope["path"])
                needs_token = identity is None and not is_open
                # a token's owner is not noted for the meter: the bytes of a round are those of its members
                grant = await to_thread.run_sync(self._check_token, _token(scope)) if needs_token else None
            except OdcError as error:
                await problem_response(error, scope["path"])(scope, receive, send)
                return
            scope.setdefault("state", {}).update(identity=identity, certificate=pem, grant=grant)
            if identity is not None:
                act_as(Actor("certificate", identity.name, is_operator=False))
            elif grant is not None:
                act_as(actor_of(grant, _token(scope)))
        await self._app(scope, receive, send)

    def _identify(self, pem: bytes | None) -> Identity | None:
        return self._root.identify(load_certificate(pem), at=self._clock()) if pem else None


def _refuse_nul(scope: Scope) -> None:
    """Raise `NotFoundError` for an address with a NUL: nothing has such a name, and PostgreSQL takes none."""
    if "\0" in scope["path"]:
        raise NotFoundError("there is nothing at an address with a NUL in it")


def _refuse_other_sites(scope: Scope) -> None:
    """Raise `NotPermittedError` for a request that a page of another site has made in somebody's name.

    A browser shows its certificate to every page that asks for an address of ours, and a form of text needs
    nobody's leave. Pages check their forms themselves.
    """
    headers = Headers(scope=scope)
    # a link that a person follows changes nothing, and no other page reads the answer
    is_link = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if is_from_another_site(headers) and not is_link:
        error = NotPermittedError("a page of another site has made this request")
        error.hint = (
            "a program sends neither Sec-Fetch-Site nor Origin; a person begins at the analyst's own pages"
        )
        raise error


def _client_certificate(scope: Scope) -> bytes | None:
    chain = scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or ()
    pem: str | None = chain[0] if chain else None
    return pem.encode() if pem else None


def _token(scope: Scope) -> str:
    """Return the token in the Authorization header (RFC 6750, 2.1), which is never logged."""
    header = Headers(scope=scope).get("authorization")
    if header is None:
        raise CertificateRequiredError("this address needs a client certificate, or an API token")
    found = re.fullmatch("bearer +([^ ]+)", header, re.IGNORECASE)
    if found is None:
        raise TokenRefusedError("the Authorization header has no bearer token")
    return found[1]


_SCOPES: Final[Mapping[Caller, TokenScope]] = {
    Caller.LISTER: "read",
    Caller.READER: "read",
    Caller.OPERATOR: "manage",
}
"""Callers who may come with an API token, and the scope it must have. All others need a certificate."""

_ROLES: Final[Mapping[Caller, list[str]]] = {
    Caller.CERTIFIED: [],
    Caller.INSTITUTION: ["institution"],
    Caller.LEAD: ["lead"],
    Caller.MEMBER: ["member"],
    Caller.OWNER: ["owner"],
    Caller.LISTER: [],
    Caller.READER: ["member"],
}
"""Callers who may come with a certificate, and what they have to be."""

CERTIFICATE: Final = "clientCertificate"
TOKEN: Final = "apiToken"  # noqa: S105  # the name of a scheme
SCHEMES: Final = {
    CERTIFICATE: {
        "type": "mutualTLS",
        "description": "A client certificate of the consortium, which its lead has issued. The roles of an"
        " operation say whose: that of an institution, of the lead, of a member of the collaboration, or of"
        " whoever created the upload or token.",
    },
    TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token of an institution (`odc token create`) or of the analyst's operator"
        " (`odc-analyst token create`). The role of an operation is the scope that it needs.",
    },
}
"""How a caller proves who it is, as OpenAPI has it."""


def security(operation: Operation) -> list[dict[str, list[str]]]:
    """Return what a caller of an operation has to show, as OpenAPI has it: one of these; of none, nothing."""
    shown: list[dict[str, list[str]]] = []
    if operation.caller in _ROLES:
        shown.append({CERTIFICATE: _ROLES[operation.caller]})
    if operation.caller in _SCOPES:
        shown.append({TOKEN: [_SCOPES[operation.caller]]})
    return shown


def scope_of(operation: Operation) -> TokenScope | None:
    """Return the scope that an API token must have for an operation; None if no token is enough."""
    return _SCOPES.get(operation.caller)


def admit(operation: Operation) -> list[Dependency]:
    """Return the dependencies of a route that refuse every caller but those of the table.

    Which collaborations a caller may see, and who leads one, is for the use case to check.
    """
    scope = scope_of(operation)

    async def check(request: Request) -> None:
        request.state.operation = operation
        if scope is not None:
            _grant(request).require(scope, request.path_params.get("collaboration_id"))
        elif operation.caller is not Caller.ANYBODY:
            _sender(request)

    return [Depends(check)]


def _sender(request: Request) -> Identity:
    identity: Identity | None = request.state.identity
    if identity is None:
        if getattr(request.state, "grant", None) is not None:
            raise NotPermittedError("this address needs a client certificate: no API token is enough")
        raise CertificateRequiredError("this address needs a client certificate")
    return identity


def _grant(request: Request) -> Grant:
    grant: Grant = request.state.grant or Grant(_sender(request))
    return grant


async def _sender_of(request: Request) -> Identity:
    return _sender(request)


async def _certificate_of(request: Request) -> bytes:
    _sender(request)
    pem: bytes = request.state.certificate
    return pem


async def _grant_of(request: Request) -> Grant:
    return _grant(request)


Sender = Annotated[Identity, Depends(_sender_of)]
"""Who sends the request, by its certificate."""

SenderCertificate = Annotated[bytes, Depends(_certificate_of)]
"""The sender's certificate (PEM)."""

Granted = Annotated[Grant, Depends(_grant_of)]
"""What the sender's certificate or API token lets it see."""
