from __future__ import annotations

import pytest

from runtime.hosts import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_alone_is_reached_on_the_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "analyst.example", ""])  # noqa: S104  # nobody listens
def test_others_may_be_reached_elsewhere(host: str) -> None:
    assert not is_loopback(host)
