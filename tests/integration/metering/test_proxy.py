"""Through a proxy, on real sockets: every byte to it is counted, and its password is not told."""

from __future__ import annotations

import base64
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from metering.client_traffic import Traffic, recorded
from metering.client_transport import MeteredTransport
from metering.counts import Counter, Counts, kernel_counts
from tests.harness.certificates import shared_member
from user_client.custody.home import key_pem

ID = "c0" * 16
PATH = f"/v1/collaborations/{ID}/downlink"
PASSWORD = "not-to-be-seen"

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from an environment that names none."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Server(threading.Thread):
    """Serves one connection after another until it is closed."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def run(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                with peer:
                    self.serve(peer)

    def serve(self, peer: socket.socket) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self.socket.close()


def head_of(peer: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += peer.recv(65536)
    return data


class Analyst(Server):
    """Answers two bytes, over TLS."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        member = shared_member("analyst", "analyst")
        (directory / "certificate.pem").write_bytes(member.pem)
        (directory / "key.pem").write_bytes(key_pem(member.key, None))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(directory / "certificate.pem", directory / "key.pem")
        self.context.num_tickets = 0
        self.heads: list[bytes] = []

    def serve(self, peer: socket.socket) -> None:
        with self.context.wrap_socket(peer, server_side=True) as line:
            for _ in range(2):
                self.heads.append(head_of(line))
                line.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            line.unwrap()


class Tunnel(Server):
    """A proxy that takes CONNECT, and counts what it carries."""

    def __init__(self, target: int, answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
        super().__init__()
        self._target, self._answer = target, answer
        self.heads: list[bytes] = []
        self.received = self.sent = 0

    def serve(self, peer: socket.socket) -> None:
        self.heads.append(head_of(peer))
        self.received += len(self.heads[-1])
        peer.sendall(self._answer)
        self.sent += len(self._answer)
        if b" 200 " not in self._answer:
            return
        with socket.create_connection(("127.0.0.1", self._target)) as far:
            back = threading.Thread(target=self._back, args=(far, peer))
            back.start()
            while data := peer.recv(65536):
                self.received += len(data)
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)
            back.join()

    def _back(self, far: socket.socket, peer: socket.socket) -> None:
        with suppress(OSError):
            while data := far.recv(65536):
                peer.sendall(data)
                self.sent += len(data)


@pytest.fixture
def analyst(tmp_path: Path) -> Iterator[Analyst]:
    server = Analyst(tmp_path)
    server.start()
    yield server
    server.close()


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.parametrize(
    "counter",
    [
        pytest.param(
            "kernel", marks=pytest.mark.skipif(not kernel_counts(), reason="it does not count here")
        ),
        "transport",
    ],
)
def test_a_tunnel_is_control_and_every_byte_to_the_proxy_is_counted(
    counter: Counter,
    analyst: Analyst,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    tunnel = Tunnel(analyst.port)
    tunnel.start()
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:{PASSWORD}@127.0.0.1:{tunnel.port}")
    url, path = f"https://localhost:{analyst.port}", tmp_path / "traffic.jsonl"
    transport = MeteredTransport(url, trusting(), Traffic(path, counter))
    with httpx.Client(transport=transport, base_url=url) as client:
        for _ in range(2):
            assert client.get(PATH).json() == {}
    tunnel.close()
    (connect,) = tunnel.heads
    secret = base64.b64encode(f"user:{PASSWORD}".encode())
    assert connect.startswith(f"CONNECT localhost:{analyst.port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic " + secret in connect
    assert PASSWORD not in caplog.text + repr(transport)
    assert secret.decode() not in caplog.text
    assert not any(b"uthorization" in head for head in analyst.heads)
    found = recorded(path)
    total = sum(found.counts.values(), Counts())
    assert (total.up.wire_bytes, total.down.wire_bytes) == (tunnel.received, tunnel.sent)
    assert found.of(ID)["control"].up.plain_bytes == len(connect)
    assert found.of(ID)["downlink"].up.plain_bytes == sum(map(len, analyst.heads))
    assert found.of(ID)["downlink"].down.body_bytes == 4


def test_a_proxy_that_refuses_is_a_transport_error(analyst: Analyst, monkeypatch: pytest.MonkeyPatch) -> None:
    tunnel = Tunnel(analyst.port, b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
    tunnel.start()
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{tunnel.port}")
    url = f"https://localhost:{analyst.port}"
    with (
        httpx.Client(transport=MeteredTransport(url, trusting(), Traffic())) as client,
        pytest.raises(httpx.ProxyError, match="407"),
    ):
        client.get(url)
    tunnel.close()
