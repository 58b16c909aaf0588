"""The client's certificate, handed from the TLS transport to the application.

uvicorn keeps it to itself, so this subclass of its protocol reads it once per connection and puts it
into every request's scope, under the names of the ASGI TLS extension.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class TlsAwareProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with ``scope["extensions"]["tls"]``."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        super().connection_made(transport)
        inner, extension = self.app, _tls_extension(transport)

        async def app_with_certificate(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})["tls"] = extension
            await inner(scope, receive, send)

        self.app = app_with_certificate


def _tls_extension(transport: asyncio.Transport) -> dict[str, Any]:
    ssl_object: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if ssl_object is None:
        return {"client_cert_chain": (), "tls_version": None, "cipher_suite": None}
    der = ssl_object.getpeercert(binary_form=True)
    cipher = ssl_object.cipher()
    return {
        "client_cert_chain": (ssl.DER_cert_to_PEM_cert(der),) if der else (),
        "tls_version": ssl_object.version(),
        "cipher_suite": cipher[0] if cipher else None,
    }
