"""When somebody begins to be waited for, whoever watches this server is told of it once.

What was told, and what is still to be delivered, stand in the records and are written in one transaction: a
server that is killed tells neither twice nor never. Nothing here is called by a request. The one thread that
calls it looks at the records, so that it also sees what commands and other servers have done.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from analyst_server.blobs import Blobs
from analyst_server.services.analyst import Analyst, outline, readable_outline
from analyst_server.services.awaited import THE_ANALYST
from analyst_server.services.overview import awaited_in
from analyst_server.store import Collaboration, NoticeRow, Progress, Unit
from protocol.states import ENDED, Event, State

COLLABORATION_WAITS: Final = "collaboration.waiting"
CERTIFICATE_WAITS: Final = "certificate.waiting"
THE_LEAD: Final = "the lead institution"
ACTS_TOLD: Final = (
    "accept-terms",
    "change-terms",
    "create-anchor",
    "contribute",
    "release",
    "resume",
    "share-anchor",
    "receive",
    "close",
    "approve",
)
"""What somebody may have to do."""
MOST_NAMED: Final = 20
"""Of those who are waited for, in one notice; the others are counted."""
MOST_PENDING: Final = 1000
"""Notices that wait to be delivered. While there are so many, none is added, and nothing counts as told."""
AGAIN_AFTER_S: Final = 30.0
"""After so long a collaboration is looked at again that has taken no step: a refusal of the terms is none."""
_CERTIFICATES: Final = ""
"""Under this name is written down who was told of requests for certificates."""


class Wait(NamedTuple):
    """Somebody who has to act; ``turn`` tells apart two times that the same is to be done."""

    who: str
    act: str
    turn: str = ""

    @property
    def key(self) -> str:
        return f"{self.act} {self.who} {self.turn}".rstrip()


@dataclass
class Watcher:
    """Finds who is newly waited for, and leaves a notice of it."""

    analyst: Analyst
    monotonic: Callable[[], float] = time.monotonic
    _seen: dict[str, tuple[Progress, float]] = field(default_factory=dict)
    """How far each collaboration was, and when it is to be looked at again."""

    def look(self) -> int:
        """Look at everything that may have changed; return how many notices were left."""
        now_s = self.monotonic()
        with self.analyst.records.begin() as unit:
            if unit.count_notices() >= MOST_PENDING:
                return 0
            found = {one.collaboration_id: one for one in unit.progress(unit.collaborations_but_in(ENDED))}
            due = [one for one in found if self._is_due(found[one], now_s)]
            is_news = _are_other(unit, _CERTIFICATES, _requests(unit))
            ended = unit.told_about() - {_CERTIFICATES, *found}
        left = int(is_news and self._tell_of_certificates())
        for one in due:
            left += self._tell_of(one)
            self._seen[one] = found[one], now_s + AGAIN_AFTER_S
        if ended:
            with self.analyst.records.begin(write=True) as unit:
                unit.forget_told(ended)
        self._seen = {one: seen for one, seen in self._seen.items() if one in found}
        return left

    def _is_due(self, progress: Progress, now_s: float) -> bool:
        seen, again_at_s = self._seen.get(progress.collaboration_id, (None, 0.0))
        return seen != progress or now_s >= again_at_s

    def _tell_of(self, collaboration_id: str) -> bool:
        with self.analyst.records.begin() as unit:  # looking costs no write lock
            collaboration = unit.collaboration(collaboration_id)
            if collaboration is None or readable_outline(collaboration) is None:  # a newer server tells
                return False
            waits = waited_for(unit, collaboration, self.analyst.blobs)
            if not _are_other(unit, collaboration_id, {wait.key for wait in waits}):
                return False
        with self.analyst.records.begin(write=True) as unit:
            collaboration = unit.collaboration(collaboration_id)  # which locks it: of two servers one tells
            if collaboration is None:
                return False
            about = {
                "collaboration_id": collaboration.id,
                "title": collaboration.title,
                "state": collaboration.state,
            }
            waits = waited_for(unit, collaboration, self.analyst.blobs)
            since = {wait.key: collaboration.updated_at for wait in waits}
            rows = {wait.key: {"who": wait.who, "act": wait.act} for wait in waits}
            return self._tell(unit, collaboration_id, COLLABORATION_WAITS, about, since, rows)

    def _tell_of_certificates(self) -> bool:
        with self.analyst.records.begin(write=True) as unit:
            unit.alone_with("told of certificates")
            requests = list(unit.open_enrolments((0, ""), MOST_PENDING))
            since = {one.invitation_id: one.created_at for one in requests}
            rows = {
                one.invitation_id: {"who": THE_LEAD, "act": "approve", "for": one.party, "role": one.role}
                for one in requests
            }
            return self._tell(unit, _CERTIFICATES, CERTIFICATE_WAITS, {}, since, rows)

    def _tell(
        self,
        unit: Unit,
        about: str,
        kind: str,
        data: Mapping[str, Any],
        since: Mapping[str, int],
        rows: Mapping[str, Mapping[str, str]],
    ) -> bool:
        """Note who is waited for now, and leave a notice if there is anybody new; return whether there is."""
        told, now = unit.told(about), self.analyst.clock()
        current = {key: told.get(key, at) for key, at in since.items()}
        unit.put_told(about, current)
        if current.keys() <= told.keys():
            return False
        # the new ones first: of many only some are named
        order = sorted(current, key=lambda key: (key in told, current[key], key))
        named = [{**rows[key], "since": current[key]} for key in order[:MOST_NAMED]]
        value = {**data, "waiting_for": named, "others": len(order) - len(named)}
        unit.add(_notice(kind, value, now))
        return True


def trial_notice(now: int) -> NoticeRow:
    """Return a notice that says nothing, and is in no record."""
    return _notice("test", {"message": "a test by the operator of the analyst; nobody is waited for"}, now)


def waited_for(unit: Unit, collaboration: Collaboration, blobs: Blobs) -> list[Wait]:
    """Return which people have to act in a collaboration, those of a released one included.

    A status names no one to fetch or to close: there the round is done.
    """
    turns = {"resume": Event.FAIL, "release": Event.BEGIN_TRAINING}
    found = [
        Wait(one.who, one.act, _turn(unit, collaboration, turns.get(one.act)))
        for one in awaited_in(unit, collaboration, blobs)
        if one.is_a_person
    ]
    return [*found, *(_after_the_release(unit, collaboration) if not found else ())]


def _turn(unit: Unit, collaboration: Collaboration, event: Event | None) -> str:
    return "" if event is None else str(unit.last_index_of(collaboration.id, event))


def _after_the_release(unit: Unit, collaboration: Collaboration) -> Iterator[Wait]:
    if collaboration.now_in is not State.RELEASED:
        return
    downlinks = unit.downlink_states(collaboration.id)
    yield from (Wait(one.party, "receive") for one in downlinks if not one.is_fetched)
    late = outline(collaboration).late_consumers
    are_all = late <= {one.party for one in downlinks} and all(one.is_fetched for one in downlinks)
    if are_all and not collaboration.is_judging:
        yield Wait(THE_ANALYST, "close")


def _requests(unit: Unit) -> set[str]:
    return {one.invitation_id for one in unit.open_enrolments((0, ""), MOST_PENDING)}


def _are_other(unit: Unit, about: str, keys: set[str]) -> bool:
    return unit.told(about).keys() != keys


def _notice(kind: str, data: Mapping[str, Any], now: int) -> NoticeRow:
    body = {"type": kind, "timestamp": datetime.fromtimestamp(now, UTC).isoformat(), "data": data}
    return NoticeRow(
        id=f"msg_{secrets.token_hex(12)}",
        created_at=now,
        body=json.dumps(body, ensure_ascii=False),
        attempts=0,
        next_at=now,
    )
