"""`odc serve` as a process: TLS, certificates of callers, the token, and an end without noise."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from odc_demo.actors import free_port
from tests.harness.in_process import HOSPITAL, Consortium
from tests.harness.own_pki import Ca, issue, make_ca, pem
from user_client.service import serving

ROW = {"x0": 0, "x1": 0.5, "x2": "0.25"}


@dataclass
class Running:
    """A service, and what it has printed when it ended."""

    url: str
    home: Path
    process: subprocess.Popen[str]
    said: str = ""


@contextmanager
def running(consortium: Consortium, *options: str, scheme: str = "http") -> Iterator[Running]:
    home, port = consortium.directory / HOSPITAL, free_port()
    command = [
        sys.executable,
        "-m",
        "user_client",
        "--home",
        str(home),
        "serve",
        "--port",
        str(port),
        *options,
    ]
    with subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ}
    ) as process:
        found = Running(f"{scheme}://127.0.0.1:{port}", home, process)
        try:
            yield found
        finally:
            process.send_signal(signal.SIGTERM)
            found.said = process.communicate(timeout=60)[0]


def answer(url: str, verify: ssl.SSLContext | bool = True, **headers: str) -> httpx.Response:
    """Ask until the service is there."""
    ends = time.monotonic() + 60
    while True:
        try:
            return httpx.post(
                f"{url}/v1/predictions", json={"rows": [ROW]}, headers=headers, verify=verify, trust_env=False
            )
        except httpx.ConnectError as error:
            if "SSL" in str(error) or time.monotonic() > ends:
                raise
            time.sleep(0.1)


@pytest.fixture
def released(consortium: Consortium) -> Consortium:
    consortium.until_released()
    consortium.hospital_round.receive()
    consortium.hospital.close()
    return consortium


def test_the_service_answers_with_its_token_and_ends_when_asked(released: Consortium) -> None:
    with running(released) as service:
        assert answer(service.url).status_code == 401
        token = (service.home / "serve.token").read_text().strip()
        found = answer(service.url, authorization=f"Bearer {token}")
        assert found.json()["predictions"][0]["prediction"] in ("no", "yes")
    assert service.process.returncode in (0, -signal.SIGTERM)
    assert f"\npredicting at {service.url}/v1/predictions; send the token in " in service.said
    assert token not in service.said


def files_for(directory: Path, ca: Ca, name: str, usage: x509.ObjectIdentifier) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = issue(
        ca, key.public_key(), [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))], subject=name, usage=usage
    )
    paths = directory / f"{name}.pem", directory / f"{name}.key"
    paths[0].write_bytes(pem(certificate))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


def trusting(ca: Path, *certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    if certificate:
        context.load_cert_chain(*map(str, certificate))
    return context


def test_with_a_client_ca_only_its_certificates_are_answered(released: Consortium, tmp_path: Path) -> None:
    ours, others, ca = make_ca("Hospital CA"), make_ca("Another CA"), tmp_path / "ca.pem"
    ca.write_bytes(ours.pem)
    certificate, key = files_for(tmp_path, ours, "service", ExtendedKeyUsageOID.SERVER_AUTH)
    caller = files_for(tmp_path, ours, "ward", ExtendedKeyUsageOID.CLIENT_AUTH)
    stranger = files_for(tmp_path, others, "stranger", ExtendedKeyUsageOID.CLIENT_AUTH)
    tls = ("--tls-certificate", str(certificate), "--tls-key", str(key), "--client-ca", str(ca))
    with running(released, *tls, scheme="https") as service:
        assert answer(service.url, trusting(ca, *caller)).status_code == 200
        for refused in (trusting(ca), trusting(ca, *stranger)):
            with pytest.raises(httpx.TransportError):
                answer(service.url, refused)
    assert not (service.home / "serve.token").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--host", "10.0.0.5"), "is not the loopback"),
        (("--tls-certificate", "{0}", "--tls-key", "{0}"), "cannot be used"),
    ],
)
def test_what_cannot_be_served_ends_at_once_with_a_reason(
    released: Consortium, tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    (tmp_path / "no.pem").write_text("nothing")
    given = [option.format(tmp_path / "no.pem") for option in options]
    with running(released, *given) as service:
        assert service.process.wait(60) == 3
    assert why in service.said
    assert "Traceback" not in service.said
    assert "predicting at" not in service.said


def test_a_port_that_is_taken_ends_it_at_once_with_a_hint(released: Consortium) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running(released, "--port", port) as service:
            assert service.process.wait(60) == 3
    assert f"port {port} of 127.0.0.1 cannot be used: Address already in use" in service.said
    assert "name another one with --port" in service.said
    assert "predicting at" not in service.said


def test_localhost_is_bound_at_each_of_its_addresses_that_this_machine_has() -> None:
    with ExitStack() as held:
        sockets = [held.enter_context(each) for each in serving.bound("localhost", 0)]
        assert "127.0.0.1" in [each.getsockname()[0] for each in sockets]


def test_an_interrupt_breaks_an_upload_off_with_an_answer_and_without_noise(released: Consortium) -> None:
    with running(released) as service:
        assert service.process.stdout is not None
        for line in service.process.stdout:
            if line.startswith("predicting at "):  # from here on it listens
                break
        token = (service.home / "serve.token").read_text().strip()
        port = int(service.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as upload:
            upload.sendall(
                f"POST /v1/predictions HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n"
                "Content-Type: application/json\r\nContent-Length: 100\r\n"
                "Expect: 100-continue\r\n\r\n".encode()
            )
            assert b" 100 " in upload.recv(100)  # the body is waited for
            service.process.send_signal(signal.SIGINT)
            found = b"".join(iter(lambda: upload.recv(2**16), b""))
        service.process.wait(60)
    assert found.startswith(b"HTTP/1.1 503 ")
    assert b"application/problem+json" in found
    assert "Traceback" not in service.said


def test_without_its_libraries_the_extra_is_named(released: Consortium) -> None:
    without = "import sys; sys.modules['fastapi'] = None; from user_client.__main__ import main; main()"
    home = str(released.directory / HOSPITAL)
    found = subprocess.run(
        [sys.executable, "-c", without, "--home", home, "serve"], capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, "the extra [serve]" in found.stderr) == (3, True)
