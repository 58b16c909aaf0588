"""Notices reach a real receiver: signed, once, after failures and after a restart, whatever it does."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from analyst_server.notices.notifier import CLAIM_S, RETRY_AFTER_S, Notifier
from analyst_server.notices.webhook import Delivery, Webhook, signature
from tests.harness.receiver import SECRET, Receiver
from tests.harness.world import World

KEY = base64.b64decode(SECRET[6:])


@pytest.fixture
def world(on_each_database: World) -> World:
    return on_each_database


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().listening() as made:
        yield made


class KilledAsItSends(Webhook):
    def send(self, event_id: str, body: bytes, at: int) -> Delivery:  # noqa: ARG002  # it gets no further
        raise KeyboardInterrupt


def notifier(world: World, receiver: Receiver, deadline_s: float = 10.0) -> Notifier:
    return Notifier(world.analyst, Webhook(receiver.url, [KEY], deadline_s), look_s=0.05)


def pending(world: World) -> int:
    with world.records.begin() as unit:
        return unit.count_notices()


def test_an_event_comes_once_and_is_signed(world: World, receiver: Receiver) -> None:
    world.publish()
    made = notifier(world, receiver)
    made.look()
    made.look()
    ((headers, body),) = receiver.came
    assert headers["content-type"] == "application/json"
    assert headers["webhook-timestamp"] == str(world.clock())
    assert headers["webhook-signature"] == signature(KEY, headers["webhook-id"], world.clock(), body)
    assert pending(world) == 0


def test_during_a_change_of_secrets_both_sign(world: World, receiver: Receiver) -> None:
    world.publish()
    Notifier(world.analyst, Webhook(receiver.url, [KEY, bytes(32)])).look()
    ((headers, body),) = receiver.came
    expected = [signature(key, headers["webhook-id"], world.clock(), body) for key in (KEY, bytes(32))]
    assert headers["webhook-signature"].split() == expected


@pytest.mark.parametrize("status", [301, 307, 400, 500, 503])
def test_an_event_that_is_not_taken_comes_again_with_the_same_id(
    world: World, receiver: Receiver, status: int
) -> None:
    world.publish()
    receiver.statuses = [status, status]
    made = notifier(world, receiver)
    made.look()
    made.look()
    assert len(receiver.came) == 1, "not before its time, and no redirect is followed"
    for pause_s in RETRY_AFTER_S[:2]:
        world.clock.forward(pause_s)
        made.look()
    assert len(receiver.came) == 3
    assert len(set(receiver.ids)) == 1
    assert len({headers["webhook-timestamp"] for headers, _ in receiver.came}) == 3
    assert pending(world) == 0


def test_an_event_is_given_up_in_the_end(world: World) -> None:
    world.publish()
    outcomes: list[str] = []
    nobody = Receiver()
    with nobody.listening():
        pass
    made = Notifier(world.analyst, Webhook(nobody.url, [KEY]), on_attempt=outcomes.append)
    for pause_s in (*RETRY_AFTER_S, 0):
        made.look()
        world.clock.forward(pause_s)
    assert outcomes == ["failed"] * len(RETRY_AFTER_S) + ["given-up"]
    assert pending(world) == 0


def test_a_receiver_that_is_gone_is_not_asked_again(world: World, receiver: Receiver) -> None:
    world.publish()
    receiver.statuses = [410]
    notifier(world, receiver).look()
    assert pending(world) == 0


def test_an_attempt_that_was_cut_off_with_its_process_is_made_again(world: World, receiver: Receiver) -> None:
    """As after a kill: the notice is claimed, and nobody says what came of it."""
    world.publish()
    with pytest.raises(KeyboardInterrupt):
        Notifier(world.analyst, KilledAsItSends(receiver.url, [KEY])).look()
    again = notifier(world, receiver)
    again.look()
    assert receiver.came == [], "another server may be sending it"
    world.clock.forward(CLAIM_S)
    again.look()
    assert len(receiver.came) == 1


@pytest.mark.parametrize("how", ["is_silent", "drips"])
def test_a_slow_receiver_has_its_time_and_no_more(world: World, receiver: Receiver, how: str) -> None:
    world.publish()
    setattr(receiver, how, True)
    outcomes: list[str] = []
    webhook = Webhook(receiver.url, [KEY], deadline_s=0.4)
    thread = threading.Thread(target=Notifier(world.analyst, webhook, on_attempt=outcomes.append).look)
    thread.start()
    thread.join(30)
    assert outcomes == ["failed"]
    assert pending(world) == 1


def test_an_attempt_whose_connection_was_made_too_late_sends_nothing(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = socket.create_connection

    def slowly(address: tuple[str, int], timeout: float, *_: object) -> socket.socket:
        time.sleep(0.3)  # as a look-up of a name that nobody answers
        return connect(address, timeout)

    monkeypatch.setattr("socket.create_connection", slowly)
    found = Webhook(receiver.url, [KEY], deadline_s=0.1).send("event", b"{}", 1)
    assert (found.status, found.reason) == (None, "no answer in time")
    assert receiver.came == []


def test_a_receiver_that_does_not_end_its_handshake_has_its_time_and_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        with ThreadPoolExecutor(1) as threads:
            sent = threads.submit(Webhook(url, [KEY], deadline_s=0.3).send, "event", b"{}", 1)
            line, _ = listening.accept()
            # the head of a record that is announced longer than it will ever be
            with line, suppress(OSError):
                line.sendall(b"\x16\x03\x03\x3f\xff")
                while not sent.done():
                    line.sendall(b"\x02")
                    time.sleep(0.05)
            found = sent.result(30)
    assert found.reason == "no answer in time"
    assert found.seconds < 10


def test_an_attempt_is_cut_off_when_the_server_stops_and_made_at_the_next_start(
    world: World, receiver: Receiver
) -> None:
    world.publish()
    receiver.is_silent = True
    made = notifier(world, receiver)
    made.start()
    receiver.wait_for(1)
    made.stop()
    receiver.is_silent = False
    deadline = time.monotonic() + 30
    while pending(world) and time.monotonic() < deadline:
        notifier(world, receiver).look()
        time.sleep(0.05)
    assert len(receiver.came) == 2
    assert len(set(receiver.ids)) == 1
