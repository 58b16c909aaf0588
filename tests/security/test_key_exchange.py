"""What keys of a connection are agreed on with: as much as the TLS library of both sides has."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.harness.consortium import Consortium, consortium
from user_client.transport.trust import trusting

X25519MLKEM768 = 0x11EC
X25519 = 0x001D
_KEY_SHARE = 51
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random number of a server that asks for another key share (RFC 8446, 4.1.3)."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("key-exchange"), "lead-hospital") as found:
        yield found


def groups_agreed_on(made: Consortium, only: str | None = None) -> list[int]:
    """Return the groups that the analyst has answered our client's context with, in its own words.

    A ServerHello is not encrypted, and it is the only place where all versions of Python and OpenSSL show the
    group (`SSLSocket.group` came with Python 3.15).
    """
    root = (made.analyst.data_dir / "identity" / "root.pem").read_text()
    context, incoming, outgoing = trusting(root, None), ssl.MemoryBIO(), ssl.MemoryBIO()
    if only is not None:
        context.set_ecdh_curve(only)
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    heard = b""
    with socket.create_connection(("127.0.0.1", made.analyst.port), 30) as line:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                line.sendall(outgoing.read())
                data = line.recv(65536)
                heard += data
                incoming.write(data)
            else:
                break
    assert tls.version() == "TLSv1.3"
    return [group for group, is_retry in _server_hellos(heard) if not is_retry]


def _server_hellos(heard: bytes) -> Iterator[tuple[int, bool]]:
    """Yield the group of each ServerHello that a server has sent, and whether it asks for another share."""
    while len(heard) >= 5:
        kind, length = heard[0], int.from_bytes(heard[3:5], "big")
        record, heard = heard[5 : 5 + length], heard[5 + length :]
        if kind == 22 and record[0] == 2:  # a handshake that is not encrypted yet, a ServerHello
            body = record[4:]
            yield _key_share(body[35 + body[34] + 5 :]), body[2:34] == _RETRY


def _key_share(extensions: bytes) -> int:
    while extensions:
        kind, length = (int.from_bytes(extensions[at : at + 2], "big") for at in (0, 2))
        if kind == _KEY_SHARE:
            return int.from_bytes(extensions[4:6], "big")
        extensions = extensions[4 + length :]
    raise AssertionError("a ServerHello of TLS 1.3 has a key share")


def test_a_connection_is_agreed_on_with_the_best_that_openssl_has(made: Consortium) -> None:
    """From OpenSSL 3.5 on, what is recorded today stays closed to a quantum computer."""
    best = X25519MLKEM768 if ssl.OPENSSL_VERSION_INFO >= (3, 5) else X25519
    assert groups_agreed_on(made) == [best]


@pytest.mark.parametrize(("name", "group"), [("prime256v1", 0x0017), ("secp384r1", 0x0018)])
def test_the_analyst_agrees_with_a_client_that_has_another_group(
    made: Consortium, name: str, group: int
) -> None:
    """A federal institution's TLS library may have the NIST curves alone."""
    assert groups_agreed_on(made, name) == [group]
