"""Whether the analyst can do its work now: for balancers and supervisors, who ask often and know nobody."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from analyst_server.services.analyst import Analyst
from protocol.errors import OdcError

log = logging.getLogger(__name__)

FRESH_S: Final = 5.0
"""For so long an answer is given again: anybody may ask, and looking writes to the disk."""


@dataclass
class Readiness:
    """Looks at database, disk and compute, at most once in `FRESH_S`."""

    analyst: Analyst
    now: Callable[[], float] = time.monotonic
    _found: dict[str, bool] = field(default_factory=dict)
    _looked_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, *, computes: bool) -> dict[str, bool]:
        """Return whether each part works; ``computes``: whether a thread takes up rounds."""
        with self._lock:
            if self.now() - self._looked_at >= FRESH_S:
                self._found = {
                    "database": self._works("database", self.analyst.records.ping),
                    "disk": self._works("disk", self.analyst.blobs.ping),
                }
                self._looked_at = self.now()
            return {**self._found, "compute": computes}

    @staticmethod
    def _works(name: str, ping: Callable[[], None]) -> bool:
        try:
            ping()
        except (OSError, OdcError) as error:
            log.error("not ready, the %s does not work: %s", name, error)
            return False
        return True
