"""The analyst's certificate ends one day: the log says so in time, also where nobody collects metrics."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from analyst_server.services.analyst import Analyst

log = logging.getLogger(__name__)

_DAY_S: Final = 86_400
SAID_WITHIN_S: Final = 30 * _DAY_S
"""The month within which a certificate is renewed."""


@dataclass
class CertificateEnd:
    """Says once a day, within the last month, when the analyst's certificate ends."""

    analyst: Analyst
    _said_at: float = float("-inf")

    def look(self) -> None:
        """Say it, if it is time to; for whoever calls this every few seconds."""
        now = self.analyst.clock()
        left_s = self.analyst.certificate.not_valid_after_utc.timestamp() - now
        if left_s > SAID_WITHIN_S or now - self._said_at < _DAY_S:
            return
        self._said_at = now
        if left_s <= 0:
            log.error(
                "this analyst's certificate has ended, and no institution can connect: odc-analyst renew"
            )
        else:
            log.warning("this analyst's certificate ends in %d days: odc-analyst renew", left_s // _DAY_S)
