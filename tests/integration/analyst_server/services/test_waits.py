"""Whoever watches the server is told once of everybody who is waited for, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from analyst_server.services import downlinks, end, prepare, rounds
from analyst_server.services.waits import (
    ACTS_TOLD,
    AGAIN_AFTER_S,
    MOST_NAMED,
    MOST_PENDING,
    Watcher,
)
from analyst_server.store import NoticeRow
from protocol.invitation import Rejection
from tests.harness.tree import REPOSITORY
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

OWNER = "w" * 32


@pytest.fixture
def watcher(world: World) -> Watcher:
    return Watcher(world.analyst, monotonic=world.clock.monotonic)


def told(world: World) -> list[dict[str, Any]]:
    """Return the notices that are there, and take them away."""
    with world.records.begin(write=True) as unit:
        rows = unit.notices()
        for row in rows:
            unit.forget_notice(row.id)
    return [json.loads(row.body) for row in rows]


def acts(world: World) -> list[set[tuple[str, str]]]:
    return [{(one["who"], one["act"]) for one in event["data"]["waiting_for"]} for event in told(world)]


def test_each_stage_of_a_round_is_told_once(world: World, watcher: Watcher) -> None:
    def look() -> list[set[tuple[str, str]]]:
        watcher.look()
        watcher.look()
        return acts(world)

    assert look() == []
    world.publish()
    assert look() == [{(LEAD, "accept-terms"), (HOSPITAL, "accept-terms")}]
    world.accept(HOSPITAL)
    assert look() == [], "one less is no news"
    world.accept(LEAD)
    assert look() == [{(LEAD, "create-anchor")}]
    world.publish_anchor()
    assert look() == [{(LEAD, "contribute"), (HOSPITAL, "contribute")}]
    for number, party in enumerate((LEAD, HOSPITAL)):
        world.send(make_uplink(world.terms, party, seed=number))
    assert look() == [], "a machine is no person"
    assert rounds.claim(world.analyst, OWNER, 60) == world.id
    rounds.fail(world.analyst, world.id, OWNER, "a reason")
    assert look() == [{("the analyst", "resume")}]
    rounds.resume(world.analyst, world.id)
    rounds.claim(world.analyst, OWNER, 60)
    rounds.fail(world.analyst, world.id, OWNER, "a reason")
    assert look() == [{("the analyst", "resume")}], "it failed again, between two looks"
    rounds.resume(world.analyst, world.id)
    rounds.claim(world.analyst, OWNER, 60)
    rounds.compute(world.analyst, world.id, OWNER, hold_release=True)
    assert look() == [{("the analyst", "release")}]
    rounds.release(world.analyst, world.id)
    assert look() == [{(LEAD, "receive"), (HOSPITAL, "receive")}]
    for party in (LEAD, HOSPITAL):
        stream = downlinks.fetch(world.analyst, identity(party), world.id)
        b"".join(stream.whole())
        stream.acknowledge()
    world.clock.forward(int(AGAIN_AFTER_S))
    judged(world)
    assert look() == [{("the analyst", "close")}]
    end.close(world.analyst, world.id)
    assert look() == []
    with world.records.begin() as unit:
        assert unit.told_about() == set()


def judged(world: World) -> None:
    with world.records.begin(write=True) as unit:
        row = unit.collaboration(world.id)
        assert row is not None
        row.unjudged = None


def test_a_notice_says_who_what_and_since_when(world: World, watcher: Watcher) -> None:
    world.publish()
    since = world.clock()
    world.clock.forward(100)
    watcher.look()
    (found,) = told(world)
    assert found["type"] == "collaboration.waiting"
    assert found["data"] == {
        "collaboration_id": world.id,
        "title": "Readmission",
        "state": "enrolling",
        "waiting_for": [
            {"who": party, "act": "accept-terms", "since": since} for party in sorted((LEAD, HOSPITAL))
        ],
        "others": 0,
    }


def test_a_refusal_is_told_without_its_reason(world: World, watcher: Watcher) -> None:
    world.publish()
    watcher.look()
    told(world)
    prepare.reject(world.analyst, identity(HOSPITAL), world.id, Rejection.body_of("a private reason"))
    world.clock.forward(int(AGAIN_AFTER_S))
    watcher.look()
    (found,) = told(world)
    assert {"who": "the analyst", "act": "change-terms"}.items() <= found["data"]["waiting_for"][0].items()
    assert "a private reason" not in json.dumps(found)


def test_of_many_only_some_are_named(world: World, watcher: Watcher) -> None:
    parties = (LEAD, *(f"hospital-{number:03d}" for number in range(MOST_NAMED + 10)))
    world.publish(make_terms(parties=parties))
    watcher.look()
    (found,) = told(world)
    assert len(found["data"]["waiting_for"]) == MOST_NAMED
    assert found["data"]["others"] == 11
    assert len(json.dumps(found)) < 4096


def test_a_request_for_a_certificate_is_told_once(world: World, watcher: Watcher) -> None:
    world.enrol("hospital-x")
    for _ in range(2):
        watcher.look()
    (found,) = told(world)
    assert found["type"] == "certificate.waiting"
    assert found["data"]["waiting_for"] == [
        {
            "who": "the lead institution",
            "act": "approve",
            "for": "hospital-x",
            "role": "institution",
            "since": world.clock(),
        }
    ]


def test_what_was_told_before_a_restart_is_not_told_again(world: World, watcher: Watcher) -> None:
    world.publish()
    watcher.look()
    assert len(told(world)) == 1
    Watcher(world.analyst).look()
    assert told(world) == []


def test_of_two_servers_one_tells(world: World) -> None:
    world.publish()
    world.enrol("hospital-x")
    failures: list[BaseException] = []

    def run(watcher: Watcher) -> None:
        try:
            watcher.look()
        except BaseException as error:  # noqa: BLE001  # a thread tells nobody
            failures.append(error)

    threads = [Thread(target=run, args=(Watcher(world.analyst),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(event["type"] for event in told(world)) == ["certificate.waiting", "collaboration.waiting"]


def test_while_too_many_wait_nothing_counts_as_told(world: World, watcher: Watcher) -> None:
    with world.records.begin(write=True) as unit:
        for number in range(MOST_PENDING):
            unit.add(NoticeRow(id=f"msg_{number}", created_at=0, body="{}", attempts=1, next_at=0))
    world.publish()
    watcher.look()
    assert len(told(world)) == MOST_PENDING
    watcher.look()
    assert len(told(world)) == 1


@pytest.mark.parametrize("act", ACTS_TOLD)
def test_every_act_is_documented(act: str) -> None:
    section = (REPOSITORY / "docs" / "operations.md").read_text().partition("\n## Webhook")[2]
    assert f"| `{act}` |" in section.partition("\n## ")[0]


def test_looking_at_what_has_not_changed_writes_nothing(world: World, watcher: Watcher) -> None:
    world.publish()
    watcher.look()
    opened: list[bool] = []
    listen: Callable[[bool, float], None] = lambda write, _seconds: opened.append(write)  # noqa: E731
    world.records.on_open = listen
    watcher.look()
    assert opened == [False]
