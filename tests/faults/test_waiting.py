"""Who waits for news on a real line is told of what others do, and let go when the server stops."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from protocol.operations import COLLABORATION_STATUS, ONLY_OWN
from tests.harness.consortium import Consortium, consortium, rows
from user_client.sdk import Session
from user_client.transport import Answer

LONG_S = 25
TRIES_S = 19
"""A request is tried for so long where nothing listens: the pauses of `AnalystConnection`."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("waiting"), "lead-hospital", "hospital-b") as found:
        yield found


class Waiting:
    """A request that is held."""

    def __init__(self, crew: ThreadPoolExecutor, session: Session, collaboration_id: str) -> None:
        path = f"{COLLABORATION_STATUS.url(collaboration_id=collaboration_id)}?{ONLY_OWN}"
        connection = session.connection
        tag = connection.request("GET", path).headers["etag"]
        headers = {"if-none-match": tag, "prefer": f"wait={LONG_S}"}
        self.began = time.monotonic()
        self._answer: Future[Answer] = crew.submit(connection.request_once, "GET", path, headers=headers)
        time.sleep(1)
        assert not self._answer.done()

    def answer(self) -> Answer:
        """Return the answer, which must not have waited for the end of its time."""
        found = self._answer.result(timeout=60)
        assert time.monotonic() - self.began < LONG_S
        return found


def test_the_operators_command_is_news_to_who_waits(made: Consortium) -> None:
    found = made.publish()
    with ThreadPoolExecutor() as crew:
        waiting = Waiting(crew, made.sessions["hospital-b"], found)
        made.analyst.run("collaboration", "cancel", found, "--yes")
        answer = waiting.answer()
    assert (answer.status, answer.json()["state"]) == (200, "cancelled")


def test_a_server_that_stops_answers_who_waits(made: Consortium) -> None:
    found = made.publish()
    with ThreadPoolExecutor() as crew:
        waiting = Waiting(crew, made.sessions["hospital-b"], found)
        made.analyst.stop()
        answer = waiting.answer()
    assert (answer.status, answer.headers.get("preference-applied")) == (304, None)
    assert re.search("Cancel [1-9][0-9]* running", made.log()) is None
    made.analyst.start()
    made.sessions["hospital-b"].close()


def test_receive_waits_through_a_restart_of_the_server(made: Consortium) -> None:
    found = made.anchored()
    made.contribute("hospital-b", found, rows(1, 40))
    with ThreadPoolExecutor() as crew:
        waits = crew.submit(made.sessions["hospital-b"].round(found).receive, wait_s=120)
        time.sleep(2)
        made.analyst.stop()
        made.analyst.start()
        made.contribute("lead-hospital", found, rows(2, 40))
        assert waits.result(timeout=180).party == "hospital-b"


def test_receive_waits_through_an_outage_that_is_longer_than_it_tries(made: Consortium) -> None:
    found = made.anchored()
    made.contribute("hospital-b", found, rows(3, 40))
    with ThreadPoolExecutor() as crew:
        waits = crew.submit(made.sessions["hospital-b"].round(found).receive, wait_s=300)
        time.sleep(2)
        made.analyst.stop()
        time.sleep(TRIES_S + 5)
        assert not waits.done()
        made.analyst.start()
        made.contribute("lead-hospital", found, rows(4, 40))
        assert waits.result(timeout=180).party == "hospital-b"
