"""Somebody who sits on the line and shows a certificate: an institution hangs up before it says a word.

What the stranger got is what it could read of the requests that came. With the defence taken away it
reads all of them.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from protocol.errors import InputError
from protocol.identity import Identity
from tests.harness import AS_MESSAGE
from tests.harness.attacks import got
from user_client import sdk
from user_client.custody.authority import Authority
from user_client.errors import TlsFailedError
from user_client.sdk import Session
from user_client.sdk.session import unix_now
from user_client.transport import AnalystConnection, Traffic
from user_client.transport import connection as connection_module
from user_client.transport.trust import trusting

MESSAGE = b"an acceptance, or an uplink"
PASSPHRASE = "only this test has this one"


class Stranger:
    """Takes every call, reads what is said and answers that all is well."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.heard: list[bytes] = []
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:  # closed
                return
            with closing(peer):
                try:
                    self._answer(peer)
                except OSError:  # they hung up; ssl.SSLError is one
                    continue

    def _answer(self, peer: socket.socket) -> None:
        line = peer if self._context is None else self._context.wrap_socket(peer, server_side=True)
        with closing(line):
            line.settimeout(20)
            said = b""
            while not said.endswith(MESSAGE) and (piece := line.recv(65536)):
                said += piece
                if self._context is None and not said.startswith(
                    b"PUT"
                ):  # a handshake, to somebody without TLS
                    break
            self.heard.append(said)
            line.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    @property
    def read(self) -> int:
        """How many of the messages it could read."""
        return sum(MESSAGE in said for said in self.heard)


class Consortium:
    """A root, and a certificate of an institution for the client to show."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority.create("Test consortium", now=unix_now())
        self.id = "0" * 32
        self.root_pem = self.authority.certificate.public_bytes(Encoding.PEM).decode()
        self._directory = directory
        self.identity = self.files("institution", "hospital-a")

    def files(
        self, role: str, name: str, *hosts: str, authority: Authority | None = None
    ) -> tuple[Path, Path]:
        """Certificate and key of a new member, as files."""
        key = ec.generate_private_key(ec.SECP256R1())
        member = Identity(self.id, role, name)  # type: ignore[arg-type]  # one of the roles
        issuer = authority or self.authority
        certificate = issuer.issue(key.public_key(), member, hosts=hosts, now=unix_now())
        paths = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
        paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return paths

    def connect(self, port: int) -> AnalystConnection:
        url = f"https://localhost:{port}"
        return AnalystConnection(url, self.root_pem, self.identity, Traffic(), lambda _seconds: None)


@pytest.fixture
def made(tmp_path: Path) -> Consortium:
    return Consortium(tmp_path)


@pytest.fixture
def call(made: Consortium) -> Iterator[Callable[[ssl.SSLContext | None], Callable[[], Stranger]]]:
    """Start a stranger, and return what sends it a message as an institution would send the analyst."""
    strangers: list[Stranger] = []

    def start(context: ssl.SSLContext | None) -> Callable[[], Stranger]:
        stranger = Stranger(context)
        strangers.append(stranger)

        def send() -> Stranger:
            with made.connect(stranger.port) as connection:
                connection.request(
                    "PUT", "/v1/collaborations/x/acceptance", content=MESSAGE, headers=AS_MESSAGE
                )
            return stranger

        return send

    yield start
    for stranger in strangers:
        stranger.close()


def served_by(files: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return context


def another_authority(made: Consortium) -> ssl.SSLContext:
    """For the analyst's host name, from an authority with the consortium's own name in it."""
    other = Authority.create("Test consortium", now=unix_now())
    return served_by(made.files("analyst", "analyst", "localhost", authority=other))


def another_host(made: Consortium) -> ssl.SSLContext:
    """The root's own word, but for a server of another name."""
    return served_by(made.files("analyst", "analyst", "analyst.example"))


def certificate_of_a_member(made: Consortium) -> ssl.SSLContext:
    """A member of the consortium that plays the analyst."""
    return served_by(made.files("institution", "hospital-b"))


STRANGERS = [another_authority, another_host, certificate_of_a_member]
Call = Callable[[ssl.SSLContext | None], Callable[[], Stranger]]


def without_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    def believes_anybody(_root_pem: str, _revocations: Path | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    monkeypatch.setattr(connection_module, "trusting", believes_anybody)


@pytest.mark.parametrize("defence", ["on", "off"])
@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda one: one.__name__)
def test_a_server_that_is_not_the_analyst_hears_nothing(
    stranger: Callable[[Consortium], ssl.SSLContext],
    defence: str,
    made: Consortium,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send = call(stranger(made))
    if defence == "on":
        with pytest.raises(TlsFailedError, match="did not show a certificate of this consortium") as caught:
            send()
        assert caught.value.hint == TlsFailedError.hint
        heard = 0
    else:
        without_verification(monkeypatch)
        heard = send().read
    got(f"{stranger.__name__}, verification {defence}", messages=heard)
    assert heard == (0 if defence == "on" else 1)


def test_the_analyst_itself_is_heard(made: Consortium, call: Call) -> None:
    """So the refusals above are for the certificate that was shown."""
    assert call(served_by(made.files("analyst", "analyst", "localhost")))().read == 1


@pytest.mark.parametrize("defence", ["on", "off"])
def test_the_host_name_alone_keeps_a_certificate_of_a_member_out(
    defence: str, made: Consortium, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off: the name is not compared. Then what it is for, the extended key usage, still stands in the way."""
    send = call(certificate_of_a_member(made))
    if defence == "off":

        def any_name(root_pem: str, revocations: Path | None) -> ssl.SSLContext:
            context = trusting(root_pem, revocations)
            context.check_hostname = False
            return context

        monkeypatch.setattr(connection_module, "trusting", any_name)
    with pytest.raises(TlsFailedError):
        send()
    got(f"member as server, host name compared: {defence}", messages=0)


@pytest.mark.parametrize("defence", ["on", "off"])
def test_an_older_tls_is_not_spoken(
    defence: str, made: Consortium, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who has the line can offer TLS 1.2 alone; in it the client's certificate goes in the clear."""
    context = served_by(made.files("analyst", "analyst", "localhost"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    send = call(context)
    if defence == "on":
        with pytest.raises(TlsFailedError):
            send()
        heard = 0
    else:

        def lenient(root_pem: str, revocations: Path | None) -> ssl.SSLContext:
            found = trusting(root_pem, revocations)
            found.minimum_version = ssl.TLSVersion.TLSv1_2
            return found

        monkeypatch.setattr(connection_module, "trusting", lenient)
        heard = send().read
    got(f"TLS 1.2, TLS 1.3 demanded: {defence}", messages=heard)
    assert heard == (0 if defence == "on" else 1)


@pytest.mark.parametrize("defence", ["on", "off"])
def test_no_tls_at_all_is_not_spoken(
    defence: str, made: Consortium, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = call(None)
    if defence == "on":
        with pytest.raises(TlsFailedError):
            send()
        heard = 0
    else:
        monkeypatch.setattr(made, "connect", plainly(made))
        heard = send().read
    got(f"plain HTTP, TLS demanded: {defence}", messages=heard)
    assert heard == (0 if defence == "on" else 1)


def plainly(made: Consortium) -> Callable[[int], AnalystConnection]:
    return lambda port: AnalystConnection(f"http://localhost:{port}", made.root_pem, None, Traffic())


@pytest.mark.parametrize("url", ["http://localhost:8443", "HTTP://localhost:8443", "//localhost:8443"])
def test_an_address_without_tls_cannot_be_given(url: str, tmp_path: Path) -> None:
    with Session(tmp_path) as session, pytest.raises(InputError, match="must be https"):
        sdk.create_consortium(session, name="Test", party="lead", analyst_url=url, passphrase=PASSPHRASE)
