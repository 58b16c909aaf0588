"""Uplinks that had begun to leave when another was prepared: kept until a receipt says which was received.

A command that was cut off does not know whether the analyst has completed its uplink, and what comes back
fits the basis of the received one alone. So each is kept in a folder of its own, named by the digest of its
manifest. A move that is cut off goes on when it is asked for again.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from protocol.codec import digest
from protocol.envelope import decode_stored
from protocol.messages import UplinkManifest
from runtime.files import erase, publish, sync_directory
from user_client.custody.round_directory import (
    BASIS_FILE,
    BEGUN_FILE,
    HOLD_OUT_FILE,
    KEPT_FOLDER,
    LOCAL_MODEL_FILE,
    MANIFEST_FILE,
    OLD_RELEASE_FILE,
    PAYLOAD_FILE,
    PREPARED_FILE,
    RELEASE_FILE,
    RoundDirectory,
)

KEPT_FILES: Final = (
    BASIS_FILE,
    HOLD_OUT_FILE,
    LOCAL_MODEL_FILE,
    RELEASE_FILE,
    OLD_RELEASE_FILE,
    PAYLOAD_FILE,
    PREPARED_FILE,
    MANIFEST_FILE,
)
"""What belongs to one uplink. The manifest is moved last, so that it stands where the others are complete."""


def keep(directory: RoundDirectory) -> None:
    """Put the prepared uplink aside, if it has begun to leave."""
    if not directory.holds(BEGUN_FILE):
        return
    manifest = directory.find(UplinkManifest)
    if manifest is not None:
        folder = _folder(directory, digest(manifest))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for parent in (
            folder.parent,
            directory.path,
        ):  # a folder that a power cut takes away takes its files too
            sync_directory(parent)
        for name in KEPT_FILES:
            _move(directory, directory.path / name, folder / name)
    directory.remove(BEGUN_FILE)


def find(directory: RoundDirectory, uplink_digest: bytes) -> UplinkManifest | None:
    """Return the manifest of a kept uplink by its digest, or None if none of this digest was kept."""
    path = _folder(directory, uplink_digest) / MANIFEST_FILE
    return decode_stored(UplinkManifest, path.read_bytes()) if path.exists() else None


def are_there(directory: RoundDirectory) -> bool:
    """Return whether an uplink, or what is left of one, is kept."""
    return (directory.path / KEPT_FOLDER).exists()


def pick(directory: RoundDirectory, uplink_digest: bytes) -> None:
    """Put the received uplink into its place, in that of another if need be, and erase all others."""
    folder = _folder(directory, uplink_digest)
    if folder.exists():
        prepared = directory.find(UplinkManifest)
        if prepared is not None and digest(prepared) != uplink_digest:
            for name in KEPT_FILES:
                erase(directory.path / name)
        for name in KEPT_FILES:
            _move(directory, folder / name, directory.path / name)
    kept = directory.path / KEPT_FOLDER
    for path in list(kept.rglob("*")):
        if path.is_file():
            erase(path)
    shutil.rmtree(kept, ignore_errors=True)


def _folder(directory: RoundDirectory, uplink_digest: bytes) -> Path:
    return directory.path / KEPT_FOLDER / uplink_digest.hex()


def _move(directory: RoundDirectory, source: Path, target: Path) -> None:
    """Move a file that may not be there, durably; a sealed one is sealed for its new place."""
    if not source.exists():
        return
    home = directory.home
    if home.is_secret(source):
        home.write_secret(target, home.read_secret(source))
        erase(source)
    else:
        publish(source, target)
    sync_directory(source.parent)
