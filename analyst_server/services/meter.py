"""The analyst's side of the count: bytes by party, collaboration and kind, kept as sums.

Connections report here what they carried. It is added up in memory and written every few seconds in
one transaction, so that no request waits for it; a server that is killed loses the last few seconds of
counts, and nothing else. With the counts goes when a member was last seen, so that a request that only reads
writes nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from analyst_server.store import Member, Records, TrafficRow, Unit
from metering.counts import Counter, Counts, Flow
from metering.server import Purpose
from protocol.errors import StorageError

log = logging.getLogger(__name__)

FLUSH_S: Final = 2.0
_COLUMNS: Final = tuple(
    (direction, field.name)
    for direction in ("up", "down")
    for field in fields(Flow)
    if (direction, field.name) != ("up", "retransmitted_bytes")  # only its sender can count it
)


@dataclass
class Meter:
    """Adds up what connections carried. Safe to use from several threads."""

    records: Records
    counter: Counter
    clock: Callable[[], int]
    on_counts: Callable[[Purpose, Counts], None] = lambda _purpose, _counts: None
    """Told of everything that is added."""
    _sums: defaultdict[Purpose, Counts] = field(default_factory=lambda: defaultdict(Counts))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def add(self, purpose: Purpose, counts: Counts) -> None:
        """Add what a connection carried for a request."""
        if counts == Counts():
            return
        self.on_counts(purpose, counts)
        with self._lock:
            self._sums[purpose] += counts

    def start(self) -> None:
        """Write regularly until `stop`."""
        self._thread = threading.Thread(target=self._run, name="meter")
        self._thread.start()

    def stop(self) -> None:
        """Write what is left."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def flush(self) -> None:
        """Write what was added since the last time; keep it if that fails."""
        with self._lock:
            sums, self._sums = self._sums, defaultdict(Counts)
        if not sums:
            return
        try:
            with self.records.begin() as unit:
                resolved = _resolved(unit, sums)
            with self.records.begin(write=True) as unit:
                # in one order, that of the members elsewhere: then no two writers wait for each other
                for purpose, counts in sorted(resolved.items(), key=_place):
                    _add(unit, purpose, counts, self.counter)
                    if member := _member_of(unit, purpose):
                        member.last_seen_at = self.clock()
        except Exception:
            with self._lock:
                for purpose, counts in sums.items():
                    self._sums[purpose] += counts
            raise

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stop.wait(FLUSH_S)
            try:
                self.flush()
            except StorageError as error:  # counts are kept until the database works again
                log.error("the meter could not write: %s; it tries again", error.detail)
            except Exception:  # the database may be away; counts are kept until it is back
                log.exception("the meter could not write")


def _resolved(unit: Unit, sums: Mapping[Purpose, Counts]) -> dict[Purpose, Counts]:
    """Give each sum its party and collaboration; what a peer has made up is not kept as a name."""
    found: defaultdict[Purpose, Counts] = defaultdict(Counts)
    for purpose, counts in sums.items():
        party = purpose.party
        if not party and purpose.invitation_id:
            enrolled = unit.enrolment(purpose.invitation_id)
            party = enrolled.party if enrolled else ""
        collaboration_id = purpose.collaboration_id
        if not collaboration_id and purpose.upload_id:
            uplink = unit.uplink(purpose.upload_id)
            collaboration_id = uplink.collaboration_id if uplink else ""
        of_round = Purpose(purpose.kind, party, collaboration_id)
        found[of_round if _member_of(unit, of_round) else Purpose(purpose.kind, party, "")] += counts
    return found


def _place(one: tuple[Purpose, Counts]) -> tuple[str, str, str]:
    purpose, _ = one
    return purpose.collaboration_id, purpose.party, purpose.kind


def _member_of(unit: Unit, purpose: Purpose) -> Member | None:
    return unit.member(purpose.collaboration_id, purpose.party) if purpose.collaboration_id else None


def _add(unit: Unit, purpose: Purpose, counts: Counts, counter: Counter) -> None:
    row = unit.traffic_of(purpose.party, purpose.collaboration_id, purpose.kind)
    added = {f"{direction}_{name}": getattr(getattr(counts, direction), name) for direction, name in _COLUMNS}
    if row is None:
        key = {
            "party": purpose.party,
            "collaboration_id": purpose.collaboration_id,
            "kind": purpose.kind,
        }
        unit.add(TrafficRow(**key, counter=counter, **added))
        return
    for column, value in added.items():
        setattr(row, column, getattr(row, column) + value)
    if counter == "transport":  # a sum is no better than the worse of its counters
        row.counter = counter


def counts_of(row: TrafficRow) -> Counts:
    """Return a stored sum."""
    both: dict[str, dict[str, int]] = {"up": {}, "down": {}}
    for direction, name in _COLUMNS:
        both[direction][name] = getattr(row, f"{direction}_{name}")
    return Counts(Flow(**both["up"]), Flow(**both["down"]))
