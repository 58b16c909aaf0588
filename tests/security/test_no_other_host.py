"""Nobody is told that we run: the libraries behind us keep quiet too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.security.printing import got

IMPORTS = {
    "institution": "import user_client.sdk.downlink, onnxruntime",
    "analyst": "import analyst_server.training.onnx_file",
}


@pytest.mark.parametrize("who", IMPORTS)
def test_loading_the_runtime_leaves_no_device_id_behind(who: str, tmp_path: Path) -> None:
    """onnxruntime writes one below the home directory before it reports to its maker."""
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", IMPORTS[who]], env=environment, check=True, timeout=120)
    assert [path.name for path in tmp_path.rglob("*")] == []


def test_the_runtime_would_leave_one_behind_if_it_were_not_kept_quiet(tmp_path: Path) -> None:
    """The mutation: the same import without the package that switches its reports off first."""
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    command = [sys.executable, "-c", "import onnxruntime"]
    subprocess.run(command, env=environment, check=True, timeout=120)
    left = [path.name for path in tmp_path.rglob("*")]
    got("maker of the runtime, reports not switched off", files=len(left))
    assert left
