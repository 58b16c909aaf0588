"""Canonical msgpack and JSON of plain values, written from docs/protocol.md."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any


def pack(value: Any) -> bytes:
    """Return the canonical msgpack of plain Python values."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return _pack_int(value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return _head(len(text), [(32, 0xA0), (2**8, 0xD9), (2**16, 0xDA), (2**32, 0xDB)]) + text
        case bytes():
            return _head(len(value), [(0, 0), (2**8, 0xC4), (2**16, 0xC5), (2**32, 0xC6)]) + value
        case list() | tuple():
            head = _head(len(value), [(16, 0x90), (0, 0), (2**16, 0xDC), (2**32, 0xDD)])
            return head + b"".join(map(pack, value))
        case dict():
            head = _head(len(value), [(16, 0x80), (0, 0), (2**16, 0xDE), (2**32, 0xDF)])
            return head + b"".join(pack(key) + pack(value[key]) for key in sorted(value))
    raise TypeError(type(value).__name__)


def _head(size: int, forms: Sequence[tuple[int, int]]) -> bytes:
    """Pick the first form that holds ``size``: inside the type byte, then 8, 16 and 32 bits."""
    for (limit, code), width in zip(forms, (0, 1, 2, 4), strict=True):
        if size < limit:
            return bytes([code | size]) if width == 0 else bytes([code]) + size.to_bytes(width, "big")
    raise ValueError(size)


def _pack_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    codes = (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3)
    for code, width in zip(codes, (1, 2, 4, 8), strict=True):
        try:
            return bytes([code]) + value.to_bytes(width, "big", signed=value < 0)
        except OverflowError:
            continue
    raise ValueError(value)


def pack_fields(fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a map of up to 15 packed pairs as they come, sorted or not."""
    return bytes([0x80 | len(fields)]) + b"".join(key + value for key, value in fields)


def packed_items(value: Mapping[str, Any]) -> dict[str, bytes]:
    return {key: pack(value[key]) for key in sorted(value)}


def to_json(value: Any) -> Any:
    """Return ``value`` with bytes as ``{"hex": ...}``."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def runs(data: bytes) -> list[list[Any]]:
    """Return bytes as parts: a long run of one byte is that byte and how often it comes."""
    found: list[list[Any]] = []
    start = 0
    for run in re.finditer(rb"(.)\1{999,}", data, re.DOTALL):
        found += [[data[start : run.start()].hex(), 1], [run[1].hex(), len(run[0])]]
        start = run.end()
    return [*found, [data[start:].hex(), 1]]
