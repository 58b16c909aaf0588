"""Both checks of a chunk, together and by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.arrays import Chunk, Layout, StreamReader, chunks_of, frame, raw_bytes, specify
from protocol.chunk_checks import check_chunk, check_rows, check_values, row_begun_in
from protocol.errors import ProtocolError
from protocol.row_bounds import RowBounds

BOUNDS = RowBounds("hospital", {"rep": 2.0, "rep_scale": 2.0})
BESIDE_THE_BOUND = [2.0, float(np.nextafter(np.float32(2), np.float32(3)))]
CHUNK_BYTES = 24

Check = Callable[[Layout, Chunk, bytes], None]


def sent(name: str, array: Any, dtype: Any) -> tuple[Layout, bytes]:
    layout = Layout([specify(name, array, dtype, CHUNK_BYTES)], CHUNK_BYTES)
    return layout, b"".join(frame(chunks_of(raw_bytes(array), CHUNK_BYTES)))


def one_after_the_other(layout: Layout, chunk: Chunk, begun: bytes) -> None:
    check_values(layout, chunk)
    check_rows(layout, chunk, BOUNDS, begun)


def together(layout: Layout, chunk: Chunk, begun: bytes) -> None:
    check_chunk(layout, chunk, None, BOUNDS, begun)


def outcome(check: Check, layout: Layout, stream: bytes) -> tuple[int, Any]:
    """Return how many chunks pass, and what is said of the next."""
    begun, passed = b"", 0
    for chunk in StreamReader(layout).feed(stream):
        try:
            check(layout, chunk, begun)
        except ProtocolError as error:
            return passed, (error.code, error.context)
        begun, passed = row_begun_in(layout, chunk, begun), passed + 1
    return passed, None


numbers = st.sampled_from([0.0, 0.5, -1.0, 1e-30, *BESIDE_THE_BOUND, 6e4, math.nan, math.inf, -math.inf])
"""Mostly numbers of short rows, so that many chunks pass."""


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    rows, width = draw(st.integers(1, 8)), draw(st.integers(1, 20))
    array = np.full((rows, width), draw(st.sampled_from([0.0, 0.1])))
    for _ in range(draw(st.integers(0, 2))):
        array[draw(st.integers(0, rows - 1)), draw(st.integers(0, width - 1))] = draw(numbers)
    return array


@settings(max_examples=600)
@given(array=arrays(), kind=st.sampled_from(["rep f2", "rep f4", "rep f8", "rep_scale f4", "other f4"]))
def test_one_check_finds_what_two_find(array: Any, kind: str) -> None:
    """Chunks of 24 bytes end inside rows, and rows of up to 160 bytes lie in several of them."""
    name, dtype = kind.split()
    ready: Any = array.ravel() if name == "rep_scale" else array
    ready = ready.astype("<" + dtype)
    layout, stream = sent(name, ready, dtype)
    assert outcome(together, layout, stream) == outcome(one_after_the_other, layout, stream)


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_a_scale_that_is_short_must_not_be_negative_either(value: float) -> None:
    ready = np.array([1.0, value, 1.0], "<f4")
    layout, stream = sent("rep_scale", ready, "f4")
    assert outcome(together, layout, stream) == (0, ("not-finite", {"array": "rep_scale", "row": 1}))
