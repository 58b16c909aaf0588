"""Traces by OpenTelemetry: a span for each request that is answered, and for each step of a computation.

Off unless an address is set where the specification of OpenTelemetry has it, and the extra ``telemetry`` is
installed. Everything else (headers, certificates, sampling, the name of the service) is set there too, by
``OTEL_*``. A span names the operation, never a party.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from analyst_server.services.worker import DONE
from protocol import __version__
from protocol.operations import find
from protocol.tracing import HEADER
from runtime.logs import REQUEST, ROUND, told

if TYPE_CHECKING:  # without the extra there is no such package
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger(__name__)

ADDRESSES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables of the specification, one of which says where spans are sent."""
_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_SERVICE: Final = "odc-analyst"
_TRACE_DIGITS: Final = 32
_LAST_SPANS_S: Final = 2.0
"""How long the end of the server waits for a collector that does not answer."""


def traces_from(environment: Mapping[str, str] = os.environ) -> Traces | None:
    """Return what sends traces; None if the environment names no address, or without the extra."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(map(environment.get, ADDRESSES)):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    except ImportError:
        log.warning("no traces are sent: install the extra, orthonormal-data-collaboration[telemetry]")
        return None

    service = {"service.name": environment.get("OTEL_SERVICE_NAME", _SERVICE), "service.version": __version__}
    # our clients mark their requests as not sampled, since they keep no spans: by default that would be all
    sampler = None if environment.get(_SAMPLER) else ALWAYS_ON
    provider = TracerProvider(sampler, Resource.create(service), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)


class Traces:
    """Makes the spans of one server. Whoever has one ends it with `close`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("orthonormal-data-collaboration", __version__)

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return an application that makes a span of each request of ``app``, in the trace of its sender."""
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator = TraceContextTextMapPropagator()

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            method, found = scope["method"], find(scope["method"], scope["path"])
            attributes = {"http.request.method": method}
            if found is not None:
                operation, ids = found
                attributes["http.route"] = operation.path
                if "collaboration_id" in ids:
                    attributes[f"odc.{ROUND}"] = ids["collaboration_id"]
            statuses: list[int] = []

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])
                await send(message)

            with self._tracer.start_as_current_span(
                found[0].name if found is not None else method,
                propagator.extract(dict(Headers(scope=scope))),
                SpanKind.SERVER,
                attributes,
                record_exception=False,  # its text may name whom and what a request was about
                set_status_on_exception=False,
            ) as span:
                # so that the id of a request in logs and problem documents is that of its trace
                named: dict[str, str] = {}
                propagator.inject(named)
                others = [each for each in scope["headers"] if each[0] != HEADER.encode()]
                scope = {**scope, "headers": [*others, (HEADER.encode(), named[HEADER].encode())]}
                try:
                    await app(scope, receive, noted)
                finally:
                    if statuses:
                        span.set_attribute("http.response.status_code", statuses[0])
                    if not statuses or statuses[0] >= 500:
                        span.set_status(Status(StatusCode.ERROR))

        return traced

    def step(self, stage: str, outcome: str, seconds: float) -> None:
        """Make a span of a step that has just ended, in the trace of the request that sealed its round."""
        from opentelemetry.trace import Status, StatusCode

        now = time.time_ns()
        span = self._tracer.start_span(
            stage,
            _in_trace(told(REQUEST) or ""),
            attributes={"odc.outcome": outcome, f"odc.{ROUND}": told(ROUND) or ""},
            start_time=now - round(seconds * 1e9),
        )
        if outcome != DONE:
            span.set_status(Status(StatusCode.ERROR))
        span.end(now)

    def close(self) -> None:
        """Send what is left, for a short time, and end."""
        # by itself it would wait for the exporter, which tries again and again
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(_LAST_SPANS_S)


def _in_trace(request: str) -> Context | None:
    """Return the context of whatever named a request by a trace; None if its id is our own."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if len(request) != _TRACE_DIGITS:
        return None
    # which span of the trace it was is not known any more
    ids = int(request, 16), secrets.randbits(64) | 1
    return set_span_in_context(
        NonRecordingSpan(SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)))
    )
