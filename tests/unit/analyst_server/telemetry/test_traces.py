"""When traces are sent, and what a span does not say."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import Receive, Scope, Send

from analyst_server.telemetry.traces import ADDRESSES, Traces, traces_from

ADDRESS = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    "environment",
    [{}, dict.fromkeys(ADDRESSES, ""), {ADDRESSES[0]: ADDRESS, "OTEL_SDK_DISABLED": "True"}],
    ids=["nothing", "empty", "disabled"],
)
def test_nothing_is_sent_without_an_address_or_where_it_is_disabled(environment: dict[str, str]) -> None:
    assert traces_from(environment) is None


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_is_enough(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, ADDRESS)  # which the exporter reads for itself
    found = traces_from({name: ADDRESS})
    assert found is not None
    found.close()


def test_without_the_extra_the_log_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with caplog.at_level(logging.WARNING):
        assert traces_from({ADDRESSES[0]: ADDRESS}) is None
    assert "[telemetry]" in caplog.text


def test_a_span_says_that_a_request_failed_and_not_with_what_words() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:  # as the interface has it
        raise ValueError("of a patient in hospital-b")

    async def ask() -> None:
        scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
        await traces.around(fails)(scope, _nothing, _nothing)  # type: ignore[arg-type]  # neither is called

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Traces(provider)
    with pytest.raises(ValueError, match="of a patient"):
        asyncio.run(ask())
    (span,) = exporter.get_finished_spans()
    assert not span.status.is_ok
    assert "patient" not in span.to_json()


async def _nothing(*_: object) -> None:
    raise AssertionError
