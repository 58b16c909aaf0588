"""How a directory is given much at once: in small calls, and with the disk at work early."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyst_server.blobs import DirectoryBlobs
from runtime.files import WRITTEN_AT_ONCE_BYTES

KEY = "uplinks/one"


def test_no_call_writes_more_than_it_is_given_memory_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    pwrite = os.pwrite

    def noted(descriptor: int, data: memoryview, offset: int) -> int:
        sizes.append(len(data))
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", noted)
    blobs, data = DirectoryBlobs(tmp_path), os.urandom(2 * WRITTEN_AT_ONCE_BYTES + 5)
    blobs.append(KEY, 0, data)
    blobs.append(KEY, len(data), data[:7])
    assert sizes == [WRITTEN_AT_ONCE_BYTES, WRITTEN_AT_ONCE_BYTES, 5, 7]
    assert blobs.read_partial(KEY) == data + data[:7]


def test_the_disk_begins_with_what_is_whole_and_a_refused_hint_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hinted: list[tuple[int, int]] = []

    def refuse(_descriptor: int, start: int, length: int, _advice: int) -> None:
        hinted.append((start, length))
        raise OSError("no hints here")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    blobs, mib = DirectoryBlobs(tmp_path), 2**20
    blobs.append(KEY, 0, bytes(3 * mib))
    blobs.append(KEY, 3 * mib, bytes(2 * mib))
    blobs.append(KEY, 5 * mib, bytes(8 * mib))
    assert hinted == [(0, 4 * mib), (4 * mib, 8 * mib)]
    assert blobs.partial_size(KEY) == 13 * mib
