"""One connection as the meter sees it: what the kernel counted, attributed request by request."""

from __future__ import annotations

import array
import asyncio
import fcntl
import re
import socket
import termios
from dataclasses import replace
from typing import Any

from analyst_server.services.meter import Meter, Purpose
from protocol.metering import Counts, Flow, kind_of
from protocol.tcp_info import TcpCount, read_tcp_info


class MeteredLine:
    """Counts a connection between the moments its protocol tells.

    A request's bytes have all come when its answer is complete. The answer's may still wait to be
    sent then, but have been when the next request begins, because its sender has read them first.
    """

    def __init__(self, transport: asyncio.Transport, meter: Meter) -> None:
        self._meter = meter
        self._descriptor = _second_handle(transport)
        self._plain_up = self._plain_down = self._body_up = self._body_down = 0
        self._attributed = Counts()
        self._handshake = _handshake(transport, self._descriptor)
        """Until the first request tells what the connection is for."""
        self._current: Purpose | None = None
        self._last: Purpose | None = None
        self._owner = Purpose()
        """Whose connection it is, once a request has told."""
        self._unowned: dict[Purpose, Counts] = {}

    def received(self, plain_bytes: int) -> None:
        self._plain_up += plain_bytes

    def received_body(self, body_bytes: int) -> None:
        self._body_up += body_bytes

    def sent(self, plain_bytes: int) -> None:
        self._plain_down += plain_bytes

    def sent_body(self, body_bytes: int) -> None:
        self._body_down += body_bytes

    def settle_answer(self) -> None:
        """The peer is done with the last answer: what has been sent until now belongs to it."""
        if self._last is not None:
            self._attribute(self._last, only_down=True)

    def begin(self, purpose: Purpose) -> None:
        """A request's head has come."""
        self._current = purpose

    def finish(self, purpose: Purpose) -> None:
        """A request's answer is complete; only now is it known who asked."""
        self._current, self._last = None, purpose
        control = replace(purpose, kind="control")
        self._give_handshake_to(control)
        self._attribute(purpose)

    def close(self) -> None:
        """The connection is gone; a request that was cut off takes the rest, closing is control."""
        rest = self._current or replace(self._last or Purpose(), kind="control")
        self._give_handshake_to(replace(rest, kind="control"))
        self._attribute(rest)
        for purpose, counts in self._unowned.items():
            self._meter.add(purpose, counts)
        if self._descriptor is not None:
            self._descriptor.close()
            self._descriptor = None

    def _give_handshake_to(self, purpose: Purpose) -> None:
        self._attributed += self._handshake
        self._add(purpose, self._handshake)
        self._handshake = Counts()

    def _attribute(self, purpose: Purpose, *, only_down: bool = False) -> None:
        if self._descriptor is None:
            return
        counts = self._count(self._descriptor) - self._attributed - self._handshake
        if only_down:
            counts = Counts(down=counts.down)
        self._attributed += counts
        self._add(purpose, counts)

    def _add(self, purpose: Purpose, counts: Counts) -> None:
        """Hand counts on, those of requests without a name together with the first that has one."""
        if not purpose.has_owner and not self._owner.has_owner:
            key = Purpose(purpose.kind)
            self._unowned[key] = self._unowned.get(key, Counts()) + counts
            return
        self._owner = purpose if purpose.has_owner else self._owner
        for earlier, unowned in self._unowned.items():
            self._meter.add(earlier.owned_by(self._owner), unowned)
        self._unowned.clear()
        self._meter.add(purpose.owned_by(self._owner), counts)

    def _count(self, descriptor: socket.socket) -> Counts:
        tcp = read_tcp_info(descriptor) or TcpCount()
        return Counts(
            up=Flow(tcp.received_bytes, 0, self._plain_up, self._body_up, tcp.segments_in),
            down=Flow(
                tcp.sent_bytes,
                tcp.retransmitted_bytes,
                self._plain_down,
                self._body_down,
                tcp.segments_out,
            ),
        )


def purpose_of(method: str, path: str) -> Purpose:
    """Return what a request is for, by its address alone."""
    kind, collaboration_id = kind_of(path)
    upload_id = path.removeprefix("/v1/uploads/") if path.startswith("/v1/uploads/") else ""
    enrolment = re.fullmatch("/v1/enrolments/([0-9a-f]{32})", path) if method == "GET" else None
    invitation_id = enrolment[1] if enrolment else ""
    return Purpose(
        kind=kind, collaboration_id=collaboration_id, upload_id=upload_id, invitation_id=invitation_id
    )


def _second_handle(transport: asyncio.Transport) -> socket.socket | None:
    """Return another descriptor of the connection: asyncio closes its own before it tells us."""
    connected: Any = transport.get_extra_info("socket")
    try:
        found: socket.socket | None = connected.dup() if connected is not None else None
    except OSError:  # no descriptor is left: this connection goes uncounted
        return None
    return found


def _handshake(transport: asyncio.Transport, descriptor: socket.socket | None) -> Counts:
    """Return what the handshake alone took: a client may have sent its first request close behind.

    What has come but was not yet decrypted waits in the kernel, or in asyncio's buffer below TLS.
    """
    tcp = read_tcp_info(descriptor) if descriptor is not None else None
    if descriptor is None or tcp is None:
        return Counts()
    unread = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, unread)
    tls: Any = getattr(transport, "_ssl_protocol", None)  # uvloop has none: there the request counts in
    undecrypted = tls._incoming.pending if tls is not None else 0
    return Counts(
        up=Flow(tcp.received_bytes - unread[0] - undecrypted, segments=tcp.segments_in),
        down=Flow(tcp.sent_bytes, tcp.retransmitted_bytes, segments=tcp.segments_out),
    )
