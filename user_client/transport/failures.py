"""Why a connection failed: what the network and TLS say, told apart, with what to do about each."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import httpx

from metering.client_transport import proxy_of
from protocol.errors import InputError
from user_client.errors import ConnectionFailedError, TlsFailedError

_HINT_OF_NAME: Final = "check the address for a typing error (`odc status` shows it), and this machine's DNS"
_HINT_OF_PROXY: Final = (
    "correct HTTPS_PROXY, or name the analyst's host in NO_PROXY if it is reached without a proxy"
)
_HINT_OF_PORT: Final = (
    "check the port; if it is right, the analyst is not running: ask its operator, then run this again"
)
_REFUSED_BY_PROXY: Final = ("401", "403", "405", "407")


def translate(error: httpx.TransportError, url: str) -> ConnectionFailedError:
    """Return the error of ours for one of httpx, on the way to the analyst at ``url``."""
    text, cause = str(error), _cause_of(error)
    if isinstance(error, httpx.ProxyError):
        return _refused_by_proxy(text, url)
    if found := _of_tls(text, url):
        return found
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and cause is not None:
        return _not_connected(cause, url)
    reason = "timed out" if isinstance(error, httpx.TimeoutException) else type(error).__name__
    return ConnectionFailedError(f"no answer from {url} ({'cut off' if 'EOF' in text else reason})")


def _cause_of(error: BaseException) -> OSError | None:
    """Return what the operating system said, if it said anything."""
    for found in _chain(error):
        if isinstance(found, OSError) and not isinstance(found, ssl.SSLError):
            return found
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__  # httpcore cuts the cause off, and leaves the context


def _not_connected(cause: OSError, url: str) -> ConnectionFailedError:
    """Return the error for a connection that was not made: to the proxy, if there is one."""
    proxy = _proxy(url)
    place = proxy or url
    what = f"the proxy {place} (HTTPS_PROXY)" if proxy else place
    if isinstance(cause, socket.gaierror):
        return _told(
            f"no machine has the name in the address of {what}",
            _HINT_OF_PROXY if proxy else _HINT_OF_NAME,
            may_pass=cause.errno == socket.EAI_AGAIN,
        )
    if isinstance(cause, ConnectionRefusedError):
        return _told(
            f"{what} refuses connections: nothing listens at this port",
            _HINT_OF_PROXY if proxy else _HINT_OF_PORT,
            may_pass=not proxy,
        )
    if isinstance(cause, TimeoutError):
        return _told(
            f"{what} does not answer (timed out)",
            "a firewall drops such connections: ask for access to this host and port, then run this again",
        )
    return _told(f"no way to {what} ({type(cause).__name__})", ConnectionFailedError.hint)


def _refused_by_proxy(text: str, url: str) -> ConnectionFailedError:
    """Return the error for a proxy that answers, and opens no connection to the analyst."""
    status = text[:3] if text[:3].isdigit() else "an error"
    return _told(
        f"the proxy {_proxy(url) or ''} (HTTPS_PROXY) answered {status} and opened no connection to {url}",
        "ask for access through the proxy to this host and port; 407 asks for http://USER:PASSWORD@HOST:PORT",
        may_pass=status not in _REFUSED_BY_PROXY,
    )


def _proxy(url: str) -> str | None:
    """Return the address of the proxy on the way, without its password."""
    with suppress(InputError):
        if (proxy := proxy_of(httpx.URL(url))) is not None:
            return f"{proxy.url.scheme}://{proxy.url.netloc.decode('ascii')}"
    return None


def _told(detail: str, hint: str, *, may_pass: bool = True) -> ConnectionFailedError:
    error = ConnectionFailedError(detail)
    error.hint, error.may_pass = hint, may_pass
    return error


def _of_tls(text: str, url: str) -> ConnectionFailedError | None:
    """Return the error for a handshake that failed, or None for another failure."""
    upper = text.upper()
    if "certificate revoked" in text:
        return TlsFailedError(f"the lead institution has revoked the certificate of {url}")
    if "mismatch" in text and "CERTIFICATE_VERIFY_FAILED" in text:
        said = "did not show a certificate of this consortium for that name; is the address right?"
        return TlsFailedError(f"{url} {said}")
    if "has expired" in text or "not yet valid" in text:
        error = TlsFailedError(f"the certificate of {url} is not valid at the time of this machine's clock")
        error.hint = "check the clock; if it is right, the analyst's operator runs `odc-analyst renew`"
        return error
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return TlsFailedError(f"{url} did not show a certificate of this consortium")
    if "ALERT" in upper and ("CERTIFICATE" in upper or "UNKNOWN_CA" in upper):
        return TlsFailedError(f"{url} refused this institution's certificate")
    if "EOF" in text:  # cut off in the handshake: a server that goes down, or a balancer without one
        return None
    if "WRONG_VERSION_NUMBER" in text:
        error = TlsFailedError(f"TLS with {url} failed: what answers there does not speak TLS")
        error.hint = "check the port, and that the address leads to the analyst"
        return error
    if "SSL" in text or "TLS" in upper:
        return TlsFailedError(f"TLS with {url} failed")
    return None
