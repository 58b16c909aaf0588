"""When traces are sent: if the environment has an address, and the extra is installed."""

from __future__ import annotations

import logging
import sys

import pytest

from analyst_server.telemetry.traces import ADDRESSES, traces_from

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
