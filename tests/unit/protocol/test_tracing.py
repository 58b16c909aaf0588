from __future__ import annotations

import pytest

from protocol.tracing import is_request_id, new_trace, request_id, traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
VALID = f"00-{TRACE}-00f067aa0ba902b7-01"


def test_the_trace_of_a_header_is_the_id_of_its_request() -> None:
    assert request_id(VALID) == TRACE
    assert request_id(traceparent(TRACE)) == TRACE


def test_a_later_version_may_have_more_fields() -> None:
    assert request_id(f"01{VALID[2:]}-more") == TRACE


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        TRACE,
        VALID.upper(),
        f"ff{VALID[2:]}",
        f"{VALID}-more",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{VALID}\n",
        f"01{VALID[2:]}-" + "x" * 600,
    ],
)
def test_any_other_header_gives_a_new_id(header: str | None) -> None:
    found = request_id(header)
    assert len(found) == 16
    assert is_request_id(found)
    assert found != request_id(header)


def test_each_request_of_a_trace_has_a_header_of_its_own() -> None:
    trace = new_trace()
    first, second = traceparent(trace), traceparent(trace)
    assert first != second
    assert len(first) == 55


@pytest.mark.parametrize("value", [None, 7, "", "x" * 16, TRACE[:17], f"{TRACE}\n"])
def test_what_is_no_id_is_told(value: object) -> None:
    assert not is_request_id(value)
