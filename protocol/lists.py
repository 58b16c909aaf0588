"""Lists of signed messages: a msgpack array of byte strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from protocol.errors import LimitExceededError, MalformedMessageError
from protocol.limits import MAX_MESSAGE_BYTES, MAX_PARTIES


def pack_list(items: Sequence[bytes]) -> bytes:
    """Return the bytes of a list; raises `LimitExceededError`."""
    packed: bytes = msgpack.packb(list(items), use_bin_type=True)
    if len(packed) > MAX_MESSAGE_BYTES:
        raise LimitExceededError("list in bytes", MAX_MESSAGE_BYTES, len(packed))
    return packed


def unpack_list(data: bytes) -> list[bytes]:
    """Return the items of a list; raises `MalformedMessageError` or `LimitExceededError`."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise LimitExceededError("list in bytes", MAX_MESSAGE_BYTES, len(data))
    try:
        items: Any = msgpack.unpackb(data, raw=False, max_array_len=MAX_PARTIES)
    except (ValueError, msgpack.exceptions.UnpackException):
        raise MalformedMessageError("list", "is not msgpack") from None
    if not isinstance(items, list) or not all(isinstance(item, bytes) for item in items):
        raise MalformedMessageError("list", "is not an array of byte strings")
    return items
