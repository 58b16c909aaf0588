from __future__ import annotations

import ast
from pathlib import Path

from protocol import limits
from protocol.messages import DTYPE_BYTES


def test_every_limit_stands_with_its_reason() -> None:
    body = ast.parse(Path(limits.__file__).read_text()).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            assert isinstance(after, ast.Expr), node.target.id
            assert isinstance(after.value, ast.Constant), node.target.id


def test_a_chunk_holds_whole_numbers_of_every_type() -> None:
    """Chunks are multiples of the smallest, so that no number lies across two of them."""
    assert all(limits.MIN_CHUNK_BYTES % size == 0 for size in DTYPE_BYTES.values())
    assert limits.MIN_CHUNK_BYTES <= limits.DEFAULT_CHUNK_BYTES <= limits.MAX_CHUNK_BYTES


def test_the_largest_array_is_below_what_numbers_on_the_wire_carry() -> None:
    assert limits.MAX_ARRAY_BYTES * 4 < 2**53
