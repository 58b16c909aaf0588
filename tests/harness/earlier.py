"""The code of the last version that left this house, to play rounds with the present one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
EARLIER = "a88681824864ee3604861dc374b280e961ff4681"
"""The commit of that version. It moves on when a version is released, and never before."""


def earlier_version(directory: Path) -> tuple[str, ...]:
    """Unpack the earlier version; return what put before a command lets it run that code.

    The test is skipped where the repository's history is not there.
    """
    archive = subprocess.run(
        ["git", "-C", str(REPOSITORY), "archive", "--format=tar", EARLIER], capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(f"the history has no commit {EARLIER[:12]}: this is no full clone")
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
    return "env", f"PYTHONPATH={directory}"
