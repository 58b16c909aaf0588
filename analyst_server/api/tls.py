"""The client's certificate, as the application finds it in the scope of a request."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any


def tls_extension(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Return what TLS has told of a client, under the names of the ASGI TLS extension.

    uvicorn keeps it to itself, so it is read once per connection and put into every request's scope.
    """
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
