"""Where Prometheus asks: a listener of its own, apart from the one that institutions reach.

On the loopback it asks for nothing. On any other address it speaks TLS with the analyst's certificate and
needs a bearer token, because what it says is the operator's (docs/adr/0050).
"""

from __future__ import annotations

import hmac
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from analyst_server.installation import CERTIFICATE_FILE, KEY_FILE
from protocol.errors import InputError
from runtime.files import read_text
from runtime.hosts import is_loopback

log = logging.getLogger(__name__)

PATH: Final = "/metrics"
MIN_TOKEN_CHARACTERS: Final = 16
_SILENCE_S: Final = 10
"""How long somebody may be silent on this listener."""


@dataclass(frozen=True)
class Place:
    """Where to listen, and what is asked for there.

    Raises `InputError` if it is not the loopback and there is no token.
    """

    host: str
    port: int
    token_file: Path | None
    identity_dir: Path

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and self.token_file is None:
            error = InputError(f"metrics at {self.host} need a token, since others can reach this address")
            error.hint = "set ODC_ANALYST_METRICS_TOKEN_FILE, or leave ODC_ANALYST_METRICS_HOST at 127.0.0.1"
            raise error

    def token(self) -> str | None:
        """Return the token that is asked for; raises `InputError` for a file without one."""
        if self.token_file is None:
            return None
        token = read_text(self.token_file).strip()
        if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii():
            raise InputError(
                f"{self.token_file} has no token: expected at least {MIN_TOKEN_CHARACTERS} ASCII characters"
            )
        return token


class MetricsListener:
    """Answers `PATH` from threads of its own, until it is stopped."""

    def __init__(self, place: Place, registry: CollectorRegistry) -> None:
        application = _only_metrics(make_wsgi_app(registry), place.token())
        try:
            self._server = make_server(
                place.host, place.port, application, _server_class(place.host), _Handler
            )
        except OSError as error:
            raise InputError(
                f"cannot listen for metrics at {place.host}:{place.port}: {error.strerror}"
            ) from None
        scheme = "http"
        if not is_loopback(place.host):
            scheme = "https"
            self._server.socket = _with_tls(self._server.socket, place.identity_dir)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self.port = int(self._server.server_port)
        log.info("metrics at %s://%s:%d%s", scheme, place.host, self.port, PATH)

    def __enter__(self) -> MetricsListener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    timeout = _SILENCE_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the library
        """Log nothing at the level that people read: it is asked several times a minute."""
        log.debug(format, *args)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # of the library
        """Log a connection that broke, in the place of a traceback on the error output."""
        log.debug("metrics: a connection broke", exc_info=True)


class _ServerOfIpv6(_Server):
    address_family = socket.AF_INET6


def _server_class(host: str) -> type[_Server]:
    return _ServerOfIpv6 if ":" in host else _Server


def _only_metrics(application: Callable[..., Any], token: str | None) -> WSGIApplication:
    """Return an application that answers one address, to whoever shows the token if there is one."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != PATH:
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [f"metrics are at {PATH}\n".encode()]
        shown = environ.get("HTTP_AUTHORIZATION", "")
        if token is not None and not hmac.compare_digest(shown.encode(), f"Bearer {token}".encode()):
            start("401 Unauthorized", [("Content-Type", "text/plain"), ("WWW-Authenticate", "Bearer")])
            return [b"send the token of ODC_ANALYST_METRICS_TOKEN_FILE as `Authorization: Bearer TOKEN`\n"]
        found: Iterable[bytes] = application(environ, start)
        return found

    return answer


def _with_tls(listening: socket.socket, identity_dir: Path) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(identity_dir / CERTIFICATE_FILE, identity_dir / KEY_FILE)
    # the handshake is done by the thread of its connection: one that is silent keeps nobody out
    return context.wrap_socket(listening, server_side=True, do_handshake_on_connect=False)
