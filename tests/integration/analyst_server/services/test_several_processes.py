"""Several processes at one database lose no step, take none twice, and claim no round twice.

SQLite has one writer at a time; at PostgreSQL they really write side by side.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pytest

from analyst_server.services import api_tokens, certificates, judging, latecomers, prepare, rounds
from analyst_server.services.analyst import Analyst
from analyst_server.services.ingest import Ingest
from analyst_server.services.meter import Meter, counts_of
from analyst_server.services.regular_looks import RegularLooks
from analyst_server.store import Collaboration, Downlink, Records
from metering.counts import Counts, Flow
from metering.server import Purpose
from protocol.errors import LimitExceededError, StorageBusyError
from protocol.identity import TrustRoot, certificate_request
from protocol.ledger import LedgerEntry, check_chain
from protocol.messages import Renewal
from protocol.states import Event
from protocol.tokens import TokenRequest, new_token, token_digest
from tests.harness import certificates as fakes
from tests.harness.certificates import CONSORTIUM_ID, NOW
from tests.harness.computing import LEASE_S
from tests.harness.rows import collaboration, put, uplink
from tests.harness.world import DRAFT, HOSPITAL, LEAD, World, identity, make_terms, make_uplink, signed

T = TypeVar("T")
PROCESSES = 6
LIMIT_S = 60
"""Longer than any of this takes; it only ends a test that would hang."""
ID = f"{1:032x}"
SOME = Counts(Flow(100, 0, 80, 50, 3), Flow(200, 7, 150, 120, 4))


@pytest.fixture
def processes(world: World) -> Iterator[list[Analyst]]:
    """The analyst, as several processes see it: each with connections of its own."""
    made = [
        replace(world.analyst, records=Records(world.database), leases=world.leases())
        for _ in range(PROCESSES)
    ]
    for one in made:
        with one.records.begin() as unit:  # connected now, so that they really meet
            unit.revocations()
    yield made
    for one in made:
        one.records.dispose()


def at_once(*actions: Callable[[], T]) -> list[T]:
    """Take steps at the same time, each once more if it is told to come again, as a client does."""
    together = threading.Barrier(len(actions))

    def take(action: Callable[[], T]) -> T:
        together.wait(LIMIT_S)
        for _ in range(PROCESSES):
            try:
                return action()
            except StorageBusyError:
                continue
        return action()

    with ThreadPoolExecutor(len(actions)) as threads:
        return list(threads.map(take, actions, timeout=LIMIT_S))


def released(**changed: Any) -> Collaboration:
    """Return the row of a released round, whose terms can be read."""
    return collaboration(state="released", terms=signed("analyst", make_terms()), **changed)


def steps(world: World) -> list[str]:
    """Return the events of the ledger, once it was found to be one chain."""
    with world.records.begin() as unit:
        rows = unit.ledger(world.id)
    entries = [LedgerEntry(**{name: getattr(row, name) for name in LedgerEntry.model_fields}) for row in rows]
    assert [row.digest for row in rows] == check_chain(world.id, entries)[1:]
    return [row.event for row in rows]


def test_what_many_sign_at_once_is_one_chain(world: World, processes: Sequence[Analyst]) -> None:
    parties = tuple(f"hospital-{number}" for number in range(PROCESSES))
    world.publish(make_terms(parties=(LEAD, *parties)))
    at_once(
        *(
            partial(prepare.accept, one, identity(party), world.id, world.acceptance(party))
            for one, party in zip(processes, parties, strict=True)
        )
    )
    assert steps(world) == ["publish terms", *["accept terms"] * PROCESSES]
    with world.records.begin() as unit:
        signed_by = {row.party for row in unit.members(world.id) if row.acceptance is not None}
    assert signed_by == set(parties)


def test_terms_that_are_published_twice_at_once_are_one_round(processes: Sequence[Analyst]) -> None:
    draft = json.dumps({**DRAFT, "parties": [LEAD, LEAD[:-1]], "late_consumers": [LEAD[:-1]]}).encode()
    found = at_once(*(partial(prepare.create_once, one, ID, draft) for one in processes))
    assert sorted(found) == [False] * (PROCESSES - 1) + [True]


def test_a_round_is_claimed_once(world: World, processes: Sequence[Analyst]) -> None:
    world.until_sealed()
    found = at_once(*(partial(rounds.claim, one, f"worker-{n}", LEASE_S) for n, one in enumerate(processes)))
    assert [one for one in found if one] == [world.id]
    assert steps(world).count(Event.BEGIN_ALIGNMENT) == 1


def test_a_model_is_claimed_once_to_be_judged(world: World, processes: Sequence[Analyst]) -> None:
    put(world.records, released(unjudged={"folder": "f"}))
    found = at_once(*(partial(judging.claim, one, f"worker-{n}", LEASE_S) for n, one in enumerate(processes)))
    assert [one for one in found if one] == [ID]


def test_a_late_consumer_is_claimed_once(world: World, processes: Sequence[Analyst]) -> None:
    put(
        world.records,
        released(kept={"target": 1}),
        uplink(1, receipt=b"r", received_at=1),
    )
    found = at_once(
        *(partial(latecomers.claim, one, f"worker-{n}", LEASE_S) for n, one in enumerate(processes))
    )
    assert [one.id for one in found if one] == [ID]


def test_a_late_consumer_whose_downlink_is_just_written_is_not_claimed_again(
    world: World, processes: Sequence[Analyst]
) -> None:
    put(
        world.records,
        released(kept={"target": 1}, lease_owner="worker-1", lease_until=1),
        uplink(1, receipt=b"r", received_at=1),
    )
    other = replace(processes[1], leases=world.leases())
    other.leases.hold("worker-1")
    other.leases.give_up("worker-1")
    (world.directory / "workers" / "worker-1.lock").touch()  # it has ended: its rounds may be claimed
    found: list[object] = []
    claiming = threading.Thread(target=lambda: found.append(latecomers.claim(other, "worker-2", LEASE_S)))
    with processes[0].records.begin(write=True) as unit:
        row = unit.collaboration(ID)
        assert row is not None
        row.lease_owner = row.lease_until = None
        unit.put_downlink(Downlink(collaboration_id=ID, party=HOSPITAL, manifest=b"m", fetched_at=None))
        claiming.start()
        claiming.join(0.2)  # it has looked by now, and stands before the lock, or has passed over it
    claiming.join(LIMIT_S)
    assert found == [None]


def test_of_the_requests_of_a_party_one_stays(world: World, processes: Sequence[Analyst]) -> None:
    key = fakes.shared_member("institution", HOSPITAL).key
    csr = certificate_request(key, HOSPITAL)

    def renew(one: Analyst, number: int) -> object:
        message = Renewal(consortium_id=CONSORTIUM_ID, renewal_id=f"{number:032x}", csr=csr, chain=())
        return certificates.request_renewal(one, identity(HOSPITAL), signed(HOSPITAL, message))

    at_once(*(partial(renew, one, number) for number, one in enumerate(processes)))
    assert len(certificates.pending(world.analyst, identity(LEAD))["enrolments"]) == 1


def test_a_party_has_no_more_tokens_than_it_may(
    world: World, processes: Sequence[Analyst], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_tokens, "MAX_TOKENS_OF_A_PARTY", 3)
    pem = fakes.shared_member("institution", HOSPITAL).pem

    def create(one: Analyst) -> bool:
        wanted = TokenRequest(digest=token_digest(new_token()), expires_at=NOW + 1000)
        try:
            return api_tokens.create(one, identity(HOSPITAL), pem, wanted)[1]
        except LimitExceededError:
            return False

    assert sum(at_once(*(partial(create, one) for one in processes))) == 3


def test_of_uplinks_begun_at_once_one_can_be_completed(world: World, processes: Sequence[Analyst]) -> None:
    world.until_anchored()
    sent = [make_uplink(world.terms, HOSPITAL, seed=number) for number in range(PROCESSES)]
    at_once(
        *(
            partial(Ingest(one).begin, identity(HOSPITAL), world.id, each.body)
            for one, each in zip(processes, sent, strict=True)
        )
    )
    assert steps(world).count(Event.BEGIN_UPLINK) == PROCESSES
    last = sent[0]
    world.restart()
    world.send(last)
    with world.records.begin() as unit:
        complete = [row for row in unit.uplinks_of(world.id, HOSPITAL) if row.receipt is not None]
    assert len(complete) == 1


def test_counts_of_several_processes_are_added_up(world: World, processes: Sequence[Analyst]) -> None:
    world.publish()
    meters = [Meter(one.records, "kernel", one.clock) for one in processes]
    for number, meter in enumerate(meters):
        for party in (LEAD, HOSPITAL) if number % 2 else (HOSPITAL, LEAD):
            meter.add(Purpose("uplink", party, world.id), SOME)
    at_once(*(meter.flush for meter in meters))
    with world.records.begin() as unit:
        found = {row.party: counts_of(row) for row in unit.traffic(world.id)}
    total = sum([SOME] * PROCESSES, Counts())
    assert found == {LEAD: total, HOSPITAL: total}


def test_what_one_process_has_revoked_is_revoked_at_another(
    world: World, processes: Sequence[Analyst]
) -> None:
    root = TrustRoot(world.analyst.root.certificate)
    other = replace(processes[1], root=root)
    looks = RegularLooks(partial(certificates.follow_revocations, other), every_s=0.01)
    looks.start()
    try:
        crl = fakes.revoke(fakes.shared_root(), fakes.shared_member().certificate, number=7)
        certificates.publish_revocations(world.analyst, identity(LEAD), crl)
        deadline = time.monotonic() + LIMIT_S
        while root.revocations is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert root.revocations.der == crl
    finally:
        looks.stop()
        world.analyst.root.revocations = None
