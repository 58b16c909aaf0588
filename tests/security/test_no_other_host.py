"""Nobody is told that we run: the libraries behind us keep quiet too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.attacks import got

IMPORTS = {
    "institution": "import user_client.sdk.downlink, onnxruntime",
    "analyst": "import analyst_server.training.onnx_file",
}


def a_person_at_a_desk(home: Path) -> dict[str, str]:
    """The environment of a program somebody starts by hand.

    Nothing is inherited: the runtime keeps quiet of its own accord where it finds CI, GITHUB_ACTIONS,
    TF_BUILD and the like, and would then be no threat for either test to see.
    """
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}


@pytest.mark.parametrize("who", IMPORTS)
def test_loading_the_runtime_leaves_no_device_id_behind(who: str, tmp_path: Path) -> None:
    """onnxruntime writes one below the home directory before it reports to its maker."""
    command = [sys.executable, "-c", IMPORTS[who]]
    subprocess.run(command, env=a_person_at_a_desk(tmp_path), check=True, timeout=120)
    assert [path.name for path in tmp_path.rglob("*")] == []


def test_the_runtime_would_leave_one_behind_if_it_were_not_kept_quiet(tmp_path: Path) -> None:
    """The mutation: the same import without the package that switches its reports off first."""
    command = [sys.executable, "-c", "import onnxruntime"]
    subprocess.run(command, env=a_person_at_a_desk(tmp_path), check=True, timeout=120)
    left = [path.name for path in tmp_path.rglob("*")]
    got("maker of the runtime, reports not switched off", files=len(left))
    assert left
