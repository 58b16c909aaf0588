from __future__ import annotations

import ssl
from typing import Any

import httpcore
import httpx
import pytest

from metering.client_traffic import Traffic
from metering.client_transport import MeteredTransport, proxy_of
from protocol.errors import InputError

ANALYST = httpx.URL("https://analyst:8443")
PASSWORD = "not-to-be-seen"
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from an environment that names none."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# which proxy


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ({"https_proxy": "proxy:3128"}, "http://proxy:3128"),
        ({"HTTP_PROXY": "http://proxy:3128"}, None),
        ({"ALL_PROXY": "socks5://proxy:1080"}, "socks5://proxy:1080"),
        ({"ALL_PROXY": "http://other", "HTTPS_PROXY": "https://proxy:3128"}, "https://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "analyst"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost, analyst:8443"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost, *"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "other,analyst:9999"}, "http://proxy:3128"),
    ],
    ids=str,
)
def test_the_proxy_of_the_environment_is_used(
    environment: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = proxy_of(ANALYST)
    assert (found and str(found.url)) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "url", "is_used"),
    [
        ("hospital.example", "https://analyst.hospital.example", False),
        (".hospital.example", "https://analyst.hospital.example:8443", False),
        ("hospital.example", "https://otherhospital.example", True),
        ("10.0.0.7", "https://10.0.0.7:8443", False),
        ("::1", "https://[::1]:8443", False),
    ],
)
def test_no_proxy_names_hosts_and_domains(
    no_proxy: str, url: str, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (proxy_of(httpx.URL(url)) is not None) == is_used


@pytest.mark.parametrize("scheme", ["ftp", "htps", ""])
def test_a_proxy_that_is_none_is_refused_without_repeating_its_password(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://user:{PASSWORD}@proxy")
    with pytest.raises(InputError) as caught:
        proxy_of(ANALYST)
    assert PASSWORD not in repr(caught.value) + str(caught.value.to_problem())
    assert caught.value.__suppress_context__


def test_a_socks_proxy_without_its_package_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**_options: object) -> None:
        raise RuntimeError("Attempted to use SOCKS support")

    monkeypatch.setenv("ALL_PROXY", f"socks5://user:{PASSWORD}@proxy")
    monkeypatch.setattr(httpcore, "SOCKSProxy", missing)
    with pytest.raises(InputError, match="socksio") as caught:
        MeteredTransport(str(ANALYST), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), Traffic())
    assert PASSWORD not in str(caught.value)


# errors
ERRORS = [
    kind
    for name in httpcore.__all__
    if isinstance(kind := getattr(httpcore, name), type)
    and issubclass(kind, Exception)
    and kind is not httpcore.ConnectionNotAvailable  # caught by the pool itself
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_of_httpcore_is_the_error_of_httpx_of_that_name(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise kind("what happened")

    monkeypatch.setattr(httpcore.ConnectionPool, "handle_request", fail)
    transport = MeteredTransport(str(ANALYST), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), Traffic())
    with pytest.raises(httpx.TransportError, match="what happened") as caught:
        transport.handle_request(httpx.Request("GET", ANALYST))
    assert type(caught.value).__name__ == kind.__name__
    assert isinstance(caught.value.__cause__, kind)
