from __future__ import annotations

from collections.abc import Callable

import pytest

from runtime.waiting import Look, look_until, watch_until


class Time:
    """A clock that goes forward with every pause, and by what a look takes."""

    def __init__(self) -> None:
        self.now_s, self.pauses, self.asked = 0.0, list[float](), list[float]()

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds

    def look(self, seen: Callable[[], str], *, lasts: float, will_hold: bool) -> Callable[[float], Look[str]]:
        """Return a look that is held for up to ``lasts`` seconds."""

        def look(most_s: float) -> Look[str]:
            self.asked.append(most_s)
            held_s = min(most_s, lasts)
            self.now_s += held_s
            return Look(seen(), will_hold, held_s)

        return look

    def watch(self, look: Callable[[float], Look[str]], wait_s: float) -> str:
        return watch_until("end".__eq__, look, wait_s=wait_s, pause=self.pause)


def test_what_is_enough_at_once_is_not_waited_for() -> None:
    time = Time()
    assert time.watch(time.look(lambda: "end", lasts=0, will_hold=True), 100) == "end"
    assert (time.asked, time.pauses) == ([0], [])


def test_while_answers_are_held_no_pause_is_made() -> None:
    time = Time()
    look = time.look(lambda: "end" if time.now_s >= 100 else "way", lasts=25, will_hold=True)
    assert time.watch(look, 1000) == "end"
    assert time.asked == [0, 1000, 975, 950, 925]
    assert time.pauses == []


def test_a_wait_ends_when_its_time_is_over() -> None:
    time = Time()
    assert time.watch(time.look(lambda: "way", lasts=25, will_hold=True), 60) == "way"
    assert time.now_s == 60
    assert time.asked == [0, 60, 35, 10]


def test_without_held_answers_the_pauses_grow_as_they_did() -> None:
    old, new = Time(), Time()
    look_until("end".__eq__, lambda: "way", wait_s=3600, pause=old.pause)
    new.watch(new.look(lambda: "way", lasts=0, will_hold=False), 3600)
    assert new.pauses == old.pauses
    assert sum(new.pauses) == pytest.approx(3600)


def test_who_says_that_it_holds_and_does_not_is_asked_twice_a_second_at_most() -> None:
    time = Time()
    time.watch(time.look(lambda: "way", lasts=0, will_hold=True), 60)
    assert len(time.asked) <= 2 * 60 + 1


def test_after_a_held_answer_the_pauses_begin_anew() -> None:
    time = Time()
    holds = iter([False] * 8 + [True, True])

    def look(most_s: float) -> Look[str]:
        return Look("way", next(holds, False), most_s / 100)

    time.watch(look, 1000)
    assert time.pauses[7] > 5
    assert time.pauses[8] == 0.5
