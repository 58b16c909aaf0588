from __future__ import annotations

import httpx
import pytest

from protocol.answers import Status
from protocol.states import State
from tests.harness.scripted_server import Handler, Pauses, connect, problem
from user_client.errors import ConnectionFailedError
from user_client.sdk.watching import StatusWatch

ID = f"{1:032x}"
OWN = "members=own&until=released"


class Analyst:
    """Answers as an analyst does, on a line where time passes only while somebody waits."""

    def __init__(self, *, released_at_s: float, knows: bool = True, cuts_after_s: float = 1e9) -> None:
        self.now_s, self.released_at_s = 0.0, released_at_s
        self.knows, self.cuts_after_s, self.goes_down = knows, cuts_after_s, False
        self.away_s = (1e9, 1e9)
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        known, prefer = request.headers.get("if-none-match"), request.headers.get("prefer")
        self.asked.append((request.url.query.decode(), known, prefer))
        if self.away_s[0] <= self.now_s < self.away_s[1]:
            raise httpx.ConnectError("connection refused")
        if not self.knows:
            return self.answer({})
        held_s = 0.0
        expected = f"while={self.state}" in request.url.query.decode()
        if prefer is not None and (known == self.tag or expected) and not self.goes_down:
            held_s = min(float(prefer.removeprefix("wait=")), max(self.released_at_s - self.now_s, 0))
        if held_s > self.cuts_after_s:
            self.now_s += self.cuts_after_s
            raise httpx.RemoteProtocolError("cut off")
        self.now_s += held_s
        headers = {"etag": self.tag}
        if prefer is not None and not self.goes_down:
            headers["preference-applied"] = prefer
        return httpx.Response(304, headers=headers) if known == self.tag else self.answer(headers)

    @property
    def state(self) -> str:
        return "released" if self.now_s >= self.released_at_s else "training"

    @property
    def tag(self) -> str:
        return f'W/"{self.state}"'

    def answer(self, headers: dict[str, str]) -> httpx.Response:
        return httpx.Response(200, json={"state": self.state}, headers=headers)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


def waited(analyst: Analyst, wait_s: float = 3600) -> Status:
    handler: Handler = analyst
    with connect(handler) as connection:
        watch = StatusWatch(connection, ID, clock=lambda: analyst.now_s)
        return watch.until(lambda status: status["state"] == "released", wait_s=wait_s, pause=analyst.pause)


def test_the_analyst_is_asked_for_news_of_us_alone() -> None:
    analyst = Analyst(released_at_s=60)
    assert waited(analyst)["state"] == "released"
    assert analyst.now_s == 60
    training = 'W/"training"'
    assert analyst.asked == [
        (OWN, None, None),
        (OWN, training, "wait=25"),
        (OWN, training, "wait=25"),
        (OWN, training, "wait=25"),
    ]
    assert analyst.pauses == []


def test_an_analyst_of_an_earlier_version_is_asked_less_and_less_often() -> None:
    analyst = Analyst(released_at_s=1000, knows=False)
    assert waited(analyst)["state"] == "released"
    assert analyst.pauses == sorted(analyst.pauses)
    assert len(analyst.asked) < 20
    assert {prefer for _, _, prefer in analyst.asked} == {None}


def test_an_analyst_that_holds_nothing_is_asked_less_and_less_often() -> None:
    analyst = Analyst(released_at_s=1000)
    analyst.goes_down = True
    assert waited(analyst)["state"] == "released"
    assert len(analyst.asked) <= len(analyst.pauses) + 4 < 25
    assert sum(analyst.pauses) >= 1000


def test_where_silent_lines_are_cut_shorter_waits_are_asked_for() -> None:
    analyst = Analyst(released_at_s=300, cuts_after_s=10)
    assert waited(analyst)["state"] == "released"
    waits = [prefer for _, _, prefer in analyst.asked if prefer]
    assert waits[0] == "wait=25"
    assert set(waits[1:]) == {"wait=5"}
    assert len(analyst.pauses) == 1


def test_where_no_silence_is_borne_the_pauses_are_made_here() -> None:
    analyst = Analyst(released_at_s=300, cuts_after_s=1.5)
    assert waited(analyst)["state"] == "released"
    assert len([prefer for _, _, prefer in analyst.asked if prefer]) == 1
    assert len(analyst.asked) < 20


def test_a_wait_ends_when_its_time_is_over() -> None:
    analyst = Analyst(released_at_s=1000)
    assert waited(analyst, wait_s=40)["state"] == "training"
    assert analyst.now_s == 40


def test_an_analyst_that_admits_no_request_now_ends_no_wait() -> None:
    """Its connections may all be taken for a moment, by others behind the same address."""
    analyst, turned_away, pauses = Analyst(released_at_s=60), [3], Pauses()

    def answer(request: httpx.Request) -> httpx.Response:
        if "prefer" in request.headers and turned_away[0]:
            turned_away[0] -= 1
            return problem(429, {"type": "/problems/too-many-requests", "retry_after_s": 5})
        return analyst(request)

    with connect(answer, pauses) as connection:
        watch = StatusWatch(connection, ID, clock=lambda: analyst.now_s)
        found = watch.until(lambda one: one["state"] == "released", wait_s=3600, pause=analyst.pause)
    assert found["state"] == "released"
    assert len(pauses) == 3  # as long as it asks for, each time
    assert min(pauses) >= 5


def test_an_analyst_that_goes_away_for_hours_ends_no_wait(caplog: pytest.LogCaptureFixture) -> None:
    analyst = Analyst(released_at_s=12 * 3600)
    analyst.away_s = (3600, 11 * 3600)
    assert waited(analyst, wait_s=24 * 3600)["state"] == "released"
    assert analyst.now_s < 12 * 3600 + 60
    assert len([one for one in caplog.messages if "the wait goes on" in one]) == 1
    assert len(caplog.messages) < 10  # and no five lines for each look


def test_an_analyst_that_is_still_away_when_the_time_is_up_is_told_of() -> None:
    analyst = Analyst(released_at_s=12 * 3600)
    analyst.away_s = (60, 1e9)
    with pytest.raises(ConnectionFailedError):
        waited(analyst)
    assert analyst.now_s >= 3600


def test_an_analyst_that_is_away_at_first_is_not_waited_for() -> None:
    analyst = Analyst(released_at_s=60)
    analyst.away_s = (0, 1e9)
    with pytest.raises(ConnectionFailedError):
        waited(analyst)
    assert analyst.pauses == []


def past(analyst: Analyst, wait_s: float = 3600) -> Status:
    handler: Handler = analyst
    with connect(handler) as connection:
        return StatusWatch(connection, ID, clock=lambda: analyst.now_s).past(State.TRAINING, wait_s=wait_s)


def test_after_a_step_of_ours_one_request_waits_for_the_others() -> None:
    analyst = Analyst(released_at_s=20)
    assert past(analyst)["state"] == "released"
    assert analyst.now_s == 20
    assert analyst.asked == [(f"{OWN}&while=training", None, "wait=25")]


def test_after_a_step_that_was_the_last_nobody_waits() -> None:
    analyst = Analyst(released_at_s=0)
    assert past(analyst)["state"] == "released"
    assert analyst.now_s == 0


def test_after_a_step_of_ours_the_status_comes_even_without_news() -> None:
    analyst = Analyst(released_at_s=3600)
    assert past(analyst)["state"] == "training"
    assert analyst.now_s == 25


def test_after_a_step_of_ours_a_line_that_is_cut_is_asked_again() -> None:
    analyst = Analyst(released_at_s=20, cuts_after_s=5)
    assert past(analyst)["state"] == "training"
    assert [query for query, _, _ in analyst.asked] == [f"{OWN}&while=training", OWN]


def test_an_analyst_of_an_earlier_version_answers_after_a_step_at_once() -> None:
    analyst = Analyst(released_at_s=20, knows=False)
    assert past(analyst)["state"] == "training"
    assert len(analyst.asked) == 1


def test_who_does_not_wait_is_told_the_status_after_a_step() -> None:
    analyst = Analyst(released_at_s=20)
    assert past(analyst, wait_s=0)["state"] == "training"
    assert analyst.asked == [(OWN, None, None)]
