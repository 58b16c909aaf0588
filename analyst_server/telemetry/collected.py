"""What is looked up when Prometheus asks: records, disk, connections, certificates."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from analyst_server.api.doors import Doors, Refusal
from analyst_server.services import overview
from analyst_server.services.analyst import Analyst
from analyst_server.services.awaited import ACTS
from analyst_server.services.overview import HELD, Overview, Work
from analyst_server.services.readiness import Readiness
from analyst_server.telemetry.measures import PREFIX
from protocol.errors import OdcError
from protocol.states import ENDED, State

log = logging.getLogger(__name__)

FRESH_S: Final = 60.0
"""For so long the size of all blobs is given again: each of their files is looked at."""
STATES: Final = (*State, HELD)


@dataclass(eq=False)
class Collected(Collector):
    """Looks up what there is. A part that cannot be looked at is left out, and the log says why.

    Parameters
    ----------
    computes : callable
        Returns whether a thread takes up rounds.
    under_way : callable
        Returns how many requests are being answered.
    """

    analyst: Analyst
    doors: Doors
    readiness: Readiness
    computes: Callable[[], bool]
    under_way: Callable[[], int]
    now: Callable[[], float] = time.monotonic
    _stored_bytes: int = 0
    _stored_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what is not described is not looked up when it is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield everything that can be looked at."""
        for part in (
            self._of_records,
            self._of_disk,
            self._of_connections,
            self._of_certificates,
            self._of_parts,
        ):
            try:
                yield from list(part())
            except (OSError, OdcError) as error:
                log.error("metrics: %s could not be looked at: %s", part.__name__.removeprefix("_of_"), error)

    def _of_records(self) -> Iterator[Metric]:
        found = overview.look(self.analyst)
        yield _gauge(
            "collaborations",
            "Collaborations",
            "state",
            {one: found.collaborations.get(one, 0) for one in STATES},
        )
        yield _unchanged(found)
        yield _gauge(
            "awaited_actions",
            "Actions of parties or of the analyst that collaborations wait for",
            "action",
            {act: found.awaited.get(act, 0) for act in ACTS},
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_uplinks_unfinished",
            "Parties that have begun an uplink and completed none",
            found.unfinished_uplinks,
        )
        yield _gauge(
            "compute_queue",
            "What waits for a compute process",
            "work",
            {work: found.queue[work] for work in get_args(Work)},
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_certificate_requests_pending",
            "Requests for certificates that wait for the lead institution",
            found.certificate_requests,
        )

        with self.analyst.records.begin() as unit:
            pending = unit.count_notices()
        yield GaugeMetricFamily(f"{PREFIX}_webhook_pending", "Notices that are not delivered yet", pending)

    def _of_disk(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            f"{PREFIX}_blob_bytes", "Bytes of all blobs, whole and partial", self._bytes_of_blobs()
        )
        if (free := self.analyst.blobs.free_bytes()) is not None:
            yield GaugeMetricFamily(f"{PREFIX}_disk_free_bytes", "Bytes free where the blobs are", free)

    def _bytes_of_blobs(self) -> int:
        with self._lock:
            if self.now() - self._stored_at >= FRESH_S:
                self._stored_bytes, self._stored_at = self.analyst.blobs.stored_bytes(), self.now()
            return self._stored_bytes

    def _of_connections(self) -> Iterator[Metric]:
        of = {"certificate": self.doors.members, "stranger": self.doors.strangers}
        yield _gauge("connections", "Open connections", "of", of)
        refused = CounterMetricFamily(
            f"{PREFIX}_connections_refused",
            "Connections refused or ended at the doors",
            labels=["reason"],
        )
        for reason in get_args(Refusal):
            refused.add_metric([reason], self.doors.refused[reason])
        yield refused
        yield GaugeMetricFamily(
            f"{PREFIX}_requests_under_way", "Requests that are being answered", self.under_way()
        )

    def _of_certificates(self) -> Iterator[Metric]:
        ends = {"analyst": self.analyst.certificate, "root": self.analyst.root.certificate}
        yield _gauge(
            "certificate_not_after_timestamp_seconds",
            "Unix time at which a certificate ends",
            "certificate",
            {name: one.not_valid_after_utc.timestamp() for name, one in ends.items()},
        )

    def _of_parts(self) -> Iterator[Metric]:
        parts = self.readiness.look(computes=self.computes())
        works = {part: found == "ok" for part, found in parts.items()}
        yield _gauge("ready", "1 if a part works, as /readyz says", "part", works)


def _gauge(name: str, documentation: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", documentation, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _unchanged(found: Overview) -> GaugeMetricFamily:
    """Return since when the oldest collaborations have not changed; states that none is in have no value."""
    open_ones = {
        state: found.unchanged_since[state]
        for state in STATES
        if state not in ENDED and found.collaborations.get(state)
    }
    return _gauge(
        "collaboration_unchanged_since_timestamp_seconds",
        "Unix time of the last step of the collaboration that has not changed for longest",
        "state",
        open_ones,
    )
