from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.in_process import Consortium


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    made = Consortium(tmp_path, monkeypatch)
    yield made
    made.close()
