"""What an error of the operating system says of a disk, as one of our errors."""

from __future__ import annotations

import errno
import os
from typing import Final

from protocol.errors import DiskFullError, StorageError

RETRY_FULL_DISK_S: Final = 10
"""When whoever asked may try again at a disk that is full: others end, and operators free space."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_FAILING: Final = (errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENFILE)


def storage_error(error: OSError, disk: str) -> StorageError | None:
    """Return the error that tells people of a disk that fails; None if no disk is to blame.

    ``disk`` names it in the sentence: "the analyst's disk".
    """
    if error.errno in _FULL:
        return DiskFullError(f"{disk} is full")
    if error.errno in _FAILING:
        return StorageError(f"{disk} cannot be used: {os.strerror(error.errno).lower()}")
    return None
