"""A status with its version, and answers that are held until there is news."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from anyio import to_thread

from analyst_server.services import rounds
from protocol.answers import Computing
from tests.harness.app import Api, WithCertificate
from tests.harness.certificates import shared_member
from tests.harness.world import HOSPITAL, LEAD, make_uplink, role_of

LONG_S = 20
OWNER = "a worker"


@pytest.fixture
def path(api: Api) -> str:
    api.world.publish()
    return f"/v1/collaborations/{api.world.id}"


@asynccontextmanager
async def line(api: Api, party: str) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client whose requests run at the same time as those of others."""
    pem = shared_member(role_of(party), party).pem.decode()
    transport = httpx.ASGITransport(WithCertificate(api.app, pem))
    async with httpx.AsyncClient(transport=transport, base_url="https://analyst") as client:
        yield client


def known(tag: str, wait_s: int | None = None) -> dict[str, str]:
    wait = {} if wait_s is None else {"prefer": f"wait={wait_s}"}
    return {"if-none-match": tag, **wait}


def test_a_status_that_is_known_is_not_sent_again(api: Api, path: str) -> None:
    lead = api.as_party(LEAD)
    first = lead.get(path)
    assert first.headers["etag"].startswith('W/"')
    again = lead.get(path, headers=known(first.headers["etag"]))
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]


def test_every_step_makes_another_version_and_being_seen_makes_none(api: Api, path: str) -> None:
    lead = api.as_party(LEAD)
    tag = lead.get(path).headers["etag"]
    with api.world.records.begin(write=True) as unit:
        member = unit.member(api.world.id, HOSPITAL)
        assert member is not None
        member.last_seen_at = 5
    assert lead.get(path, headers=known(tag)).status_code == 304
    api.world.accept(HOSPITAL)
    fresh = lead.get(path, headers=known(tag))
    assert fresh.status_code == 200
    assert fresh.headers["etag"] != tag
    assert [member["accepted"] for member in fresh.json()["members"]] == [True, False]


def test_each_sees_a_version_of_its_own(api: Api, path: str) -> None:
    tags = {api.as_party(party).get(path).headers["etag"] for party in (LEAD, HOSPITAL)}
    assert len(tags) == 2


def test_our_own_status_has_nobody_else(api: Api, path: str) -> None:
    whole = api.as_party(HOSPITAL).get(path).json()
    own = api.as_party(HOSPITAL).get(path, params={"members": "own"}).json()
    assert own["members"] == [member for member in whole["members"] if member["party"] == HOSPITAL]
    assert {**own, "members": whole["members"], "waiting_for": whole["waiting_for"]} == whole
    assert "waiting_for" not in own


def test_steps_of_others_make_no_other_version_of_our_own_status(api: Api, path: str) -> None:
    lead = api.as_party(LEAD)
    tag = lead.get(path, params={"members": "own"}).headers["etag"]
    api.world.accept(HOSPITAL)
    assert lead.get(path, params={"members": "own"}, headers=known(tag)).status_code == 304
    api.world.accept(LEAD)
    assert lead.get(path, params={"members": "own"}, headers=known(tag)).status_code == 200


def test_an_answer_is_held_until_there_is_news(api: Api, path: str) -> None:
    async def scene() -> tuple[httpx.Response, list[bool]]:
        async with line(api, LEAD) as lead:
            tag = (await lead.get(path)).headers["etag"]
            waits = asyncio.create_task(lead.get(path, headers=known(tag, LONG_S)))
            early = []
            for _ in range(10):
                await asyncio.sleep(0.05)
                early.append(waits.done())
            await to_thread.run_sync(api.world.accept, HOSPITAL)
            return await waits, early

    answer, early = asyncio.run(scene())
    assert not any(early)
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == f"wait={LONG_S}"
    assert answer.json()["members"][0]["accepted"]


def test_that_a_round_is_computed_is_no_news_to_who_waits_for_its_end(api: Api, path: str) -> None:
    made, ours = api.world, f"{path}?members=own"
    made.accept(LEAD, HOSPITAL)
    made.publish_anchor()
    hospital = api.as_party(HOSPITAL)
    tag = hospital.get(ours).headers["etag"]
    for party in (LEAD, HOSPITAL):
        made.send(make_uplink(made.terms, party))
    assert made.state == "sealed"
    assert hospital.get(ours, headers=known(tag, 1)).json()["state"] == "sealed"
    began = time.monotonic()
    held = hospital.get(f"{ours}&until=released", headers=known(tag, 1))
    assert time.monotonic() - began >= 1
    assert (held.status_code, held.json()["state"]) == (200, "sealed")


def test_who_knows_what_its_step_led_to_is_answered_when_there_is_news(api: Api, path: str) -> None:
    async def scene() -> tuple[httpx.Response, list[bool]]:
        async with line(api, LEAD) as lead:
            asked = lead.get(f"{path}?while=enrolling", headers={"prefer": f"wait={LONG_S}"})
            waits = asyncio.create_task(asked)
            early = []
            for _ in range(10):
                await asyncio.sleep(0.05)
                early.append(waits.done())
            await to_thread.run_sync(api.world.accept, HOSPITAL)
            return await waits, early

    answer, early = asyncio.run(scene())
    assert not any(early)
    assert answer.headers["preference-applied"] == f"wait={LONG_S}"
    assert answer.json()["members"][0]["accepted"]


def test_who_expects_another_state_is_answered_at_once(api: Api, path: str) -> None:
    began = time.monotonic()
    answer = api.as_party(LEAD).get(f"{path}?while=collecting", headers={"prefer": f"wait={LONG_S}"})
    assert time.monotonic() - began < LONG_S
    assert answer.json()["state"] == "enrolling"


def test_who_has_seen_no_version_gets_the_status_when_the_time_is_over(api: Api, path: str) -> None:
    answer = api.as_party(LEAD).get(f"{path}?while=enrolling", headers={"prefer": "wait=1"})
    assert (answer.status_code, answer.headers["preference-applied"]) == (200, "wait=1")
    assert answer.json()["state"] == "enrolling"


def test_a_held_answer_comes_when_the_time_is_over(api: Api, path: str) -> None:
    async def scene() -> httpx.Response:
        async with line(api, LEAD) as lead:
            tag = (await lead.get(path)).headers["etag"]
            return await lead.get(path, headers=known(tag, 1))

    answer = asyncio.run(scene())
    assert (answer.status_code, answer.headers["preference-applied"]) == (304, "wait=1")


def test_an_answer_is_held_no_longer_than_the_analyst_is_willing_to(api: Api, path: str) -> None:
    api.app.state.status_wait_s = 1
    lead = api.as_party(LEAD)
    answer = lead.get(path, headers=known(lead.get(path).headers["etag"], 3600))
    assert (answer.status_code, answer.headers["preference-applied"]) == (304, "wait=1")


@pytest.mark.parametrize("prefer", ["wait=0", "respond-async", "wait", "wait=-1", "wait=x", "await=9"])
def test_without_a_wait_nothing_is_held(api: Api, path: str, prefer: str) -> None:
    lead = api.as_party(LEAD)
    tag = lead.get(path).headers["etag"]
    answer = lead.get(path, headers={"if-none-match": tag, "prefer": prefer})
    assert answer.status_code == 304
    assert "preference-applied" not in answer.headers


@pytest.mark.parametrize("prefer", ["wait=1", "respond-async, wait=1", 'handling=lenient, WAIT="1"; x=y'])
def test_a_wait_is_found_among_other_preferences(api: Api, path: str, prefer: str) -> None:
    lead = api.as_party(LEAD)
    tag = lead.get(path).headers["etag"]
    answer = lead.get(path, headers={"if-none-match": tag, "prefer": prefer})
    assert answer.headers["preference-applied"] == "wait=1"


def test_who_knows_no_version_is_answered_at_once(api: Api, path: str) -> None:
    answer = api.as_party(LEAD).get(path, headers={"prefer": "wait=3600"})
    assert answer.status_code == 200


def test_more_wait_than_there_are_threads_and_connections_and_others_are_answered(
    api: Api, path: str
) -> None:
    async def scene() -> list[int]:
        async with line(api, LEAD) as lead, line(api, HOSPITAL) as hospital:
            found = []
            for client in (lead, hospital):
                tag = (await client.get(path)).headers["etag"]
                found += [
                    asyncio.create_task(client.get(path, headers=known(tag, LONG_S))) for _ in range(16)
                ]
            await asyncio.sleep(0.5)
            others = [(await lead.get(path)).status_code for _ in range(5)]
            assert not any(task.done() for task in found)
            await to_thread.run_sync(api.world.accept, LEAD)
            return others + [(await task).status_code for task in found]

    assert asyncio.run(scene()) == [200] * (5 + 32)


def compute(api: Api, done: int) -> None:
    """Let a worker say how far a round is, which it claims first if nobody has."""
    if api.world.state == "enrolling":
        api.world.accept(*api.world.terms.parties)
        api.world.publish_anchor()
        for number, party in enumerate(api.world.terms.parties):
            api.world.send(make_uplink(api.world.terms, party, seed=number))
        rounds.claim(api.world.analyst, OWNER, 60)
    told: Computing = {"stage": "training", "at": 1, "done": done, "of": 9, "unit": "epochs"}
    rounds.note_progress(api.world.analyst, api.world.id, OWNER, told)


def test_how_far_a_computation_is_makes_no_other_version(api: Api, path: str) -> None:
    compute(api, 1)
    first = api.as_party(LEAD).get(path)
    assert first.json()["computing"]["done"] == 1
    compute(api, 2)
    again = api.as_party(LEAD).get(path, headers=known(first.headers["etag"]))
    assert (again.status_code, again.content) == (304, b"")


def test_who_has_waited_in_vain_is_told_how_far_the_computation_is(api: Api, path: str) -> None:
    compute(api, 1)
    own = {"members": "own", "until": "released"}
    tag = api.as_party(LEAD).get(path, params=own).headers["etag"]
    compute(api, 2)
    answer = api.as_party(LEAD).get(path, params=own, headers=known(tag, 1))
    assert answer.status_code == 200
    assert answer.headers["etag"] == tag
    assert answer.headers["preference-applied"] == "wait=1"
    assert answer.json()["computing"]["done"] == 2
