from __future__ import annotations

from collections.abc import Callable

import pytest

from analyst_server.api.doors import LONG_ANSWER_S, MOST_LEAVING, Doors, Guest, Places, network_of

PLACES = Places(in_all=10, for_strangers=4, per_address=2, per_certificate=3)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class House:
    """Doors, and who was sent away."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.doors = Doors(PLACES, self.clock)
        self.sent_away: list[str] = []

    def hang_up(self, name: str) -> Callable[[], None]:
        return lambda: self.sent_away.append(name)

    def enter(self, address: str) -> Guest | None:
        return self.doors.enter(address, self.hang_up(address))

    def must_enter(self, address: str) -> Guest:
        guest = self.enter(address)
        assert guest is not None
        return guest

    def member(self, certificate: bytes) -> Guest:
        guest = self.must_enter("10.0.0.1")
        self.doors.show(guest, certificate)
        return guest


def test_a_newcomer_gets_the_place_of_another_from_its_own_address_first() -> None:
    house = House()
    for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.1"):
        house.must_enter(address)
    assert house.sent_away == ["10.0.0.1"]
    assert house.doors.strangers == 3


def test_when_all_places_are_taken_the_address_with_the_most_gives_one() -> None:
    house = House()
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3"):
        house.must_enter(address)
    house.must_enter("10.0.0.4")
    assert house.sent_away == ["10.0.0.3"]
    assert house.doors.strangers == PLACES.for_strangers


def test_nobody_is_sent_away_while_being_answered_for_a_while() -> None:
    house = House()
    for _ in range(2):
        house.doors.note_phase(house.must_enter("10.0.0.1"), True, False)
    assert house.enter("10.0.0.1") is None
    house.clock.now = LONG_ANSWER_S + 1
    assert house.enter("10.0.0.1") is not None


def test_a_stranger_whose_body_is_still_coming_may_be_sent_away_and_a_member_may_not() -> None:
    house = House()
    for _ in range(3):
        house.doors.note_phase(house.must_enter("10.0.0.1"), True, True)
    assert house.sent_away == ["10.0.0.1"]
    for _ in range(3):
        house.doors.note_phase(house.member(b"b"), True, True)
    house.clock.now = LONG_ANSWER_S + 1
    assert house.member(b"b").is_turned_away


def test_members_take_no_place_of_strangers_and_have_so_many_of_each_certificate() -> None:
    house = House()
    for _ in range(3):
        house.doors.note_phase(house.member(b"b"), True, False)
    assert (house.doors.members, house.doors.strangers) == (3, 0)
    refused = house.member(b"b")
    assert refused.is_turned_away
    assert house.doors.strangers == 1  # it keeps a place of strangers until it is told
    house.doors.leave(refused)
    assert not house.member(b"c").is_turned_away
    assert house.sent_away == []


def test_an_idle_connection_of_a_member_gives_its_place_to_the_next() -> None:
    house = House()
    for _ in range(4):
        house.member(b"b")
    assert house.sent_away == ["10.0.0.1"]
    assert house.doors.members == 3


def test_members_together_leave_the_places_of_strangers_free() -> None:
    house = House()
    for index in range(PLACES.in_all - PLACES.for_strangers):
        house.doors.note_phase(house.member(b"%d" % index), True, False)
    assert house.member(b"one more").is_turned_away


def test_who_has_left_is_forgotten_and_may_leave_again() -> None:
    house = House()
    guest, member = house.must_enter("10.0.0.1"), house.member(b"b")
    for _ in range(2):
        house.doors.leave(guest)
        house.doors.leave(member)
    assert repr(house.doors) == "<Doors 0 strangers, 0 members>"


def test_nobody_comes_in_while_many_who_were_sent_away_are_still_there() -> None:
    house = House()
    gone = [house.must_enter("10.0.0.1") for _ in range(PLACES.per_address + MOST_LEAVING)]
    assert len(house.sent_away) == MOST_LEAVING
    assert house.enter("10.0.0.2") is None
    for guest in gone:
        house.doors.leave(guest)
    assert house.enter("10.0.0.2") is not None


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_address_of_ipv6_stands_for_its_network(host: str, network: str) -> None:
    assert network_of(host) == network


@pytest.mark.parametrize("connections", [2, 10, 100, 100_000])
def test_places_fit_into_the_connections_that_there_can_be(connections: int) -> None:
    places = Places().within(connections)
    assert places.in_all <= connections
    assert places.per_address <= places.for_strangers < places.in_all
