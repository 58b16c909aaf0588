"""Whether a Dask scheduler answers and has workers: asked from time to time, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 5.0
LOOK_S: Final = 2.0
"""How long a scheduler is waited for; one that computes nothing answers in milliseconds."""


class DaskLook:
    """What was seen last of a scheduler; without an address this machine computes, and nobody is asked."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._seen: str | None = None
        self._workers = 0

    def __repr__(self) -> str:
        return f"<DaskLook at {self._url}: {self.has_workers()}>"

    def has_workers(self) -> bool:
        """Return whether there was a worker the last time; asks nobody."""
        return not self._url or self._workers > 0

    def look(self) -> None:
        """Ask the scheduler, for `LOOK_S` at most; what changes is said once."""
        if not self._url:
            return
        try:
            self._workers = asyncio.run(_count(self._url))
            seen = "ok" if self._workers else "it has no workers"
        except Exception as error:  # noqa: BLE001  # whatever answers at a port that may be anybody's
            self._workers, seen = 0, f"it does not answer: {error or type(error).__name__}"
        if seen != self._seen and (self._seen is not None or not self._workers):
            log.warning("the Dask scheduler at %s: %s", self._url, seen)
        self._seen = seen


async def _count(url: str) -> int:
    from distributed.core import rpc
    from distributed.security import Security

    arguments = Security().get_connection_args("client")
    async with asyncio.timeout(LOOK_S):
        # by a connection of its own, which reads no format that can carry code
        async with rpc(
            url, timeout=LOOK_S, connection_args=arguments, deserializers=["msgpack"]
        ) as scheduler:
            return len(await scheduler.ncores())
