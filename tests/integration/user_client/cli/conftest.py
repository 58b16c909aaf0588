from __future__ import annotations

import pytest

from tests.harness.in_process import Consortium
from tests.harness.odc import Odc


@pytest.fixture
def odc(consortium: Consortium, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Odc:
    return Odc(consortium, monkeypatch, capsys)
