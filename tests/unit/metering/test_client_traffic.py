from __future__ import annotations

from pathlib import Path

import pytest

from metering import client_traffic as traffic_module
from metering.client_traffic import Traffic, recorded, total


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traffic.jsonl"


def test_where_the_kernel_does_not_tell_our_own_transport_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_module, "kernel_counts", lambda: False)
    assert Traffic(path).counter == "transport"


@pytest.mark.parametrize("line", ["", "{", "[]", '{"kind": "uplink"}', '{"kind": "uplink", "sent": 1}'])
def test_a_line_that_a_power_cut_has_torn_is_left_out(path: Path, line: str) -> None:
    path.write_text(line + "\n")
    assert recorded(path).counter is None
    assert total(path) == {}


def test_nothing_counted_is_nothing(path: Path) -> None:
    assert total(path) == {}
    assert recorded(path).of("c0" * 16) == {}
