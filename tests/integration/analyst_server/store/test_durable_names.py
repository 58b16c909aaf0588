from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from analyst_server.blobs import DirectoryBlobs

KEY = "collaboration/uplinks/one"


def test_the_name_of_a_partial_blob_is_durable_before_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = DirectoryBlobs(tmp_path)
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    (tmp_path / KEY).parent.mkdir(parents=True)
    for offset, data in enumerate((b"a", b"b")):
        blobs.append(KEY, offset, data)
        blobs.sync(KEY)
    folder, partial = (tmp_path / KEY).parent, tmp_path / f"{KEY}.part"
    assert synced == [folder.stat().st_ino, partial.stat().st_ino, partial.stat().st_ino]


def test_a_partial_blob_whose_name_cannot_be_made_durable_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    blobs = DirectoryBlobs(tmp_path)
    (tmp_path / KEY).parent.mkdir(parents=True)
    with monkeypatch.context() as failing:
        failing.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            blobs.append(KEY, 0, b"a")
    assert blobs.partial_size(KEY) is None
    blobs.append(KEY, 0, b"a")
    assert blobs.partial_size(KEY) == 1
