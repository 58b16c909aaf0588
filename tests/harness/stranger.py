"""Somebody without a certificate who speaks to the analyst byte by byte, as no client of ours does."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odc_demo.actors import Analyst
from tests.harness.consortium import Consortium

PATIENCE_S = 30
"""After which what should have happened has not."""
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: analyst\r\n\r\n"


def trust(analyst: Analyst, identity: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """Return a context that believes the analyst's root; with somebody's certificate and key, if given."""
    context = ssl.create_default_context(cafile=analyst.data_dir / "identity" / "root.pem")
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


def plain(analyst: Analyst, source: str = "127.0.0.1") -> socket.socket:
    """Return a connection without TLS, from an address of this machine."""
    return socket.create_connection(("127.0.0.1", analyst.port), PATIENCE_S, (source, 0))


def secured(
    analyst: Analyst, source: str = "127.0.0.1", context: ssl.SSLContext | None = None
) -> ssl.SSLSocket:
    """Return a connection with TLS."""
    return (context or trust(analyst)).wrap_socket(plain(analyst, source), server_hostname="localhost")


@contextmanager
def stranger(made: Consortium, first: bytes = b"") -> Iterator[ssl.SSLSocket]:
    """Yield a connection with TLS on which something was sent."""
    with secured(made.analyst) as line:
        line.sendall(first)
        yield line


def until_closed(line: socket.socket) -> bytes:
    """Return what still comes until the analyst closes; fail after `PATIENCE_S` without a byte."""
    found = b""
    try:
        while data := line.recv(65536):
            found += data
    except TimeoutError:
        raise AssertionError(
            f"the analyst keeps the connection; the last it said: {found[-200:]!r}"
        ) from None
    except OSError:  # it did not say goodbye
        pass
    return found


def is_closed(line: socket.socket) -> bool:
    """Return whether the analyst has closed a connection, or answers on it."""
    line.settimeout(0.01)
    try:
        return line.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def answer(line: socket.socket) -> bytes:
    """Return the next answer, head and body."""
    found = b""
    while b"\r\n\r\n" not in found:
        if not (data := line.recv(65536)):
            return found
        found += data
    head, _, body = found.partition(b"\r\n\r\n")
    fields = dict(one.lower().split(b": ", 1) for one in head.split(b"\r\n")[1:])
    while len(body) < int(fields.get(b"content-length", 0)):
        body += line.recv(65536)
    return head + b"\r\n\r\n" + body
