"""Which requests are admitted now: so many a second for each identity, and none while the server drains.

The outermost layer of the application: what is refused here has cost a head, and neither the records nor a
check of a certificate.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from analyst_server.api.doors import network_of
from analyst_server.api.problems import problem_response
from protocol.busy import TooManyRequestsError
from protocol.errors import OdcError
from protocol.operations import HEALTH, READINESS

BURST_S: Final = 20
"""An identity that was quiet may ask this many seconds' worth at once: a lead approves a thousand members."""
MOST_REMEMBERED: Final = 10_000
"""Identities whose requests are counted; the one that was quiet for longest is forgotten first."""
TURNED_AWAY_S: Final = 5
"""When to come back that finds the places of its certificate taken."""
_DRAINED_S: Final = 2
"""When to come back to a server that is being restarted."""


@dataclass(eq=False)
class Rates:
    """Token buckets, one for each identity.

    Parameters
    ----------
    per_s : float
        Requests a second that an identity may go on with.
    """

    per_s: float
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    """What was left of each bucket, and when."""

    def __repr__(self) -> str:
        return f"<Rates {self.per_s:g} a second, {len(self._buckets)} identities>"

    def wait_s(self, identity: str) -> float:
        """Count a request; return 0 if it is admitted, or else the seconds after which one would be."""
        now, full = self.clock(), max(self.per_s * BURST_S, 1)
        left, at = self._buckets.pop(identity, (full, now))
        left = min(full, left + (now - at) * self.per_s)
        is_admitted = left >= 1
        self._buckets[identity] = (left - 1 if is_admitted else left, now)
        if len(self._buckets) > MOST_REMEMBERED:
            self._buckets.popitem(last=False)
        return 0 if is_admitted else (1 - left) / self.per_s


class Admission:
    """Lets a request through, or answers it with when to come back; knows how many are under way."""

    def __init__(self, app: ASGIApp, rates: Rates, requests: Requests) -> None:
        self._app, self._rates, self._requests = app, rates, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (refusal := self._refusal(scope)) is not None:
            response = problem_response(refusal, scope["path"])
            headers = Headers(scope=scope)
            has_body = "content-length" in headers or "transfer-encoding" in headers
            if has_body or _is_turned_away(scope):
                response.headers["connection"] = "close"  # its place is wanted, or its body is not
            await response(scope, receive, send)
            return
        await self._requests.answer(self._app, scope, receive, send)

    def _refusal(self, scope: Scope) -> OdcError | None:
        if _is_turned_away(scope):
            return TooManyRequestsError(
                "all connections of this certificate are taken", retry_after_s=TURNED_AWAY_S
            )
        wait_s = max(self._rates.wait_s(identity) for identity in identities(scope))
        if wait_s:
            return TooManyRequestsError(
                f"more than {self._rates.per_s:g} requests a second", retry_after_s=math.ceil(wait_s)
            )
        return None


def _is_turned_away(scope: Scope) -> bool:
    return bool(scope.get("extensions", {}).get("odc", {}).get("is_turned_away"))


def identities(scope: Scope) -> list[str]:
    """Return on whose account a request goes: its certificate, or its address and its token if it has one.

    Whether a supervisor asks from the address of strangers, or strangers only share it, nobody can say here:
    questions after the server's health are counted apart.
    """
    chain = scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or ()
    if chain:
        return [f"certificate {hashlib.sha256(chain[0].encode()).hexdigest()}"]
    host = network_of((scope.get("client") or ("",))[0])
    found = [f"health {host}" if scope["path"] in (HEALTH.path, READINESS.path) else f"address {host}"]
    if (shown := Headers(scope=scope).get("authorization")) is not None:
        found.append(f"token {hashlib.sha256(shown.encode()).hexdigest()}")
    return found


class Requests:
    """The requests under way."""

    def __init__(self) -> None:
        self._count = 0
        self._are_over = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Requests, {self._count} under way>"

    @property
    def under_way(self) -> int:
        """Return how many requests are being answered."""
        return self._count

    async def answer(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer; one that is cancelled as the server stops says when to come back."""
        is_begun = False

        async def noted(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        self._count += 1
        self._are_over.clear()
        try:
            await app(scope, receive, noted)
        except asyncio.CancelledError:
            if is_begun:
                raise
            # without a document: any client takes this for a server that is being restarted, and goes on
            restarting = Response(status_code=503, headers={"retry-after": str(_DRAINED_S)})
            await restarting(scope, receive, send)
        finally:
            self._count -= 1
            if not self._count:
                self._are_over.set()

    async def wait_until_over(self, at_most_s: float) -> None:
        """Wait until no request is under way, or for so long."""
        if self._count:
            await asyncio.wait([asyncio.ensure_future(self._are_over.wait())], timeout=at_most_s)
