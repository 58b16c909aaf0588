from __future__ import annotations

import ssl
from typing import Any

from analyst_server.api.tls import tls_extension
from protocol.identity import load_certificate
from tests.harness.certificates import shared_member


class Transport:
    """An asyncio transport, as far as it is asked."""

    def __init__(self, ssl_object: Any) -> None:
        self._ssl_object = ssl_object

    def get_extra_info(self, name: str) -> Any:
        return {"ssl_object": self._ssl_object}[name]


class Tls:
    """An `ssl.SSLObject`, as far as it is asked."""

    def __init__(self, der: bytes | None, cipher: tuple[str, str, int] | None) -> None:
        self._der, self._cipher = der, cipher

    def getpeercert(self, binary_form: bool) -> bytes | None:
        assert binary_form
        return self._der

    def cipher(self) -> tuple[str, str, int] | None:
        return self._cipher

    def version(self) -> str:
        return "TLSv1.3"


def extension(ssl_object: Any) -> dict[str, Any]:
    return tls_extension(Transport(ssl_object))  # type: ignore[arg-type]


def test_the_clients_certificate_is_handed_on() -> None:
    member = shared_member()
    (pem,) = extension(Tls(member.der, ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)))["client_cert_chain"]
    assert load_certificate(pem.encode()) == member.certificate
    assert ssl.PEM_cert_to_DER_cert(pem) == member.der


def test_a_client_without_certificate_has_an_empty_chain() -> None:
    assert extension(Tls(None, None)) == {
        "client_cert_chain": (),
        "tls_version": "TLSv1.3",
        "cipher_suite": None,
    }


def test_a_connection_without_tls_has_an_empty_chain() -> None:
    assert extension(None)["client_cert_chain"] == ()
