"""What the analyst does with each connection: bound what a peer sends, count its bytes, show its certificate.

A bound on connections is a `Watcher` of its own, listed in `AnalystProtocol.watch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from analyst_server.api.access import is_page
from analyst_server.api.doors import Guest
from analyst_server.api.listening import guarded_connection
from analyst_server.api.phases import PhaseBound
from analyst_server.api.tls import tls_extension
from analyst_server.services.meter import Meter
from metering.counts import Count, Counts, Flow, count_of
from metering.private_parts import Scope, WatchedProtocol, Watcher, undecrypted_bytes
from metering.server import ConnectionMeter, Event, Purpose, purpose_of


class AnalystProtocol(WatchedProtocol):
    """uvicorn's protocol with the analyst's watchers and ``scope["extensions"]["tls"]``."""

    def watch(self, transport: asyncio.Transport, lifespan_state: Mapping[str, Any]) -> Sequence[Watcher]:
        count = count_of(transport.get_extra_info("socket"), lifespan_state["meter"].counter)
        counted = [] if count is None else [CountedConnection(transport, count, lifespan_state["meter"])]
        guest, doors = self._let_in(transport), lifespan_state["doors"]
        note = (lambda _answering, _coming: None) if guest is None else partial(doors.note_phase, guest)
        return [*counted, PhaseBound(transport, lifespan_state["connection_timeout_s"], note)]

    def extensions(self, transport: asyncio.Transport) -> dict[str, Any]:
        guarded = guarded_connection(transport.get_extra_info("socket"))
        guest = guarded.guest if guarded is not None else None
        is_turned_away = guest is not None and guest.is_turned_away
        return {"tls": tls_extension(transport), "odc": {"is_turned_away": is_turned_away}}

    def _let_in(self, transport: asyncio.Transport) -> Guest | None:
        """Return who has come in, now that TLS stands; None on a socket that nobody guards."""
        guarded = guarded_connection(transport.get_extra_info("socket"))
        if guarded is None or guarded.guest is None:
            return None
        shown = transport.get_extra_info("ssl_object")
        guarded.let_in(shown.getpeercert(binary_form=True) if shown is not None else None)
        return guarded.guest


class CountedConnection(Watcher):
    """Lets the meter of a connection see what happens, and hands what it attributes to the sums."""

    def __init__(self, transport: asyncio.Transport, count: Count, sums: Meter) -> None:
        self._count, self._sums = count, sums
        self._meter = ConnectionMeter(_handshake(transport, count))

    def received(self, plain_bytes: int) -> None:
        self._meter.received(plain_bytes)

    def received_body(self, body_bytes: int) -> None:
        self._meter.received_body(body_bytes)

    def sent(self, plain_bytes: int) -> None:
        self._meter.sent(plain_bytes)

    def sent_body(self, body_bytes: int) -> None:
        self._meter.sent_body(body_bytes)

    def happened(self, event: Event, request: Scope | None) -> None:
        purpose = _purpose(request) if request is not None else None
        for whose, counts in self._meter.handle(event, self._count.read(), purpose):
            self._sums.add(whose, counts)
        if event is Event.CONNECTION_LOST:
            self._count.release()


def _handshake(transport: asyncio.Transport, count: Count) -> Counts:
    """Return what the handshake alone took: a client may have sent its first request close behind.

    What has come but was not yet decrypted waits in the kernel, or in asyncio's buffer below TLS.
    """
    tcp = count.read()
    not_its_own = count.unread_bytes() + undecrypted_bytes(transport)
    return Counts(
        up=Flow(tcp.received_bytes - not_its_own, segments=tcp.segments_in),
        down=Flow(tcp.sent_bytes, tcp.retransmitted_bytes, segments=tcp.segments_out),
    )


def _purpose(request: Scope) -> Purpose:
    """Return what a request is for; and whose it is, once the application has looked at it.

    A page that a person looks at is no part of a round, whoever looks.
    """
    identity, invitation_id = request["state"].get("identity"), request["state"].get("invitation_id")
    if is_page(request["path"]):
        identity = None
    purpose = purpose_of(request["method"], request["path"])
    if identity is not None:
        return replace(purpose, party=identity.name)
    return replace(purpose, invitation_id=invitation_id or purpose.invitation_id)
