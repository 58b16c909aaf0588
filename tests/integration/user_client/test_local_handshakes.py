"""A connection to `odc serve` that never finishes its TLS handshake ends, and takes nobody's place."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.harness.own_pki import issue, make_ca, pem
from user_client import local_http
from user_client.local_http import MOST_IN_HANDSHAKE, LocalProtocol, LocalSocket

HALF_A_HELLO = b"\x16\x03\x01\x02\x00"


async def application(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def trusted(tmp_path: Path) -> ssl.SSLContext:
    """Write a certificate and its key, and return who believes it."""
    ca, key = make_ca("Hospital CA"), ec.generate_private_key(ec.SECP256R1())
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = issue(ca, key.public_key(), [here], usage=ExtendedKeyUsageOID.SERVER_AUTH)
    (tmp_path / "service.pem").write_bytes(pem(certificate))
    (tmp_path / "service.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return ssl.create_default_context(cadata=ca.pem.decode())


@pytest.fixture
def address(trusted: ssl.SSLContext, tmp_path: Path) -> Iterator[tuple[str, int]]:
    listening = LocalSocket.around(socket.create_server(("127.0.0.1", 0), backlog=2 * MOST_IN_HANDSHAKE))
    config = uvicorn.Config(
        application,
        loop="asyncio",
        http=LocalProtocol,
        lifespan="off",
        ws="none",
        log_config=None,
        ssl_certfile=tmp_path / "service.pem",
        ssl_keyfile=tmp_path / "service.key",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.mark.parametrize("sent", [b"", HALF_A_HELLO], ids=["nothing", "half a hello"])
def test_a_handshake_that_is_never_finished_ends(
    address: tuple[str, int], sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "HANDSHAKE_S", 0.2)
    with socket.create_connection(address, timeout=30) as silent:
        silent.sendall(sent)
        with suppress(ConnectionResetError):
            assert silent.recv(1) == b""


def test_of_too_many_handshakes_the_others_end_and_a_caller_is_answered(
    address: tuple[str, int], trusted: ssl.SSLContext
) -> None:
    beyond = 20
    with ExitStack() as held:
        silent = [
            held.enter_context(socket.create_connection(address, timeout=30))
            for _ in range(MOST_IN_HANDSHAKE + beyond)
        ]
        assert httpx.get("https://{}:{}/".format(*address), verify=trusted).text == "ok"
        ends = time.monotonic() + 30
        while sum(map(_has_ended, silent)) < beyond:
            assert time.monotonic() < ends
            time.sleep(0.05)
        assert sum(map(_has_ended, silent)) <= beyond + 1  # the caller's own handshake


def test_a_connection_whose_handshake_is_over_ends_for_no_other(
    address: tuple[str, int], trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "HANDSHAKE_S", 0.3)
    monkeypatch.setattr(local_http, "MOST_IN_HANDSHAKE", 1)
    with httpx.Client(base_url="https://{}:{}".format(*address), verify=trusted) as client:
        assert client.get("/").text == "ok"
        first = client.get("/").extensions["network_stream"]
        with socket.create_connection(address, timeout=30) as silent, suppress(ConnectionResetError):
            assert silent.recv(1) == b""
        again = client.get("/")
        assert again.text == "ok"
        assert again.extensions["network_stream"] is first


def _has_ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
