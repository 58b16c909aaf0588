"""Who waits is told of a change, whoever made it; however many wait, the database is asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest
from anyio import to_thread
from sqlalchemy import Engine, event

from analyst_server.services import end
from analyst_server.services.changes import MOST_WATCHES_OF_ONE, Changes, Watch
from analyst_server.store import Records
from tests.harness.world import HOSPITAL, LEAD, World

LOOK_S = 0.02
LONG_S = 60.0


@pytest.fixture
def published(world: World) -> World:
    world.publish()
    return world


def played(world: World, scene: Callable[[Changes], Awaitable[None]]) -> None:
    """Play a scene in which some wait; it must end by itself, long before their time is over."""

    async def run() -> None:
        async with asyncio.timeout(LONG_S / 2):
            await scene(Changes(world.records, LOOK_S))

    asyncio.run(run())


async def settle(watch: Watch) -> None:
    """Wait until what was there at the beginning is no news any more."""
    while await watch.changed(10 * LOOK_S):
        pass


def test_a_step_of_another_wakes_who_waits_for_all(published: World) -> None:
    async def scene(changes: Changes) -> None:
        with changes.watch(published.id, LEAD, None) as watch:
            assert watch is not None
            await settle(watch)
            waits = asyncio.create_task(watch.changed(LONG_S))
            await to_thread.run_sync(published.accept, HOSPITAL)
            assert await waits

    played(published, scene)


def test_who_waits_for_its_own_steps_is_not_woken_by_those_of_others(published: World) -> None:
    async def scene(changes: Changes) -> None:
        with (
            changes.watch(published.id, LEAD, LEAD) as lead,
            changes.watch(published.id, "b", HOSPITAL) as ours,
        ):
            assert lead is not None
            assert ours is not None
            await settle(lead)
            await settle(ours)
            waits = asyncio.create_task(ours.changed(LONG_S))
            await to_thread.run_sync(published.accept, HOSPITAL)
            assert await waits
            assert not await lead.changed(10 * LOOK_S)

    played(published, scene)


def test_what_another_process_writes_wakes_who_waits(published: World) -> None:
    async def scene(changes: Changes) -> None:
        with changes.watch(published.id, LEAD, LEAD) as watch:
            assert watch is not None
            await settle(watch)
            waits = asyncio.create_task(watch.changed(LONG_S))
            await to_thread.run_sync(end.cancel, published.analyst, published.id)
            assert await waits

    elsewhere = Records(published.database)
    try:
        played(published, scene)
    finally:
        elsewhere.dispose()


def test_the_database_is_asked_once_for_all_who_wait(published: World) -> None:
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    async def scene(changes: Changes) -> None:
        with ExitStack() as stack:
            watches = [
                stack.enter_context(changes.watch(published.id, str(number), None)) for number in range(200)
            ]
            given = [watch for watch in watches if watch is not None]
            assert len(given) == 200
            for watch in given:
                watch.wake()  # so that no wait below ends with what was there before
            await asyncio.gather(*(watch.changed(LONG_S) for watch in given))
            event.listen(Engine, "before_cursor_execute", note)
            waits = [asyncio.create_task(watch.changed(LONG_S)) for watch in given]
            await to_thread.run_sync(published.accept, HOSPITAL)
            assert all(await asyncio.gather(*waits))
            event.remove(Engine, "before_cursor_execute", note)

    played(published, scene)
    assert sum("max(ledger" in statement for statement in asked) < 50


def test_nobody_looks_while_nobody_waits(published: World) -> None:
    async def scene(changes: Changes) -> None:
        with changes.watch(published.id, LEAD, None) as watch:
            assert watch is not None
            await settle(watch)
        before = len(asyncio.all_tasks())
        while len(asyncio.all_tasks()) == before and before > 1:
            await asyncio.sleep(LOOK_S)
        assert len(asyncio.all_tasks()) == 1

    played(published, scene)


def test_when_the_server_goes_down_everybody_is_answered_and_nobody_waits(published: World) -> None:
    async def scene(changes: Changes) -> None:
        with changes.watch(published.id, LEAD, None) as watch:
            assert watch is not None
            waits = asyncio.create_task(watch.changed(LONG_S))
            await asyncio.sleep(0)
            changes.close()
            assert not await waits
        with changes.watch(published.id, LEAD, None) as late:
            assert late is None

    played(published, scene)


def test_one_party_cannot_take_the_places_of_the_others(published: World) -> None:
    async def scene(changes: Changes) -> None:
        with ExitStack() as stack:
            for _ in range(MOST_WATCHES_OF_ONE):
                assert stack.enter_context(changes.watch(published.id, LEAD, None)) is not None
            assert stack.enter_context(changes.watch(published.id, LEAD, None)) is None
            assert stack.enter_context(changes.watch(published.id, HOSPITAL, None)) is not None
        with changes.watch(published.id, LEAD, None) as again:
            assert again is not None

    played(published, scene)
