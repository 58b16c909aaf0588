"""What the analyst says of itself, asked once and remembered for a day."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from protocol.version import negotiate
from runtime.files import write_whole
from user_client.transport import AnalystConnection

REMEMBERED_S: Final = 24 * 3600
"""An analyst that is upgraded meanwhile answers `unsupported-version`, and is asked anew after that."""


def meet(connection: AnalystConnection, url: str, path: Path, now: int) -> None:
    """Make sure that we and the analyst at ``url`` speak a common version.

    Raises
    ------
    UnsupportedVersionError
        If there is none; it says who has to upgrade.
    """
    versions = _remembered(url, path, now)
    if versions is None:
        versions = connection.discover()["wire_versions"]
        said = {"analyst_url": url, "wire_versions": versions, "asked_at": now}
        write_whole(path, json.dumps(said).encode())
    negotiate(versions, peer="the analyst")


def _remembered(url: str, path: Path, now: int) -> Sequence[int] | None:
    try:
        said = json.loads(path.read_text())
        is_fresh = said["analyst_url"] == url and 0 <= now - said["asked_at"] < REMEMBERED_S
        return [int(version) for version in said["wire_versions"]] if is_fresh else None
    except (OSError, ValueError, KeyError, TypeError):  # nothing there, or of another version: asked anew
        return None
