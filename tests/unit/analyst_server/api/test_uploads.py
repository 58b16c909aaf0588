"""A body is written while more of it comes: in order, part by part, and to the end of what has come."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import pytest
from starlette.requests import ClientDisconnect

from analyst_server.api.uploads import MOST_TOGETHER_BYTES, most_writers, write_chunks
from analyst_server.blobs import MemoryBlobs
from protocol.limits import DEFAULT_CHUNK_BYTES

PIECE_BYTES = DEFAULT_CHUNK_BYTES // 4
TOGETHER = MOST_TOGETHER_BYTES // PIECE_BYTES
WAIT_S = 30
"""Longer than anything here takes: it only ends a test that would hang."""


class Coming:
    """A request whose body comes piece by piece."""

    def __init__(self, count: int, *, ends: BaseException | None = None) -> None:
        self.came, self._count, self._ends = 0, count, ends

    async def stream(self) -> AsyncIterator[bytes]:
        for number in range(1, self._count + 1):
            self.came = number
            await asyncio.sleep(0)
            yield bytes([number]) * PIECE_BYTES
        if self._ends is not None:
            raise self._ends
        yield b""


@contextmanager
def held_back() -> Iterator[tuple[list[int], threading.Event, Callable[[bytes], None]]]:
    """Yield what was written, and a function that writes nothing before it may."""
    written, may = list[int](), threading.Event()

    def write(data: bytes) -> None:
        assert may.wait(WAIT_S)
        written.extend(data[:1])

    yield written, may, write
    may.set()


async def put(write: Callable[[bytes], object], coming: Coming) -> None:
    with ThreadPoolExecutor(1) as writers:
        await write_chunks(write, cast("Any", coming), WAIT_S, writers)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.001)


def test_the_next_part_comes_while_one_is_written_and_no_more() -> None:
    async def play() -> None:
        with held_back() as (written, may, write):
            coming = Coming(20)
            running = asyncio.create_task(put(write, coming))
            await until(lambda: coming.came == 4 + TOGETHER)
            for _ in range(100):
                await asyncio.sleep(0.001)
            assert (coming.came, written) == (4 + TOGETHER, [])
            may.set()
            await running
            assert written == list(range(1, 21))

    asyncio.run(play())


def test_a_chunk_of_a_slow_line_is_written_as_soon_as_it_is_whole() -> None:
    async def play() -> None:
        written, goes_on = list[int](), asyncio.Event()

        class Slow(Coming):
            async def stream(self) -> AsyncIterator[bytes]:
                async for piece in super().stream():
                    if self.came == 5:
                        await goes_on.wait()
                    yield piece

        running = asyncio.create_task(put(lambda data: written.extend(data[:1]), Slow(6)))
        await until(lambda: written == [1, 2, 3, 4])
        goes_on.set()
        await running
        assert written == [1, 2, 3, 4, 5, 6]

    asyncio.run(play())


@pytest.mark.parametrize("ends", [ClientDisconnect(), TimeoutError()], ids=repr)
def test_what_came_before_a_line_broke_is_written(ends: BaseException) -> None:
    written: list[int] = []
    with pytest.raises(type(ends)):
        asyncio.run(put(lambda data: written.extend(data[:1]), Coming(11, ends=ends)))
    assert written == list(range(1, 12))


def test_nothing_is_written_after_what_was_refused() -> None:
    written: list[int] = []

    def refuse_the_sixth(data: bytes) -> None:
        if data[:1] == b"\x06":
            raise ValueError("refused")
        written.extend(data[:1])

    with pytest.raises(ValueError, match="refused"):
        asyncio.run(put(refuse_the_sixth, Coming(20)))
    assert written == list(range(1, 6))


def test_whoever_is_cut_off_waits_for_the_thread_that_writes() -> None:
    """A second thread would write at the same time."""

    async def play() -> None:
        with held_back() as (written, may, write):
            coming = Coming(7)
            running = asyncio.create_task(put(write, coming))
            await until(lambda: coming.came == 7)
            await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.sleep(0.01)
            assert not running.done()
            may.set()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert written == [1, 2, 3, 4]  # the rest comes again

    asyncio.run(play())


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (2, 1), (3, 2), (64, 2)])
def test_writers_leave_a_core_to_the_thread_that_reads(
    cores: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(cores)))
    assert most_writers(MemoryBlobs()) == count


def test_writers_that_wait_for_a_network_are_many() -> None:
    blobs = MemoryBlobs()
    blobs.holds_back_bytes = 1
    assert most_writers(blobs) > 8
