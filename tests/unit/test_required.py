"""What CI requires is a failure where it is missing, and skipped elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.node_institution import require_node


@pytest.fixture
def without_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.setenv("PATH", str(tmp_path))
    return monkeypatch


def test_where_node_is_required_its_absence_is_a_failure(without_node: pytest.MonkeyPatch) -> None:
    without_node.setenv("ODC_REQUIRE_NODE", "1")
    with pytest.raises(pytest.fail.Exception, match="there is no `node`"):
        require_node()


def test_elsewhere_it_is_skipped_and_says_so(without_node: pytest.MonkeyPatch) -> None:
    without_node.delenv("ODC_REQUIRE_NODE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is no `node`"):
        require_node()
