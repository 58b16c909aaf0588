from __future__ import annotations

import errno

import pytest

from protocol.errors import DiskFullError, StorageError
from runtime.storage import storage_error


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_from_others(code: int) -> None:
    found = storage_error(OSError(code, "x"), "the disk")
    assert type(found) is DiskFullError
    assert found.detail == "the disk is full"


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EIO])
def test_a_disk_that_fails_says_how(code: int) -> None:
    found = storage_error(OSError(code, "x"), "the disk of /data")
    assert type(found) is StorageError
    assert found.detail.startswith("the disk of /data cannot be used: ")
    assert found.detail == found.detail.strip(".")


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "x"), OSError("x"), TimeoutError()])
def test_what_is_no_fault_of_a_disk_is_not_blamed_on_it(error: OSError) -> None:
    assert storage_error(error, "the disk") is None
