"""What this process counts as it happens, for Prometheus. `collected` looks up the rest when it is asked.

The parts of the server know nothing of Prometheus: each takes a callable, which is a method here. Every
one may be called from several threads, and costs some microseconds.
"""

from __future__ import annotations

import platform
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector

from analyst_server.api.access import is_page
from metering.counts import Counts
from metering.server import Purpose
from protocol import __version__
from protocol.operations import Kind, find
from protocol.version import WIRE_VERSIONS

PREFIX: Final = "odc_analyst"
PAGE: Final = "page"
OTHER: Final = "other"
"""Labels of requests that call no operation: what strangers ask for is no label."""
REQUEST_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The longest is the most that an answer to somebody who waits for news is held."""
COMPUTE_BUCKETS_S: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600)
DATABASE_BUCKETS_S: Final = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)


class Measures:
    """The counters and histograms of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            f"{PREFIX}_requests",
            "Requests answered",
            ["operation", "kind", "status"],
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            f"{PREFIX}_request_duration_seconds",
            "Seconds from the head of a request to the end of its answer",
            ["operation"],
            buckets=REQUEST_BUCKETS_S,
            registry=self.registry,
        )
        self._bytes = Counter(
            f"{PREFIX}_wire_bytes",
            "Bytes of TCP payload as metered, with TLS; up is from institutions",
            ["direction", "kind"],
            registry=self.registry,
        )
        self._compute_seconds = Histogram(
            f"{PREFIX}_compute_duration_seconds",
            "Seconds of a step of a computation",
            ["stage", "outcome"],
            buckets=COMPUTE_BUCKETS_S,
            registry=self.registry,
        )
        self._database_seconds = Histogram(
            f"{PREFIX}_database_wait_seconds",
            "Seconds that a transaction waited until it was open",
            ["mode"],
            buckets=DATABASE_BUCKETS_S,
            registry=self.registry,
        )
        self._notices = Counter(
            f"{PREFIX}_webhook_attempts",
            "Attempts to deliver a notice of who is waited for",
            ["outcome"],
            registry=self.registry,
        )
        info = Info(f"{PREFIX}_build", "Version of this software", registry=self.registry)
        wire = ",".join(map(str, WIRE_VERSIONS))
        info.info({"version": __version__, "wire_versions": wire, "python": platform.python_version()})
        ProcessCollector(registry=self.registry)

    def request(self, method: str, path: str, status: int | None, seconds: float) -> None:
        """Count an answered request; one without an answer has the status ``none``."""
        operation, kind = _operation(method, path)
        told = f"{status // 100}xx" if status else "none"
        self._requests.labels(operation, kind, told).inc()
        self._request_seconds.labels(operation).observe(seconds)

    def carried(self, purpose: Purpose, counts: Counts) -> None:
        """Count what a connection carried for a request.

        That may be less than nothing: where a peer ends a connection while the kernel is asked, the byte for
        its end is counted, and taken back when it is asked again. A counter can only grow.
        """
        self._bytes.labels("up", purpose.kind).inc(max(counts.up.wire_bytes, 0))
        self._bytes.labels("down", purpose.kind).inc(max(counts.down.wire_bytes, 0))

    def step(self, stage: str, outcome: str, seconds: float) -> None:
        """Count a step of a computation."""
        self._compute_seconds.labels(stage, outcome).observe(seconds)

    def notified(self, outcome: str) -> None:
        """Count an attempt to deliver a notice."""
        self._notices.labels(outcome).inc()

    def opened(self, is_writing: bool, seconds: float) -> None:
        """Count a transaction that is open now."""
        self._database_seconds.labels("write" if is_writing else "read").observe(seconds)


def _operation(method: str, path: str) -> tuple[str, Kind]:
    if (found := find(method, path)) is not None:
        return found[0].name, found[0].kind
    return (PAGE if is_page(path) else OTHER), "control"
