from __future__ import annotations

import pytest

from tests.unit.user_client.cli.runner import Odc
from tests.unit.user_client.consortium import Consortium


@pytest.fixture
def odc(consortium: Consortium, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Odc:
    return Odc(consortium, monkeypatch, capsys)
