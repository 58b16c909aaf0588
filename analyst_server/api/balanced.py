"""Behind a balancer that opens TLS: whose certificate a request has, as the balancer and nobody else says.

The balancer shows the analyst's own certificate to this server, which proves the analyst's key: whoever opens
TLS in the name of the analyst has it anyway. What it says of a member is a certificate in the header
`Client-Cert` (RFC 9440), and `access.RequireIdentity` checks it as it checks one that TLS has shown.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from analyst_server.api.problems import problem_response
from protocol.errors import CertificateRefusedError, OdcError
from protocol.identity import TrustRoot, load_certificate
from protocol.operations import HEALTH, READINESS

HEADER: Final = "client-cert"
_BYTES: Final = re.compile(":([A-Za-z0-9+/]+={0,2}):")
"""A byte sequence (RFC 8941, 3.3.5)."""


class BehindBalancer:
    """Refuses whoever is not the balancer, and puts the member's certificate where TLS would have put it.

    Questions after the server's health need no certificate, because whatever supervises it has none.
    """

    def __init__(
        self, app: ASGIApp, root: TrustRoot, clock: Callable[[], int], certificate: x509.Certificate
    ) -> None:
        self._app, self._root, self._clock = app, root, clock
        self._key = _key_of(certificate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            extensions = scope.get("extensions", {})
            tls = extensions.get("tls", {})
            try:
                chain = self._member(scope, tls.get("client_cert_chain") or ())
            except OdcError as error:
                refusal = problem_response(error, scope["path"])
                refusal.headers["connection"] = "close"
                await refusal(scope, receive, send)
                return
            # the connection's own stay as they are: its next request may be another member's
            scope["extensions"] = {**extensions, "tls": {**tls, "client_cert_chain": chain}}
        await self._app(scope, receive, send)

    def _member(self, scope: Scope, shown: tuple[str, ...]) -> tuple[str, ...]:
        """Return the certificate that the balancer names, if any; raise for everybody else."""
        named = Headers(scope=scope).getlist(HEADER)
        if not shown and not named and scope["path"] in (HEALTH.path, READINESS.path):
            return ()
        if not shown or not self._is_balancer(shown[0]):
            error = CertificateRefusedError("this server answers its balancer alone")
            error.hint = (
                "use the address in your invitation; the balancer shows the analyst's own certificate"
            )
            raise error
        if len(named) > 1:
            raise CertificateRefusedError("the balancer names more than one certificate")
        return (_certificate(named[0]),) if named else ()

    def _is_balancer(self, pem: str) -> bool:
        certificate = load_certificate(pem.encode())
        self._root.identify(certificate, at=self._clock())
        return _key_of(certificate) == self._key


def _certificate(value: str) -> str:
    """Return the certificate (PEM) in the value of the header; raises `CertificateRefusedError`."""
    found = _BYTES.fullmatch(value)
    try:
        der = base64.b64decode(found[1], validate=True) if found else b""
    except binascii.Error:
        der = b""
    if not der:
        raise CertificateRefusedError("the header Client-Cert is no byte sequence, such as :MIIB...:")
    return load_certificate(der).public_bytes(Encoding.PEM).decode()


def _key_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
