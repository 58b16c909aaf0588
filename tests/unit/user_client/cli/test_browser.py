"""`odc ui` where its libraries are missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from user_client.cli.main import app
from user_client.errors import MissingExtraError


@pytest.mark.parametrize("library", ["jinja2", "fastapi", "uvicorn"])
def test_without_its_extra_it_says_what_to_install(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("user_client.ui", "pages"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(sys.modules["user_client"], "ui", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"odc ui needs .* the extra \[ui\]"):
        app(["--home", str(tmp_path), "ui", "--no-browser"], standalone_mode=False)
