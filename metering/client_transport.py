"""The client's side of the meter: a transport for httpx whose connections count every byte.

Everything here uses public interfaces: `httpx.BaseTransport` above, httpcore's ``network_backend`` below.
The kernel counts below TLS. Where it does not, `_Counted` does, and TLS goes through memory (`_Tls`),
because the standard library's TLS socket would bypass it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from metering.client_traffic import Exchange, Line, Traffic
from metering.counts import OwnCount
from protocol.errors import InputError
from protocol.limits import MAX_IDLE_S

CLOSING_S: Final = 2.0
"""How long the other side may take to confirm that TLS is closed. Its confirmation is counted too."""
_RECORD_BYTES: Final = 16384 + 256
_KEEP_ALIVE_S: Final = MAX_IDLE_S - 10.0
"""How long an idle connection is kept: a little less than an analyst keeps it. Another handshake is 3 kB.

One that the other side has closed meanwhile is seen before it is used.
"""
T = TypeVar("T")


class MeteredTransport(httpx.BaseTransport):
    """Carries requests to one server, through the proxy of the environment, and counts their bytes.

    Parameters
    ----------
    url : str
        Address of the server, for which the environment may name a proxy.
    context : ssl.SSLContext
        Whom to trust, and which certificate to show.
    traffic : Traffic
        Where the bytes are attributed.

    Raises
    ------
    InputError
        If the environment names a proxy that cannot be used.
    """

    def __init__(self, url: str, context: ssl.SSLContext, traffic: Traffic) -> None:
        self._traffic = traffic
        self._pool = _pool(proxy_of(httpx.URL(url)), context, MeteredBackend(httpcore.SyncBackend(), traffic))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; what is carried until its answer is closed is attributed to it."""
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with ExitStack() as until_closed:
            exchange = until_closed.enter_context(self._traffic.during(request.url.path))
            with _as_httpx_errors():
                answer = self._pool.handle_request(asked)
            until_closed.callback(answer.close)
            return httpx.Response(
                status_code=answer.status,
                headers=answer.headers,
                stream=_MeteredAnswer(answer, exchange, until_closed.pop_all()),
                extensions=answer.extensions,
            )

    def close(self) -> None:
        self._pool.close()


class _MeteredAnswer(httpx.SyncByteStream):
    """The body of an answer, counted before it is unpacked; closing it ends the exchange."""

    def __init__(self, answer: httpcore.Response, exchange: Exchange, until_closed: ExitStack) -> None:
        self._answer, self._exchange, self._until_closed = answer, exchange, until_closed

    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx_errors():
            for piece in self._answer.iter_stream():
                self._exchange.received_body += len(piece)
                yield piece

    def close(self) -> None:
        with _as_httpx_errors():
            self._until_closed.close()


def proxy_of(url: httpx.URL) -> httpx.Proxy | None:
    """Return the proxy that the environment names for an address, or None.

    HTTPS_PROXY (HTTP_PROXY for an address in plain HTTP) is preferred to ALL_PROXY; an address in NO_PROXY
    has none. httpx reads these variables only for the transports that it makes itself.

    Raises
    ------
    InputError
        If the environment's value is no address of a proxy. The error does not repeat it, because it may
        hold a password.
    """
    found = getproxies()
    address = found.get(url.scheme) or found.get("all")
    hosts = (url.host, url.netloc.decode("ascii"))  # NO_PROXY may name a port
    is_for_none = "*" in (entry.strip() for entry in found.get("no", "").split(","))
    if not address or is_for_none or any(proxy_bypass(host) for host in hosts):
        return None
    try:
        return httpx.Proxy(address if "://" in address else f"http://{address}")
    except (ValueError, httpx.InvalidURL):
        raise InputError(
            "the proxy of the environment (HTTPS_PROXY, ALL_PROXY): expected an http, https or socks5 address"
        ) from None


def _pool(
    proxy: httpx.Proxy | None, context: ssl.SSLContext, backend: httpcore.NetworkBackend
) -> httpcore.ConnectionPool:
    """Return the connections to the server, through a proxy if there is one."""
    if proxy is None:
        return httpcore.ConnectionPool(context, keepalive_expiry=_KEEP_ALIVE_S, network_backend=backend)
    options: dict[str, Any] = {
        "proxy_url": httpcore.URL(
            scheme=proxy.url.raw_scheme,
            host=proxy.url.raw_host,
            port=proxy.url.port,
            target=proxy.url.raw_path,
        ),
        "proxy_auth": proxy.raw_auth,
        "ssl_context": context,
        "keepalive_expiry": _KEEP_ALIVE_S,
        "network_backend": backend,
    }
    if not proxy.url.scheme.startswith("socks5"):
        return httpcore.HTTPProxy(**options)
    try:
        return httpcore.SOCKSProxy(**options)
    except RuntimeError:  # what httpcore raises where socksio is not installed
        raise InputError("a SOCKS proxy (HTTPS_PROXY, ALL_PROXY) needs the Python package socksio") from None


_ERRORS: Final[dict[type[Exception], type[httpx.TransportError]]] = {
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.TimeoutException: httpx.TimeoutException,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.NetworkError: httpx.NetworkError,
    httpcore.ProxyError: httpx.ProxyError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
    httpcore.ProtocolError: httpx.ProtocolError,
}
"""What httpx calls each error of httpcore, the most specific first."""


@contextmanager
def _as_httpx_errors() -> Iterator[None]:
    """Raise errors of httpcore as those of httpx, with the same text."""
    try:
        yield
    except tuple(_ERRORS) as error:
        found = next(theirs for ours, theirs in _ERRORS.items() if isinstance(error, ours))
        raise found(str(error)) from error


class MeteredBackend(httpcore.NetworkBackend):
    """Opens connections as another backend does, and counts what they carry."""

    def __init__(self, inner: httpcore.NetworkBackend, traffic: Traffic) -> None:
        self._inner, self._traffic = inner, traffic

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        line = self._traffic.open(stream.get_extra_info("socket"))
        if isinstance(line.tcp, OwnCount):
            stream = _Counted(stream, line.tcp)
        return MeteredStream(stream, self._traffic, line)


class MeteredStream(httpcore.NetworkStream):
    """Counts what goes in and comes out above TLS, and reads the count below TLS before it closes."""

    def __init__(self, inner: httpcore.NetworkStream, traffic: Traffic, line: Line) -> None:
        self._inner, self._traffic, self._line = inner, traffic, line
        self._is_broken = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._unless_broken(lambda: self._inner.read(max_bytes, timeout))
        self._traffic.received(self._line, len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._unless_broken(lambda: self._inner.write(buffer, timeout))
            self._traffic.sent(self._line, len(buffer))

    def close(self) -> None:
        if not self._is_broken:
            self._close_tls()
        self._traffic.closing(self._line)
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        try:
            secured = self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:  # a handshake that fails has cost bytes too
            self._traffic.closing(self._line)
            raise
        self._traffic.handshaken(self._line)
        return MeteredStream(secured, self._traffic, self._line)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def _unless_broken(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except BaseException:
            self._is_broken = True
            raise

    def _close_tls(self) -> None:
        """Close TLS and wait until the other side has too, so that both sides count the same bytes."""
        sock = self._inner.get_extra_info("socket")
        with suppress(OSError, ValueError, httpcore.NetworkError, httpcore.TimeoutException):
            if isinstance(self._inner, _Tls):
                self._inner.unwrap()
            elif isinstance(sock, ssl.SSLSocket):
                sock.settimeout(CLOSING_S)
                sock.unwrap()


class _Counted(httpcore.NetworkStream):
    """A connection without TLS whose bytes we count ourselves."""

    def __init__(self, inner: httpcore.NetworkStream, count: OwnCount) -> None:
        self._inner, self._count = inner, count

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._inner.read(max_bytes, timeout)
        self._count.received_bytes += len(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)
        self._count.sent_bytes += len(buffer)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        try:
            return _Tls(self, ssl_context, server_hostname, timeout)
        except BaseException:
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Tls(httpcore.NetworkStream):
    """TLS in memory over a connection that counts."""

    def __init__(
        self,
        inner: httpcore.NetworkStream,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None,
        timeout: float | None,
    ) -> None:
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = ssl_context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        try:
            self._perform(self._tls.do_handshake, timeout)
        except ssl.SSLError as error:
            raise httpcore.ConnectError(str(error)) from error

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self._perform(lambda: self._tls.read(max_bytes), timeout)
        except ssl.SSLZeroReturnError:  # the other side closed TLS in order
            return b""
        except ssl.SSLError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        try:
            while rest:
                written = self._perform(lambda: self._tls.write(rest), timeout)  # noqa: B023  # called at once
                rest = rest[written:]
        except ssl.SSLError as error:
            raise httpcore.WriteError(str(error)) from error

    def unwrap(self) -> None:
        self._perform(self._tls.unwrap, CLOSING_S)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._tls if info == "ssl_object" else self._inner.get_extra_info(info)

    def _perform(self, step: Callable[[], T], timeout: float | None) -> T:
        """Take one step of TLS, with the reading and writing below that it asks for."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush(timeout)
                data = self._inner.read(_RECORD_BYTES, timeout)
                self._incoming.write(data) if data else self._incoming.write_eof()
            except ssl.SSLError:
                self._flush(timeout)  # an alert says why
                raise
            else:
                self._flush(timeout)
                return result

    def _flush(self, timeout: float | None) -> None:
        if data := self._outgoing.read():
            self._inner.write(data, timeout)
