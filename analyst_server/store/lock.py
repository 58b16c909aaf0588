"""One server on a data directory: a second would keep its own idea of the uploads under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from protocol.errors import InputError
from runtime.files import locked


@contextmanager
def only_server(data_dir: Path) -> Iterator[None]:
    """Hold a data directory; raises `InputError` while another process does.

    The system releases the lock when its process ends, however it ends.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(data_dir))
        except BlockingIOError:
            raise InputError(f"another server works in {data_dir}; stop it first") from None
        yield
