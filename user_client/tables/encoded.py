"""Encode a table part by part, so that neither it nor its encoded rows are ever in memory as a whole."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.labels import Task
from protocol.table_schema import Schema
from user_client.errors import FieldError
from user_client.rows import Rows
from user_client.tables.encode import encode_labels, encode_rows, give_room_back, with_numbers_read
from user_client.tables.fields import Matrix64
from user_client.tables.read import gathered, parts_of

LOOKED_AT_ROWS: Final = 10_000
"""Of more rows, so many show how precisely the numbers of a table are recorded."""
_THREADS: Final = 1
"""Two that encode take turns at the interpreter, and are no faster than one."""
_AHEAD: Final = 1
"""Parts that are read and not taken yet."""
_KEPT_TOGETHER_BYTES: Final = 15 * 2**16
"""Of the rows in a block: the allocator gives memory of less than a MiB to the next block, and larger pieces
back to the system (`runtime.memory`), which would clear them anew for every block of every step."""
_MOST_PARTS: Final = 64
"""Of the rows that are kept of a table, before they are joined: small pieces keep the heap from shrinking."""


Note = Callable[[], None]
Look = Callable[[pa.Table, pa.Table], Note]
"""Looks at a part of a table, in whatever thread, as it is in the file and with its numbers read; what it
returns notes that once its turn has come."""


@dataclass(frozen=True, repr=False)
class EncodedPart:
    """Some rows of a table, one after another.

    Attributes
    ----------
    table : pyarrow.Table
        As they were read.
    rows : (n, m) ndarray of float64
    labels : (n,) ndarray, optional
        As on the wire; None if the table has no column of labels, and needs none.
    note : callable
        What ``look`` has returned for the part.
    """

    table: pa.Table
    rows: Matrix64
    labels: NDArray[Any] | None
    note: Note


def encoded_parts(
    data: Any,
    schema: Schema,
    *,
    needs_labels: bool = True,
    reads_labels: bool = True,
    labels_in_range: bool = True,
    look: Look = lambda _part, _read: _nothing,
) -> Iterator[EncodedPart]:
    """Yield a table encoded, part by part and in its order; the first part has no rows.

    Parts are encoded and looked at by threads while the next ones are read.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
    needs_labels : bool
        Whether a table without a column of labels is refused.
    reads_labels : bool
        Whether the labels are looked at where a table has them.
    labels_in_range : bool
        As for `encode_labels`.

    Raises
    ------
    TableError
        As `encode_rows` and `encode_labels`, with the number that a row has in the whole table.
    UnreadableFileError
        If the file cannot be read.
    """

    def encode(part: pa.Table) -> EncodedPart:
        # with some of its columns the label is refused, because the others are missing
        is_there = needs_labels or not set(schema.label_column.columns).isdisjoint(part.column_names)
        has_labels = reads_labels and is_there
        labels = encode_labels(part, schema, in_range=labels_in_range) if has_labels else None
        read = with_numbers_read(part, schema)
        return EncodedPart(part, encode_rows(read, schema), labels, look(part, read))

    rows_before = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[EncodedPart]] = deque()

        def first() -> EncodedPart:
            nonlocal rows_before
            try:
                found = waiting.popleft().result()
            except FieldError as error:
                raise error.in_whole_table(rows_before) from None
            rows_before += found.table.num_rows
            return found

        try:
            for part in gathered(parts_of(data), schema.width):
                waiting.append(pool.submit(encode, part))
                del part
                if len(waiting) > _AHEAD:
                    yield first()  # nothing here holds it while the next one is read
            while waiting:
                yield first()
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, repr=False)
class EncodedTable:
    """A table, encoded.

    Attributes
    ----------
    rows : (n, m) Rows
    labels : (n,) ndarray
        As on the wire; where none are there or read, all are of class 0.
    task : {"classes", "number", "survival", "multilabel"}
        What the labels are.
    digest : str
        Of the rows and labels: the same rows are found again in whatever file they are.
    some : pyarrow.Table
        Some rows as they were read, drawn at random; all if they are few.
    """

    rows: Rows
    labels: NDArray[Any]
    task: Task
    digest: str
    some: pa.Table


def encode_table(
    data: Any,
    schema: Schema,
    keep: Callable[[Iterable[Matrix64], int], Rows],
    *,
    needs_labels: bool = True,
    reads_labels: bool = True,
    labels_in_range: bool = True,
    look: Look = lambda _part, _read: _nothing,
) -> EncodedTable:
    """Read and encode a table, part by part.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
    keep : callable
        Takes the blocks of encoded rows, and how wide they are, and returns the rows.
    needs_labels : bool
        Whether a table without a column of labels is refused.
    reads_labels : bool
        Whether the labels are looked at where a table has them.
    labels_in_range : bool
        As for `encode_labels`.
    look : callable
        Sees every part, several at once; what it returns is called for one after another.

    Raises
    ------
    TableError
        If a field does not fit the schema; it names column and row.
    UnreadableFileError
        If the file cannot be read.
    """
    digest, some = hashlib.sha256(), _Some()
    labels, labels_dtype = bytearray(), np.dtype(np.uint8)  # one piece of memory that grows, not thousands
    has_labels, at_once = True, max(1, _KEPT_TOGETHER_BYTES // max(1, 8 * schema.width))

    def blocks(hashing: ThreadPoolExecutor) -> Iterator[Matrix64]:
        nonlocal has_labels, labels_dtype
        for part in encoded_parts(
            data,
            schema,
            needs_labels=needs_labels,
            reads_labels=reads_labels,
            labels_in_range=labels_in_range,
            look=look,
        ):
            has_labels = part.labels is not None
            of_part = np.zeros(len(part.rows), np.uint8) if part.labels is None else part.labels
            labels_dtype = of_part.dtype
            labels.extend(of_part.tobytes())
            part.note()
            some.add(part.table)
            hashed = hashing.submit(digest.update, np.ascontiguousarray(part.rows).data)
            rows = part.rows
            del part  # the memory of its table, and at last of its rows, is for the part that is read next
            for start in range(0, len(rows), at_once):
                yield rows[start : start + at_once]
            hashed.result()
            del rows, hashed

    with ThreadPoolExecutor(1) as hashing:  # a part is hashed while it is kept
        rows = keep(blocks(hashing), schema.width)
    pa.default_memory_pool().release_unused()  # what follows needs memory as well
    give_room_back()
    found = np.frombuffer(labels, labels_dtype)
    digest.update(found.data)
    task = schema.label_column.task if has_labels else "classes"
    return EncodedTable(rows, found, task, digest.hexdigest(), some.table())


def _nothing() -> None:
    pass


class _Some:
    """About `LOOKED_AT_ROWS` rows of a table that is read part by part, each as likely.

    Every row gets a random number, and those with the smallest stay.
    """

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._parts: list[tuple[pa.Table, NDArray[np.float64]]] = []
        self._below = 1.0

    def add(self, part: pa.Table) -> None:
        found = self._few(part, self._rng.random(part.num_rows))
        if self._parts and not found[0].num_rows:
            return
        self._parts.append(found)
        numbers = np.concatenate([each for _, each in self._parts])
        if len(numbers) > 2 * LOOKED_AT_ROWS:
            self._below = float(np.partition(numbers, LOOKED_AT_ROWS)[LOOKED_AT_ROWS])
            self._parts = [self._few(*each) for each in self._parts]
        if len(self._parts) > _MOST_PARTS:
            self._parts = [(_joined(self.table()), np.concatenate([each for _, each in self._parts]))]

    def table(self) -> pa.Table:
        return pa.concat_tables([part for part, _ in self._parts])

    def _few(self, part: pa.Table, numbers: NDArray[np.float64]) -> tuple[pa.Table, NDArray[np.float64]]:
        chosen = numbers < self._below
        if chosen.all():
            return part, numbers
        places = np.flatnonzero(chosen)  # of many rows few are left, and all columns would look for them
        return _joined(part.take(places)), numbers[places]


def _joined(table: pa.Table) -> pa.Table:
    """Return a table in one piece, so that what it was cut out of does not stay in memory."""
    with suppress(pa.ArrowException):  # categories of pieces that do not go into one list of categories
        table = table.combine_chunks()
    return table
