"""One server on a data directory: a second would keep its own idea of the uploads under way."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol.errors import InputError


@contextmanager
def only_server(data_dir: Path) -> Iterator[None]:
    """Hold a data directory; raises `InputError` while another process does.

    The system gives the lock back when its process ends, however it ends.
    """
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(data_dir / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another server works in {data_dir}; stop it first") from None
        yield
    finally:
        os.close(descriptor)
