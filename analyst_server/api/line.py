"""One connection as the meter sees it: what was counted below TLS, attributed request by request."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

from analyst_server.api.counting import Count, count_of
from analyst_server.services.meter import Meter, Purpose
from metering.counts import Counts, Flow
from protocol.operations import kind_of


class MeteredLine:
    """Counts a connection between the moments its protocol tells.

    A request has come when its last byte was parsed. Of its answer some may still wait to be sent when it
    is complete, but none when its reader asks the next, or closes. The handshake, and what closes the
    connection, are control.
    """

    def __init__(self, transport: asyncio.Transport, meter: Meter) -> None:
        self._meter = meter
        self._count = count_of(transport, meter.counter)
        self._plain_up = self._plain_down = self._body_up = self._body_down = 0
        self._handshake = _handshake(transport, self._count)
        """Until the first request tells what the connection is for."""
        self._attributed = Counts()
        self._request_up: Flow | None = None
        """What had come when the request under way was complete."""
        self._last: Purpose | None = None
        self._has_ended = False
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

    def request_is_whole(self) -> None:
        if self._request_up is None:
            self._request_up = self._carried().up

    def answer_is_read(self, under_way: Purpose | None) -> None:
        """The peer asks the next: what was sent until now belongs to the request before."""
        purpose = under_way or self._last
        if purpose is not None:
            self._attribute(purpose, Counts(self._attributed.up, self._carried().down))

    def finish(self, purpose: Purpose) -> None:
        """A request's answer is complete."""
        carried = self._carried()
        if not self._has_ended:
            self._attribute(purpose, Counts(self._request_up or carried.up, carried.down))
        self._request_up, self._last = None, purpose

    def end(self, under_way: Purpose | None) -> None:
        """The peer closes in order: it has read its answer, or has given up its request."""
        if under_way is None:
            self.answer_is_read(None)
        else:
            carried = self._carried()
            self._attribute(under_way, Counts(self._request_up or carried.up, carried.down))
        self._has_ended = True

    def close(self, under_way: Purpose | None) -> None:
        """The connection is gone; a request that was cut off takes the rest."""
        rest = under_way or self._last or Purpose()
        is_cut_off = under_way is not None and not self._has_ended
        self._attribute(rest if is_cut_off else replace(rest, kind="control"), self._carried())
        for purpose, counts in self._unowned.items():
            self._meter.add(purpose, counts)
        if self._count is not None:
            self._count.release()
            self._count = None

    def _attribute(self, purpose: Purpose, until: Counts) -> None:
        if self._count is None:
            return
        if self._handshake != Counts():
            self._add(replace(purpose, kind="control"), self._handshake)
            self._attributed, self._handshake = self._handshake, Counts()
        self._add(purpose, until - self._attributed)
        self._attributed = until

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

    def _carried(self) -> Counts:
        if self._count is None:
            return self._attributed
        tcp = self._count.read()
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
    return Purpose(
        kind=kind,
        collaboration_id=collaboration_id,
        upload_id=upload_id,
        invitation_id=enrolment[1] if enrolment else "",
    )


def _handshake(transport: asyncio.Transport, count: Count | None) -> Counts:
    """Return what the handshake alone took: a client may have sent its first request close behind.

    What has come but was not yet decrypted waits in the kernel, or in asyncio's buffer below TLS.
    """
    if count is None:
        return Counts()
    tcp = count.read()
    tls: Any = getattr(transport, "_ssl_protocol", None)  # uvloop has none: there the request counts in
    undecrypted = tls._incoming.pending if tls is not None else 0
    return Counts(
        up=Flow(tcp.received_bytes - count.unread_bytes() - undecrypted, segments=tcp.segments_in),
        down=Flow(tcp.sent_bytes, tcp.retransmitted_bytes, segments=tcp.segments_out),
    )
