"""Start the local service: where it listens, and who may ask it."""

from __future__ import annotations

import re
import secrets
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import uvicorn

from protocol.errors import InputError
from runtime.files import read_text, write_whole
from user_client.local_http import MOST_SILENT, LocalProtocol
from user_client.sdk import Predictor
from user_client.service.app import PREDICTIONS, create_app

_TOKEN: Final = re.compile(r"[!-~]{20,200}")
"""What an HTTP header can carry and nobody guesses."""
_MOST_AT_WORK: Final = 100


@dataclass(frozen=True)
class Listening:
    """Where the service listens, and whom it answers; raises `InputError` if that would be unsafe.

    Attributes
    ----------
    host, port
        Another host than the loopback needs TLS, because rows would travel in the clear.
    certificate, key : Path, optional
        PEM files of the service; without them it speaks HTTP.
    client_ca : Path, optional
        PEM file of who signs the certificates of those that may ask.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InputError("--tls-certificate and --tls-key must be given together")
        if self.client_ca is not None and self.certificate is None:
            raise InputError("--client-ca needs TLS: give --tls-certificate and --tls-key too")
        if self.certificate is None and not _is_loopback(self.host):
            raise InputError(
                f"{self.host} is not the loopback, and rows would travel in the clear: give --tls-certificate"
                " and --tls-key"
            )

    @property
    def url(self) -> str:
        """Where the service answers predictions."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}{PREDICTIONS}"


def serve(predictor: Predictor, listening: Listening, token: str | None) -> None:
    """Serve until interrupted; raises `InputError` if the certificate cannot be used."""
    config = uvicorn.Config(
        create_app(predictor, token, by_certificate=listening.client_ca is not None),
        host=listening.host,
        port=listening.port,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        http=LocalProtocol,
        limit_concurrency=_MOST_AT_WORK + MOST_SILENT,
        timeout_graceful_shutdown=5,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        ssl_ca_certs=str(listening.client_ca) if listening.client_ca else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if listening.client_ca else ssl.CERT_NONE,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"the certificate, its key or the client CA cannot be used: {why}") from None
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    uvicorn.Server(config).run()


def read_or_create_token(path: Path) -> str:
    """Return the token in a file; one that is not there is created with a new token, for its owner alone."""
    if not path.exists():
        write_whole(path, secrets.token_urlsafe(32).encode() + b"\n")
    token = read_text(path).strip()
    if not _TOKEN.fullmatch(token):
        raise InputError(f"{path} holds no token: it needs 20 to 200 letters, digits or signs without spaces")
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
