"""What the numbers of a chunk must be: finite, labels of the terms, and rows no longer than rows can be.

A chunk ends anywhere, so a row may begin in one and end in a later one: whoever checks the rows of a stream
keeps what there is of the row that goes on (docs/protocol.md, "Array stream").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.arrays import Chunk, Layout
from protocol.errors import LabelOutOfRangeError, NotFiniteError
from protocol.labels import AnyLabel, Task
from protocol.limits import MAX_SCALE
from protocol.messages import LABELS, SCALE_ARRAYS, ArraySpec
from protocol.row_bounds import RowBounds, RowTooLongError


def check_values(layout: Layout, chunk: Chunk, label: AnyLabel | None = None) -> None:
    """Check that a chunk holds neither a NaN, an infinity, a bad scale nor a label outside the terms.

    Parameters
    ----------
    layout : Layout
        Of the transfer that the chunk belongs to.
    chunk : Chunk
        Floats must be finite. Scales must lie from 0 to `MAX_SCALE`, so that the scaled numbers are finite
        too.
    label : Label, NumberLabel, SurvivalLabel or MultiLabel, optional
        That of the terms, for an uplink: in its array of labels, class numbers must lie from 0 to
        ``classes - 1``, numbers from -1 to 1, and sets of labels below ``2**labels``; times of survival are
        not 0.

    Raises
    ------
    NotFiniteError, LabelOutOfRangeError
        Naming the row, never its value.
    """
    spec = layout.specs[chunk.slot.array]
    values = np.frombuffer(chunk.data, dtype=np.dtype(spec.dtype).newbyteorder("<"))
    allowed = _allowed(values, spec, label)
    if not allowed.all():
        first = int(allowed.argmin())
        per_row = spec.shape[1] if len(spec.shape) == 2 else 1
        before = (chunk.slot.payload_offset - layout.payload_start(chunk.slot.array)) // values.itemsize
        row = (before + first) // per_row
        if label is None or spec.name != LABELS or not np.isfinite(values[first]):
            raise NotFiniteError(spec.name, row)
        raise LabelOutOfRangeError(row, _ALLOWED[label.task].format(label.outputs))


def _allowed(values: NDArray[Any], spec: ArraySpec, label: AnyLabel | None) -> NDArray[np.bool_]:
    if spec.name in SCALE_ARRAYS:
        lowest, highest = 0.0, float(MAX_SCALE)
    elif label is None or spec.name != LABELS:
        return np.asarray(np.isfinite(values))
    else:
        lowest, highest = _ENDS[label.task](label.outputs)
    inside = (values >= lowest) & (values <= highest)  # a NaN is not
    if label is not None and label.task == "survival" and spec.name == LABELS:
        inside &= values != 0
    return np.asarray(inside)


def begun_row_bytes(layout: Layout, chunk: Chunk) -> int:
    """Return how many bytes of a chunk's first row lie in earlier chunks of its array."""
    spec = layout.specs[chunk.slot.array]
    row_bytes = spec.payload_bytes // spec.shape[0]
    return (chunk.slot.payload_offset - layout.payload_start(chunk.slot.array)) % row_bytes


def row_begun_in(layout: Layout, chunk: Chunk, begun: bytes) -> bytes:
    """Return what there is of the row that goes on in the chunk after this one, empty if none does.

    ``begun`` is what earlier chunks have of this one's first row.
    """
    spec = layout.specs[chunk.slot.array]
    row_bytes = spec.payload_bytes // spec.shape[0]
    left = (len(begun) + len(chunk.data)) % row_bytes
    own = min(left, len(chunk.data))
    return begun[: left - own] + bytes(chunk.data[len(chunk.data) - own :])


def check_rows(layout: Layout, chunk: Chunk, bounds: RowBounds, begun: bytes = b"") -> None:
    """Check that no row that ends in a chunk is longer than rows of its array can be.

    Parameters
    ----------
    begun : bytes
        What earlier chunks have of its first row: `begun_row_bytes` of them.

    Raises
    ------
    RowTooLongError
        Naming party, array and row, never a value.
    """
    spec = layout.specs[chunk.slot.array]
    if (largest := bounds.largest.get(spec.name)) is not None:
        for first, rows in _rows_that_end_in(layout, chunk, begun):
            require_short(rows, largest, bounds.party, spec.name, first)


def check_chunk(
    layout: Layout, chunk: Chunk, label: AnyLabel | None, bounds: RowBounds, begun: bytes = b""
) -> None:
    """Check a chunk as `check_values` and then `check_rows` do, and raise what they raise.

    A row that is short has no infinity and no NaN: where its length shows that, it is read once, not twice.
    """
    if not _is_short_and_finite(layout, chunk, bounds, begun):
        check_values(layout, chunk, label)
        check_rows(layout, chunk, bounds, begun)


def _is_short_and_finite(layout: Layout, chunk: Chunk, bounds: RowBounds, begun: bytes) -> bool:
    """Return whether all rows that end in a chunk are short by far, and what it has of the next is finite."""
    spec = layout.specs[chunk.slot.array]
    largest = bounds.largest.get(spec.name)
    if largest is None or spec.name in SCALE_ARRAYS:  # a scale must not be below 0 either
        return False
    if not all(_are_shorter_by_far(rows, largest) for _, rows in _rows_that_end_in(layout, chunk, begun)):
        return False
    of_the_next = np.frombuffer(row_begun_in(layout, chunk, begun), np.dtype(spec.dtype).newbyteorder("<"))
    return bool(np.isfinite(of_the_next).all())


def _rows_that_end_in(layout: Layout, chunk: Chunk, begun: bytes) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the rows that end in a chunk, of (k, l), each time after the number of the first of them."""
    spec = layout.specs[chunk.slot.array]
    row_bytes = spec.payload_bytes // spec.shape[0]
    dtype = np.dtype(spec.dtype).newbyteorder("<")
    first = (chunk.slot.payload_offset - layout.payload_start(chunk.slot.array)) // row_bytes
    missing = -len(begun) % row_bytes
    if begun and missing <= len(chunk.data):  # by itself: to join it to the others would copy them all
        yield first, np.frombuffer(begun + chunk.data[:missing], dtype).reshape(1, -1)
    count = (len(chunk.data) - missing) // row_bytes
    if count > 0:
        rows = np.frombuffer(chunk.data[missing : missing + count * row_bytes], dtype)
        yield first + bool(begun), rows.reshape(count, -1)


def require_short(rows: NDArray[Any], largest: float, party: str, name: str, first: int = 0) -> None:
    """Raise `RowTooLongError` if a row, of (k, l) from number ``first`` on, is longer than ``largest``."""
    if _are_shorter_by_far(rows, largest):
        return
    with np.errstate(over="ignore"):  # an infinite length is too long
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        too_long = ~(np.sqrt(squares) <= largest)
    if too_long.any():
        raise RowTooLongError(party, name, first + int(too_long.argmax()))


def _are_shorter_by_far(rows: NDArray[Any], largest: float) -> bool:
    """Return whether no row is as long as ``largest``, by more than single precision can err.

    Three times as fast as in double precision, which decides on everything else. A sum of l squares errs by
    less than a share of ``(l + 1) * 2**-24`` of itself (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.1), and by less than ``l * 2**-149`` where squares are too small for a float.
    """
    bound = largest * largest
    if rows.dtype != np.float32 or not _SMALLEST_BOUND < bound < math.inf:
        return False
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.square(rows) @ np.ones(rows.shape[1], np.float32)
        longest = float(squares.max(initial=0))
    is_shorter: bool = longest <= bound * (1 - (rows.shape[1] + 2) * 2.0**-23)  # a NaN is not
    return is_shorter


_SMALLEST_BOUND: Final = 1e-30
"""Of the square of a row's length: below, what squares lose by being too small could count."""
_ENDS: Final[Mapping[Task, Callable[[int], tuple[float, float]]]] = {
    "classes": lambda classes: (0, classes - 1),
    "multilabel": lambda labels: (0, 2**labels - 1),
    "number": lambda _: (-1, 1),
    "survival": lambda _: (-1, 1),
}
_ALLOWED: Final = {
    "classes": "one of {} classes",
    "multilabel": "a set of {} labels",
    "number": "a number from -1 to 1",
    "survival": "a time from -1 to 1 other than 0",
}
