"""What changes while the server runs and no request tells it is looked at every few seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0
"""For so long a certificate that was revoked at another process may still be taken here."""


class RegularLooks:
    """A thread of its own: those that compute are busy for hours, and requests should not wait for it."""

    def __init__(self, *looks: Callable[[], None], every_s: float = LOOK_EVERY_S) -> None:
        self._looks, self._every_s = looks, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="regular-looks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        failing: dict[Callable[[], None], type[Exception]] = {}
        while True:
            for look in self._looks:
                try:
                    look()
                except Exception as error:
                    # without its thread, nothing would be looked at until the next start
                    if failing.get(look) is not type(error):  # one that lasts is said once
                        log.exception("the regular looks continue after an error")
                    failing[look] = type(error)
                else:
                    if failing.pop(look, None) is not None:
                        log.info("a regular look that failed works again")
            if self._stop.wait(self._every_s):
                return
