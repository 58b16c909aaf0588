"""What changes while the server runs and no request tells it: revocations of other processes, and time."""

from __future__ import annotations

import logging
import threading
from typing import Final

from analyst_server.services import certificates
from analyst_server.services.analyst import Analyst
from analyst_server.services.certificate_end import CertificateEnd
from protocol.errors import OdcError

log = logging.getLogger(__name__)

FOLLOWED_EVERY_S: Final = 2.0
"""For so long a certificate that was revoked at another process may still be taken here."""


class FollowedRevocations:
    """A thread of its own: those that compute are busy for hours, and requests should not wait for it."""

    def __init__(self, analyst: Analyst, every_s: float = FOLLOWED_EVERY_S) -> None:
        self._analyst, self._every_s = analyst, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="revocations", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        certificate_end = CertificateEnd(self._analyst)
        certificate_end.look()
        while not self._stop.wait(self._every_s):
            certificate_end.look()
            try:
                certificates.load_revocations(self._analyst)
            except OdcError as error:
                log.warning("revocations of other processes are not seen now: %s", error.detail)
