"""A mutator of bytes that can be repeated, and the loop that goes on from what was new."""

from __future__ import annotations

import random
import struct
from collections.abc import Generator, Iterable
from typing import Final

LONGEST_INPUT: Final = 1 << 16
_INTERESTING: Final[tuple[bytes, ...]] = (
    b"", b"\x00", b"\xff", b"\x80", b"\n", b"\r\n", b" ", b"%00", b"%ff", b"-1", b"0", b"\xb2",
    b"\xc0", b"\xc1",
    b"\x90", b"\xdc\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc7\x08\xff",
    b"\xcb\x7f\xf8", b"\\u001b", b"\\n",
    b"9" * 20, b"9" * 5000, b"1e999", b"NaN", b"null", b"true", b'"', b"[" * 2000, b"{\"a\":" * 2000,
    b"\\ud800",
    "\u202e".encode(), "²".encode(), b"\x1b[2J", b"../", b"A" * 300,
)  # fmt: skip
"""What decoders have stumbled over before: ends of ranges, other forms of the same, and too much of one."""


def mutations(seeds: Iterable[bytes], seed: int) -> Generator[bytes, bool | None, None]:
    """Yield inputs made from others, without end; ``send`` one back to let it be a parent too."""
    rng = random.Random(seed)
    parents = list(seeds) or [b""]
    while True:
        made = mutated(rng.choice(parents), rng.choice(parents), rng)
        is_new = yield made
        if is_new:
            parents.append(made)
            yield b""  # what `send` returns


def mutated(parent: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return an input with one to four changes."""
    data = bytearray(parent)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        _change(data, other, rng)
    return bytes(data[:LONGEST_INPUT])


def _change(data: bytearray, other: bytes, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 32, 256)))
    match rng.randrange(8):
        case 0 if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case 1 if at < len(data):
            data[at] = rng.randrange(256)
        case 2:
            del data[at:end]
        case 3:
            data[at:at] = data[at:end] * rng.choice((1, 1, 2, 50))
        case 4:
            data[at : rng.choice((at, end))] = rng.choice(_INTERESTING)
        case 5:
            start = rng.randrange(len(other) + 1)
            data[at:end] = other[start : start + rng.choice((1, 4, 16, 64, 256))]
        case 6 if len(data) - at >= 4:
            number = rng.choice((0, 1, 127, 128, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1))
            data[at : at + 4] = struct.pack(rng.choice("<>") + "I", number)
        case _:
            data[at:] = b""
