from __future__ import annotations

from protocol import limits
from protocol.messages import DTYPE_BYTES


def test_a_chunk_holds_whole_numbers_of_every_type() -> None:
    """Chunks are multiples of the smallest, so that no number lies across two of them."""
    assert all(limits.MIN_CHUNK_BYTES % size == 0 for size in DTYPE_BYTES.values())
    assert limits.MIN_CHUNK_BYTES <= limits.DEFAULT_CHUNK_BYTES <= limits.MAX_CHUNK_BYTES


def test_the_largest_array_is_below_what_numbers_on_the_wire_carry() -> None:
    assert limits.MAX_ARRAY_BYTES * 4 < 2**53
