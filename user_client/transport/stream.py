"""The counted connection: httpcore's network streams, with every byte noted on the way.

Below TLS the kernel counts. Where it does not, `_Counted` does, and TLS goes through memory (`_Tls`)
because the standard library's TLS socket would pass us by.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

import httpcore

from user_client.transport.traffic import Line, Traffic

CLOSING_S: Final = 2.0
"""How long the other side may take to confirm that TLS is closed. What it says then is counted too."""
_RECORD_BYTES: Final = 16384 + 256
T = TypeVar("T")


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
        if self._traffic.counter == "transport":
            stream = _Counted(stream, line)
        return MeteredStream(stream, self._traffic, line)


class MeteredStream(httpcore.NetworkStream):
    """Notes what goes in and comes out above TLS, and reads the count below before it closes."""

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
        """Say that nothing more comes and wait for the other side's word, so that both count the same."""
        sock = self._inner.get_extra_info("socket")
        with suppress(OSError, ValueError, httpcore.NetworkError, httpcore.TimeoutException):
            if isinstance(self._inner, _Tls):
                self._inner.unwrap()
            elif isinstance(sock, ssl.SSLSocket):
                sock.settimeout(CLOSING_S)
                sock.unwrap()


class _Counted(httpcore.NetworkStream):
    """A connection without TLS whose bytes we count ourselves."""

    def __init__(self, inner: httpcore.NetworkStream, line: Line) -> None:
        self._inner, self._line = inner, line

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._inner.read(max_bytes, timeout)
        carried = self._line.carried
        self._line.carried = replace(carried, received_bytes=carried.received_bytes + len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)
        carried = self._line.carried
        self._line.carried = replace(carried, sent_bytes=carried.sent_bytes + len(buffer))

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
