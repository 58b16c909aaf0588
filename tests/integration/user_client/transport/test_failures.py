"""What keeps us from the analyst, with real sockets."""

from __future__ import annotations

import socket
import time

import pytest

from odc_demo.actors import free_port
from tests.harness.certificates import shared_root
from user_client.errors import ConnectionFailedError
from user_client.transport import AnalystConnection, Traffic


def failure(url: str) -> ConnectionFailedError:
    root = shared_root().pem.decode()
    with AnalystConnection(url, root, None, Traffic(), attempts=1) as connection:
        with pytest.raises(ConnectionFailedError) as caught:
            connection.request("GET", "/healthz")
        return caught.value


def test_a_port_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    assert "nothing listens at this port" in failure(f"https://localhost:{free_port()}").detail


def test_a_name_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    assert "no machine has the name" in failure("https://nobody.invalid:8443").detail


def test_an_analyst_that_does_not_answer_is_waited_for_as_long_as_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://localhost:{silent.getsockname()[1]}"
        root = shared_root().pem.decode()
        began = time.monotonic()
        with (
            AnalystConnection(url, root, None, Traffic(), attempts=1, timeout_s=0.1) as connection,
            pytest.raises(ConnectionFailedError),
        ):
            connection.request("GET", "/healthz")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("host", ["localhost", "nobody.invalid"])
def test_a_proxy_that_is_dead_or_unknown(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@{host}:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "")
    found = failure("https://analyst.invalid:8443")
    assert f"the proxy http://{host}:" in found.detail
    assert "HTTPS_PROXY" in found.hint
    assert "secret" not in found.detail + found.hint
