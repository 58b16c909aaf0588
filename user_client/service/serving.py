"""Start the local service: where it listens, and who may ask it."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI

from protocol.errors import InputError
from runtime.files import read_text, write_whole
from user_client.local_http import LocalProtocol, LocalSocket
from user_client.sdk.predictor import Predictor
from user_client.service.app import PREDICTIONS, create_app

_TOKEN: Final = re.compile(r"[!-~]{20,200}")
"""What an HTTP header can carry and nobody guesses."""
_GRACE_S: Final = 5
"""How long requests under way may take to end when the service is stopped."""
_NO_SUCH_ADDRESS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


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


def serve(predictor: Predictor, listening: Listening, token: str | None, tell: Callable[[], None]) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    predictor : Predictor
    listening : Listening
    token : str, optional
        What callers send.
    tell : callable
        Is called once the service takes requests.

    Raises
    ------
    InputError
        If the certificate, the address or the port cannot be used.
    """
    config = _config(create_app(predictor, token, by_certificate=listening.client_ca is not None), listening)
    with ExitStack() as held:
        found = [held.enter_context(each) for each in bound(listening.host, listening.port)]
        sockets = [held.enter_context(LocalSocket.around(each)) for each in found]
        _Server(config, tell).run(list(sockets))


def _config(app: FastAPI, listening: Listening) -> uvicorn.Config:
    """Return how uvicorn serves, with the certificate read; raises `InputError`."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        http=LocalProtocol,
        timeout_graceful_shutdown=_GRACE_S,
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
    return config


class _Server(uvicorn.Server):
    """Says when it takes requests, and lets those that it breaks off answer so."""

    def __init__(self, config: uvicorn.Config, tell: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if left := list(self.server_state.tasks):
            await asyncio.wait(left, timeout=1)


def bound(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of a host: ``localhost`` may have two. Raises `InputError`."""
    failed = OSError(errno.EADDRNOTAVAIL, "")
    with ExitStack() as begun:
        sockets: list[socket.socket] = []
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, address in dict.fromkeys((each[0], each[4]) for each in found):
                try:
                    sockets.append(begun.enter_context(socket.create_server(address, family=family)))
                except OSError as error:
                    if error.errno not in _NO_SUCH_ADDRESS:  # a system without IPv6 has a name for ::1
                        raise
                    failed = error
        except OSError as error:
            raise _not_bound(host, port, error) from None
        if not sockets:
            raise _not_bound(host, port, failed)
        begun.pop_all()
        return sockets


def _not_bound(host: str, port: int, error: OSError) -> InputError:
    why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
    found = InputError(f"port {port} of {host} cannot be used: {why}")
    if error.errno == errno.EADDRINUSE:
        found.hint = "another program has the port: end it, or name another one with --port N"
    elif error.errno == errno.EACCES:
        found.hint = "ports below 1024 are for the administrator: name another one with --port N"
    else:
        found.hint = "--host takes an address of this machine"
    return found


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
