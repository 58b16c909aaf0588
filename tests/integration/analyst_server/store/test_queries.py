"""What the services ask of the records, in the order they need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import IntegrityError

from analyst_server.store import Downlink, Enrolled, LedgerRow, Member, Records, Unit
from protocol.errors import StorageBusyError
from protocol.states import Event
from tests.harness.rows import collaboration, connection_of, put, uplink


@contextmanager
def asked() -> Iterator[list[tuple[str, Any]]]:
    """Yield the statements that are sent to a database meanwhile, each with its parameters."""
    found: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        found.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_collaborations_are_listed_oldest_first(records: Records) -> None:
    put(records, collaboration(2), collaboration(1))
    with records.begin() as unit:
        assert [row.created_at for row in unit.collaborations()] == [1, 2]


def test_collaborations_of_a_party_are_those_it_is_a_member_of(records: Records) -> None:
    put(records, collaboration(1), collaboration(2), Member(collaboration_id=f"{2:032x}", party="b"))
    with records.begin() as unit:
        assert [row.created_at for row in unit.collaborations("b")] == [2]


def test_collaborations_in_a_state_come_by_their_last_change(records: Records) -> None:
    put(
        records,
        collaboration(1, state="sealed", updated_at=9),
        collaboration(2, state="sealed", updated_at=5),
        collaboration(3, state="draft"),
    )
    with records.begin() as unit:
        assert [row.created_at for row in unit.in_states(["sealed"])] == [2, 1]


def test_members_come_by_name(records: Records) -> None:
    members = [Member(collaboration_id=f"{1:032x}", party=party) for party in ("c", "ab", "a", "b", "a-c")]
    put(records, collaboration(), *members)
    with records.begin() as unit:
        assert [row.party for row in unit.members(f"{1:032x}")] == ["a", "a-c", "ab", "b", "c"]


def test_received_uplinks_are_those_with_a_receipt_by_party(records: Records) -> None:
    put(
        records,
        collaboration(),
        uplink(1, party="b", receipt=b"r"),
        uplink(2, party="a"),
        uplink(3, party="a", receipt=b"r"),
    )
    with records.begin() as unit:
        assert [int(row.id, 16) for row in unit.received_uplinks(f"{1:032x}")] == [3, 1]


def test_uplinks_of_a_party_come_oldest_first(records: Records) -> None:
    put(records, collaboration(), uplink(2), uplink(1), uplink(3, party="b"))
    with records.begin() as unit:
        assert [row.created_at for row in unit.uplinks_of(f"{1:032x}", "hospital-a")] == [1, 2]


def test_a_downlink_takes_the_place_of_an_earlier_one(records: Records) -> None:
    put(records, collaboration())
    for manifest in (b"one", b"two"):
        with records.begin(write=True) as unit:
            unit.put_downlink(
                Downlink(collaboration_id=f"{1:032x}", party="a", manifest=manifest, fetched_at=None)
            )
    with records.begin() as unit:
        row = unit.downlink(f"{1:032x}", "a")
    assert row is not None
    assert row.manifest == b"two"


def enrolled(number: int, certificate: bytes | None = None) -> Enrolled:
    return Enrolled(
        invitation_id=f"{number:032x}",
        role="institution",
        party="a",
        request=b"r",
        certificate=certificate,
        created_at=number,
    )


def open_ones(unit: Unit, after: tuple[int, str] = (-1, ""), most: int = 10) -> list[int]:
    return [one.created_at for one in unit.open_enrolments(after, most)]


def test_open_enrolments_are_those_without_an_answer_from_a_place_on(records: Records) -> None:
    answered = [enrolled(2, certificate=b"pem"), enrolled(5)]
    answered[1].rejected = "why"
    put(records, enrolled(1), *answered, enrolled(3), enrolled(4))
    with records.begin() as unit:
        assert open_ones(unit) == [1, 3, 4]
        assert open_ones(unit, most=2) == [1, 3]
        assert open_ones(unit, after=(1, f"{1:032x}")) == [3, 4]
        assert unit.enrolled_parties() == {"a"}


def entry(index: int, **changed: Any) -> LedgerRow:
    values: dict[str, Any] = {
        "collaboration_id": f"{1:032x}",
        "index": index,
        "at": 5,
        "event": "accept terms",
        "party": None,
        "state": "enrolling",
        "previous": bytes(32),
        "digest": bytes(32),
    }
    return LedgerRow(**{**values, **changed})


def test_the_ledger_comes_in_order_from_where_it_is_asked(records: Records) -> None:
    put(records, collaboration(), entry(0), entry(2, party="a"), entry(1, party="a"))
    with records.begin() as unit:
        assert [row.index for row in unit.ledger(f"{1:032x}")] == [0, 1, 2]
        assert [row.index for row in unit.ledger(f"{1:032x}", start=1, limit=1)] == [1]
        last = unit.last_of_ledger(f"{1:032x}")
        assert last is not None
        assert last.index == 2
        assert unit.count_of_ledger(f"{1:032x}", "a") == 2
        assert unit.last_of_ledger("x") is None


def test_a_place_in_the_ledger_is_given_once(records: Records) -> None:
    put(records, collaboration(), entry(0))
    with pytest.raises((IntegrityError, StorageBusyError)):  # the second: another process has added it
        put(records, entry(0, event="cancel"))


def test_the_excluded_are_found_without_the_steps_of_the_others(on_disk: Records) -> None:
    others = (entry(number, party=f"party-{number}") for number in range(5))
    put(on_disk, collaboration(), *others, entry(5, party="a", event="exclude party"))
    with asked() as sent, on_disk.begin() as unit:
        assert unit.excluded(f"{1:032x}") == {"a"}
    statement, parameters = sent[-1]
    with connection_of(on_disk) as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    assert ["COVERING INDEX ix_ledger_excluded" in row.detail for row in plan] == [True]


def count(unit: Unit) -> Any:
    return unit.count_of_ledger(f"{1:032x}", "a")


def has_step(unit: Unit) -> Any:
    return unit.has_step(f"{1:032x}", "a", Event.ACCEPT_TERMS)


def last_step(unit: Unit) -> Any:
    return unit.last_step_of(f"{1:032x}", "a", "accept terms")


@pytest.mark.parametrize("question", [count, has_step, last_step])
def test_what_a_party_has_done_is_found_without_the_steps_of_the_others(
    on_disk: Records, question: Callable[[Unit], Any]
) -> None:
    put(on_disk, collaboration(), *(entry(number, party=f"party-{number}") for number in range(5)))
    with asked() as sent, on_disk.begin() as unit:
        question(unit)
    statement, parameters = sent[-1]
    with connection_of(on_disk) as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    lines = [row.detail for row in plan if "ledger" in row.detail]
    assert len(lines) == 1
    assert "(collaboration_id=? AND party=?" in lines[0]


def is_counted_by_an_index(records: Records, sent: list[tuple[str, Any]]) -> bool:
    statement, parameters = sent[-1]
    with connection_of(records) as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    return ["COVERING INDEX" in row.detail for row in plan] == [True]


def test_complete_uplinks_are_counted_without_reading_them(on_disk: Records) -> None:
    put(on_disk, collaboration(), uplink(1), *(uplink(n, receipt=b"r", received_at=n) for n in (2, 3)))
    with asked() as sent, on_disk.begin() as unit:
        assert unit.count_received(f"{1:032x}") == 2
    assert is_counted_by_an_index(on_disk, sent)


def test_pending_enrolments_are_counted_without_reading_them(on_disk: Records) -> None:
    put(on_disk, enrolled(1), enrolled(2, certificate=b"pem"), enrolled(3))
    with asked() as sent, on_disk.begin() as unit:
        assert unit.count_pending() == 2
    assert is_counted_by_an_index(on_disk, sent)


def test_what_has_a_part_for_each_party_is_read_when_it_is_asked_for(records: Records) -> None:
    put(records, collaboration(results={"rows": 3}, kept={"target": 1}, unjudged={"folder": "f"}))
    with asked() as sent, records.begin() as unit:
        row = unit.collaboration(f"{1:032x}")
        assert row is not None
        first = " ".join(statement for statement, _ in sent)
        assert (row.results, row.kept, row.unjudged) == ({"rows": 3}, {"target": 1}, {"folder": "f"})
    assert "collaborations.terms" in first
    for column in ("results", "kept", "unjudged"):
        assert f"AS collaborations_{column}" not in first


def test_only_rounds_that_take_late_consumers_have_some_that_wait(records: Records) -> None:
    put(records, collaboration(1, state="released"), collaboration(2, state="released", kept={"target": 1}))
    for number in (1, 2):
        put(records, uplink(number, collaboration_id=f"{number:032x}", receipt=b"r", received_at=number))
    with records.begin() as unit:
        assert [row.collaboration_id for row in unit.waiting_latecomers()] == [f"{2:032x}"]


def test_what_is_not_there_is_none(records: Records) -> None:
    with records.begin() as unit:
        assert unit.collaboration("x") is None
        assert unit.member("x", "y") is None
        assert unit.uplink("x") is None
        assert unit.enrolment("x") is None


def test_the_first_downlink_is_read_without_the_others(records: Records) -> None:
    found = f"{1:032x}"
    given = {"collaboration_id": found, "manifest": b"", "fetched_at": None}
    put(records, collaboration(1), *(Downlink(party=party, **given) for party in "bca"))
    with records.begin() as unit:
        assert [row.party for row in unit.downlinks(found, most=1)] == ["a"]
        assert [row.party for row in unit.downlinks(found)] == ["a", "b", "c"]
