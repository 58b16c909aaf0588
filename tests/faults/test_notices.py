"""Notices of a real server: over a kill, and with receivers that are dead or silent during a round."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odc_demo.actors import CommandError
from tests.harness.consortium import Consortium, consortium
from tests.harness.receiver import SECRET, Receiver


@contextmanager
def telling(directory: Path, receiver: Receiver) -> Iterator[Consortium]:
    """A consortium whose analyst tells a receiver."""
    secret = directory / "secret"
    secret.write_text(SECRET)
    settings = {
        "ODC_ANALYST_WEBHOOK_URL": receiver.url,
        "ODC_ANALYST_WEBHOOK_SECRET_FILE": str(secret),
        "HTTP_PROXY": "http://127.0.0.1:9",  # an address on this machine needs no proxy
    }
    with consortium(directory, "lead-hospital", "hospital-b", **settings) as made:
        yield made


def test_an_event_survives_a_kill_and_comes_once_the_receiver_is_there(tmp_path: Path) -> None:
    receiver = Receiver()
    with receiver.listening():
        pass  # it has a port now, at which nobody listens
    with telling(tmp_path, receiver) as made:
        found = made.publish()
        wait_for_pending(made, "collaboration.waiting")
        made.analyst.kill()
        with receiver.listening():
            made.analyst.start()
            receiver.wait_for_a(found)
            assert sum(event["data"].get("collaboration_id") == found for event in receiver.events) == 1
            assert len(receiver.ids) == len(set(receiver.ids))


def wait_for_pending(made: Consortium, kind: str) -> None:
    deadline = time.monotonic() + 60
    while kind not in {one["type"] for one in json.loads(made.analyst.run("notify", "--json"))["pending"]}:
        assert time.monotonic() < deadline, f"no {kind} is to be told"


def test_a_round_is_played_while_the_receiver_answers_nothing(tmp_path: Path) -> None:
    receiver = Receiver(is_silent=True)
    with receiver.listening(), telling(tmp_path, receiver) as made:
        made.publish()
        receiver.wait_for(1)  # from here on an attempt is nearly always under way
        found = made.anchored()
        made.contribute_all(found)
        made.receive_all(found)
        pending = json.loads(made.analyst.run("notify", "--json"))["pending"]
        assert pending, "nothing was delivered, and nothing is lost"
        assert {one["type"] for one in pending} <= {"collaboration.waiting", "certificate.waiting"}


def test_a_test_event_says_what_came_back(tmp_path: Path) -> None:
    receiver = Receiver()
    with receiver.listening(), telling(tmp_path, receiver) as made:
        answer = json.loads(made.analyst.run("notify", "--test", "--json"))
        assert answer["status"] == 204
        assert answer["id"] in receiver.ids
        receiver.statuses = [302]
        with pytest.raises(CommandError, match="did not take the test event: HTTP 302"):
            made.analyst.run("notify", "--test")
    with pytest.raises(CommandError, match="Connection refused"):
        made.analyst.run("notify", "--test")
