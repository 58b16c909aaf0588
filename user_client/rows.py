"""The rows of a table that may be larger than memory: a matrix that is read in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Matrix64 = NDArray[np.float64]
Numbers = NDArray[np.int64]
_NUMBERS_AT_ONCE: Final = 2**16


@dataclass(frozen=True, repr=False, slots=True)
class Block:
    """Some rows that follow one another.

    Attributes
    ----------
    load : callable
        Returns them, from wherever they are.
    count : int
        How many it returns.
    chosen : (count,) ndarray of bool, optional
        Which of them count; None for all.
    load_some : callable, optional
        Returns those with some numbers, where that takes less than to load all.
    """

    load: Callable[[], Matrix64]
    count: int
    chosen: NDArray[np.bool_] | None = None
    load_some: Callable[[Numbers], Matrix64] | None = None

    def __len__(self) -> int:
        return self.count if self.chosen is None else int(self.chosen.sum())

    def rows(self) -> Matrix64:
        return self.load() if self.chosen is None else self.load()[self.chosen]

    def take(self, numbers: Numbers) -> Matrix64:
        """Return some of those that count, by their numbers in ascending order."""
        if self.chosen is not None:
            numbers = np.flatnonzero(self.chosen)[numbers]
        return self.load()[numbers] if self.load_some is None else self.load_some(numbers)


class Rows:
    """An (n, m) matrix of float64 that is never in memory as a whole, unless somebody asks for that.

    Several threads may read it at once. Nobody writes to what it returns: it may be the original.
    """

    def __init__(self, blocks: Sequence[Block], width: int) -> None:
        self._blocks = [(block, len(block)) for block in blocks]
        self.shape = (sum(length for _, length in self._blocks), width)

    def __repr__(self) -> str:
        return f"<Rows of shape {self.shape}>"

    @classmethod
    def of(cls, rows: Matrix64) -> Rows:
        """Return the rows of an array."""
        return cls([Block(lambda: rows, len(rows))], rows.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all rows as one array."""
        if len(self._blocks) == 1:
            return np.array(self._blocks[0][0].rows(), dtype=dtype, copy=copy)
        whole, start = np.empty(self.shape), 0
        for block in self.blocks():
            whole[start : start + len(block)] = block
            start += len(block)
        return whole if dtype is None else whole.astype(dtype)

    def blocks(self) -> Iterator[Matrix64]:
        """Yield the rows block by block, in their order; none of them is empty.

        A thread reads the next block while one is in use.
        """
        yield from self.mapped(lambda block: block)

    def mapped(self, function: Callable[[Matrix64], T]) -> Iterator[T]:
        """Yield what a function returns of each block, in their order.

        A thread reads the next block, and calls the function, while what it has returned is in use.
        """

        def of_block(block: Block) -> T:
            return function(block.rows())

        blocks = [block for block, length in self._blocks if length]
        if len(blocks) < 2:
            yield from map(of_block, blocks)
            return
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(of_block, blocks[0])
            for following in blocks[1:]:
                found, coming = coming.result(), pool.submit(of_block, following)
                yield found
            yield coming.result()

    def take(self, numbers: Numbers) -> Matrix64:
        """Return some rows, by their numbers in ascending order."""
        found, start = np.empty((len(numbers), self.shape[1])), 0
        for block, length in self._blocks:
            first, last = np.searchsorted(numbers, [start, start + length])
            if first < last:
                found[first:last] = block.take(numbers[first:last] - start)
            start += length
        return found

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return the rows for which ``chosen``, (n,), is true; the blocks stay the same blocks."""
        if chosen.all():
            return self
        left, start = [], 0
        for block, length in self._blocks:
            here = chosen[start : start + length]
            if block.chosen is not None:
                inside = block.chosen.copy()
                inside[block.chosen] = here
                here = inside
            left.append(replace(block, chosen=here))
            start += length
        return Rows(left, self.shape[1])


def blocks_of(rows: Rows | Matrix64) -> Iterator[Matrix64]:
    """Yield the blocks of rows, or an array as one block; none of them is empty."""
    if isinstance(rows, Rows):
        yield from rows.blocks()
    elif len(rows):
        yield rows


def class_counts(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return how many of the class numbers, (n,), are 0, 1 and so on up to the largest.

    NumPy would turn all of them into numbers of eight bytes at once, or sort a copy.
    """
    counts = np.zeros(int(labels.max()) + 1 if len(labels) else 0, np.int64)
    for start in range(0, len(labels), _NUMBERS_AT_ONCE):
        counts += np.bincount(labels[start : start + _NUMBERS_AT_ONCE], minlength=len(counts))
    return counts


def are_alike(numbers: NDArray[Any]) -> bool:
    """Return whether all numbers, (n,), are the same one, or there are none; no copy of them is sorted."""
    return not len(numbers) or bool(numbers.min() == numbers.max())


def sample_of(count: int, size: int, rng: np.random.Generator) -> Numbers:
    """Return the numbers, ascending, of about ``size`` of ``count`` rows, each as likely; or of all."""
    if count <= size:
        return np.arange(count)
    drawn = [
        start + np.flatnonzero(rng.random(min(_NUMBERS_AT_ONCE, count - start)) < size / count)
        for start in range(0, count, _NUMBERS_AT_ONCE)
    ]
    return np.concatenate(drawn)
