"""The thread that delivers notices. No request and no round waits for it, nor it for one of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Literal

from analyst_server.notices.webhook import Delivery, Webhook
from analyst_server.services.analyst import Analyst
from analyst_server.services.waits import Watcher
from analyst_server.store import NoticeRow
from protocol.errors import OdcError

log = logging.getLogger(__name__)

Outcome = Literal["delivered", "failed", "given-up"]
LOOK_S: Final = 1.0
"""From one look at the records to the next."""
RETRY_AFTER_S: Final = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
"""After each attempt that failed; after the last a notice is given up. The schedule of the specification."""
CLAIM_S: Final = 15
"""For so long no other server, and no later start of this one, sends what is being sent: longer than an
attempt takes."""


class Notifier:
    """Looks for whom collaborations wait, and sends what was left for the receiver."""

    def __init__(
        self,
        analyst: Analyst,
        webhook: Webhook,
        look_s: float = LOOK_S,
        on_attempt: Callable[[Outcome], None] = lambda _outcome: None,
    ) -> None:
        self._analyst, self._webhook, self._look_s = analyst, webhook, look_s
        self._watcher, self._on_attempt = Watcher(analyst), on_attempt
        self._stop = threading.Event()
        # a daemon: a look-up of a name cannot be cut off, and no end of the server waits for that
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        log.info("whoever is waited for is told to %s", self._webhook.host)
        self._thread.start()

    def stop(self) -> None:
        """Cut off the attempt that is under way; it is made again at the next start."""
        self._stop.set()
        self._webhook.cut_off()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
            except OdcError as error:
                log.error("nobody is told of what waits: %s", error.detail)
            except Exception:
                log.exception("the notifier continues after an error")
            self._stop.wait(self._look_s)

    def look(self) -> None:
        """Leave notices of what is new, and send all that are due until one fails."""
        self._watcher.look()
        while not self._stop.is_set() and (claimed := self._claim()) is not None:
            if not self._send(claimed):
                return

    def _claim(self) -> NoticeRow | None:
        """Return the next notice; no other server sends it now. A process that is killed only delays it."""
        now = self._analyst.clock()
        with self._analyst.records.begin() as unit:  # looking costs no write lock
            if unit.due_notice(now) is None:
                return None
        with self._analyst.records.begin(write=True) as unit:
            row = unit.due_notice(now)
            if row is not None:
                row.attempts, row.next_at = row.attempts + 1, now + CLAIM_S
            return row

    def _send(self, notice: NoticeRow) -> bool:
        found = self._webhook.send(notice.id, notice.body.encode(), self._analyst.clock())
        outcome = self._outcome(notice, found)
        with self._analyst.records.begin(write=True) as unit:
            row = unit.notice(notice.id)
            if row is not None and outcome == "failed":
                pause_s = 0 if self._stop.is_set() else RETRY_AFTER_S[row.attempts - 1]
                row.attempts -= int(self._stop.is_set())  # we have cut it off ourselves
                row.next_at = self._analyst.clock() + pause_s
            elif row is not None:
                unit.forget_notice(row.id)
        self._on_attempt(outcome)
        level = logging.INFO if outcome == "delivered" else logging.WARNING
        log.log(level, "notice %s: %s, %s", notice.id, outcome, found.text)
        return outcome == "delivered"

    def _outcome(self, notice: NoticeRow, found: Delivery) -> Outcome:
        if found.is_done:
            return "delivered"
        if self._stop.is_set():
            return "failed"
        is_last = notice.attempts > len(RETRY_AFTER_S)
        return "given-up" if found.is_unwanted or is_last else "failed"
