"""Whether the analyst can do its work now: for balancers and supervisors, who ask often and know nobody.

Where rounds are computed elsewhere and nobody is there, they wait; that is said, and is no reason to send
institutions away, whose uplinks are taken.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from analyst_server.services import own_arrays
from analyst_server.services.analyst import Analyst
from protocol.answers import ComputeWorks, Works
from protocol.errors import OdcError

log = logging.getLogger(__name__)

FRESH_S: Final = 5.0
"""For so long an answer is given again: anybody may ask, and looking writes to the disk."""


@dataclass
class Readiness:
    """Looks at database, arrays, disk and compute, at most once in `FRESH_S`.

    ``has_workers`` says at once whether anybody is there who computes what this process hands out.
    """

    analyst: Analyst
    now: Callable[[], float] = time.monotonic
    has_workers: Callable[[], bool] = lambda: True
    _found: dict[str, Works] = field(default_factory=dict)
    _store_id: str | None = None
    """What the database has said last: while it is away, arrays that are there are not called missing."""
    _looked_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, *, computes: bool) -> dict[str, ComputeWorks]:
        """Return whether each part works; ``computes``: whether a thread takes up rounds."""
        with self._lock:
            if self.now() - self._looked_at >= FRESH_S:
                self._found = {
                    "database": self._works("database", self._ask_database),
                    "arrays": self._works(
                        "store of arrays", partial(own_arrays.require, self.analyst, self._store_id)
                    ),
                    "disk": self._works("disk", self.analyst.blobs.ping),
                }
                self._looked_at = self.now()
            compute: ComputeWorks = "waiting" if computes and not self.has_workers() else _word(computes)
            return {**self._found, "compute": compute}

    def _ask_database(self) -> None:
        self.analyst.records.ping()
        self._store_id = own_arrays.noted(self.analyst)

    @staticmethod
    def _works(name: str, ping: Callable[[], None]) -> Works:
        try:
            ping()
        except (OSError, OdcError) as error:
            log.error("not ready, the %s does not work: %s", name, error)
            return "failing"
        return "ok"


def _word(works: bool) -> Works:
    return "ok" if works else "failing"
