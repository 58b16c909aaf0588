"""Rows in a random order, without all of them in memory, and without more than a few bytes for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.custody.scratch import Scratch
from user_client.rows import Block, Rows
from user_client.secret.expansion import ByteSource, Matrix64, uniform

PART_BYTES: Final = 16 * 2**20
"""Rows that are sorted at once, about."""
WAITING_BYTES: Final = 32 * 2**20
"""Rows that were dealt to all parts and are not on the disk yet, at most."""


def shuffled(rows: Rows, source: ByteSource, scratch: Scratch) -> tuple[Rows, NDArray[Any]]:
    """Return rows in the sorting order of as many uniform numbers, and that order.

    The numbers are drawn block by block.

    Returns
    -------
    shuffled : (n, m) Rows
    order : (n,) ndarray of uint32, or int64 for very many
        ``shuffled[i]`` is ``rows[order[i]]``.
    """
    return _sorted(rows, lambda _start, count: uniform(source, count), scratch)


def ordered(rows: Rows, order: NDArray[np.integer], scratch: Scratch) -> Rows:
    """Return ``rows[order]``, (n, m), for an order of all of them."""
    places = np.empty(len(order))
    places[order] = (np.arange(len(order)) + 0.5) / max(len(order), 1)  # distinct below 2**52 rows
    return _sorted(rows, lambda start, count: places[start : start + count], scratch)[0]


def _sorted(
    rows: Rows, numbers: Callable[[int, int], Matrix64], scratch: Scratch
) -> tuple[Rows, NDArray[Any]]:
    """Return rows in the order of numbers in [0, 1), of which some are asked for at a time, and that order.

    Each row is dealt, with its number and its place, to the part that has the range of that number; then each
    part, which fits into memory, is sorted.
    """
    count, width = rows.shape
    parts = _Parts(-(-8 * count * width // PART_BYTES), width + 2, scratch)
    start = 0
    for block in rows.blocks():
        places = np.arange(start, start + len(block), dtype=np.float64)  # exact below 2**53
        parts.deal(np.column_stack([block, places, numbers(start, len(block))]))
        start += len(block)
    order = np.empty(count, np.uint32 if count <= 2**32 else np.int64)

    def sorted_parts() -> Iterator[Matrix64]:
        done = 0
        for part in parts:
            part = part[np.argsort(part[:, -1], kind="stable")]
            order[done : done + len(part)] = part[:, -2]
            done += len(part)
            yield part[:, :width]

    return scratch.keep(sorted_parts(), width), order


class _Parts:
    """Rows by the range of their last number, which lies in [0, 1)."""

    def __init__(self, count: int, width: int, scratch: Scratch) -> None:
        self._scratch = scratch
        self._waiting: list[list[Matrix64]] = [[] for _ in range(count)]
        self._waiting_rows = [0] * count
        self._most_waiting = max(WAITING_BYTES // (8 * width * max(count, 1)), 1)
        self._kept: list[list[Block]] = [[] for _ in range(count)]

    def deal(self, rows: Matrix64) -> None:
        of_part = (rows[:, -1] * len(self._kept)).astype(np.int64)
        np.minimum(of_part, len(self._kept) - 1, out=of_part)  # a product next to an integer is rounded up
        by_part = np.argsort(of_part, kind="stable")
        found, firsts = np.unique(of_part[by_part], return_index=True)
        for part, piece in zip(found.tolist(), np.split(rows[by_part], firsts[1:]), strict=True):
            self._waiting[part].append(piece.copy())  # a view would keep all of the block
            self._waiting_rows[part] += len(piece)
            if self._waiting_rows[part] >= self._most_waiting:
                self._keep(part)

    def __iter__(self) -> Iterator[Matrix64]:
        for part, waiting in enumerate(self._waiting):
            if waiting:  # the rows that wait for more take as much memory as two parts
                self._keep(part)
        for blocks in self._kept:
            if blocks:
                yield np.concatenate([block.rows() for block in blocks])

    def _keep(self, part: int) -> None:
        self._kept[part].append(self._scratch.keep_one(np.concatenate(self._waiting[part])))
        self._waiting[part].clear()
        self._waiting_rows[part] = 0
