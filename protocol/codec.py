"""Bytes <-> message, in one canonical form.

A message is a frozen pydantic model; on the wire it is a msgpack map with its keys sorted, the
shortest form of every number and no extension types. Decoding encodes again and compares, so two
different byte strings are never the same message (docs/protocol.md, "Canonical form").
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeVar

import msgpack
from pydantic import VERSION, BaseModel, ConfigDict, ValidationError

from protocol.errors import LimitExceededError, MalformedMessageError
from protocol.limits import (
    MAX_COLUMNS,
    MAX_CONTAINERS,
    MAX_FIELDS,
    MAX_MESSAGE_BYTES,
    MAX_NESTING,
    MAX_PARTIES,
)

_BUILDS_LATE: Final = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
"""Whether pydantic may build what checks a message when the first one comes. A command starts a fifth sooner
for it. Earlier versions let other threads in while they build (pydantic #13419)."""


class Message(BaseModel):
    """A value that is valid once constructed, and can be sent."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        ser_json_bytes="base64",
        defer_build=_BUILDS_LATE,
    )

    signing_label: ClassVar[str]
    """The label that a signature over this kind of message covers, version included."""


M = TypeVar("M", bound=Message)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return value


def encode(message: Message) -> bytes:
    """Return the canonical bytes of ``message``."""
    packed: bytes = msgpack.packb(_canonical(message.model_dump()), use_bin_type=True)
    if len(packed) > MAX_MESSAGE_BYTES:
        raise LimitExceededError(f"{type(message).__name__} in bytes", MAX_MESSAGE_BYTES, len(packed))
    return packed


def _refuse_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code}")


class _ContainerCount:
    """Stops the unpacker after too many containers: many small maps are cheap to send and costly to hold."""

    def __init__(self, name: str) -> None:
        self._name, self._left = name, MAX_CONTAINERS

    def __call__(self, container: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise LimitExceededError(f"{self._name} in maps and arrays", MAX_CONTAINERS)
        return container


def _depth(value: Any) -> int:
    """Return the nesting of a decoded value, without recursion, because the peer chooses the depth."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth > MAX_NESTING:
            break
        children = item.values() if isinstance(item, dict) else item if isinstance(item, tuple) else ()
        stack.extend((child, depth + 1) for child in children if isinstance(child, (dict, tuple)))
    return deepest


def decode(kind: type[M], data: bytes) -> M:
    """Return the message of ``kind`` in ``data``.

    Raises
    ------
    MalformedMessageError
        If the bytes are no such message, or not its canonical form.
    LimitExceededError
        If they are too many, or hold too many values.
    """
    name = kind.__name__
    if len(data) > MAX_MESSAGE_BYTES:
        raise LimitExceededError(f"{name} in bytes", MAX_MESSAGE_BYTES, len(data))
    count = _ContainerCount(name)
    try:
        raw = msgpack.unpackb(
            data,
            raw=False,
            use_list=False,
            strict_map_key=True,
            ext_hook=_refuse_extension,
            object_hook=count,
            list_hook=count,
            max_map_len=MAX_FIELDS,
            max_array_len=MAX_COLUMNS,
        )
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        # the reason of msgpack may quote the data, so only its kind goes on
        raise MalformedMessageError(name, f"is not msgpack ({type(error).__name__})") from None
    if _depth(raw) > MAX_NESTING:
        raise MalformedMessageError(name, f"is nested deeper than {MAX_NESTING}")
    try:
        message = kind.model_validate(raw)
    except ValidationError as error:
        raise MalformedMessageError(name, explain(error)) from None
    if encode(message) != data:
        raise MalformedMessageError(name, "is not in canonical form")
    return message


def explain(error: ValidationError) -> str:
    """Say which fields are wrong and why, without repeating what was in them."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    # an array ends at its first bad item, so that it then is too short says nothing
    holds_another = {item["loc"][:length] for item in errors for length in range(len(item["loc"]))}
    errors = [item for item in errors if item["type"] != "too_short" or item["loc"] not in holds_another]
    places = []
    for item in errors[:5]:
        # a field that should not be there has the name its sender chose: short, and without line breaks
        where = ".".join(repr(str(part)[:40])[1:-1] for part in item["loc"]) or "message"
        why = (
            "is of no known kind" if item["type"] == "union_tag_invalid" else item["msg"]
        )  # it quotes the kind
        places.append(f"{where}: {why[:1].lower()}{why[1:]}")
    return "; ".join(places)


def digest(message: Message) -> bytes:
    """Return the SHA-256 of the canonical bytes."""
    return hashlib.sha256(encode(message)).digest()


_LIST_HEAD_BYTES: Final = 5
"""Of msgpack before an array, and before a byte string, at most."""


def pack_list(items: Sequence[bytes]) -> bytes:
    """Return the bytes of a list of messages: a msgpack array of byte strings."""
    packed: bytes = msgpack.packb(list(items), use_bin_type=True)
    if len(packed) > MAX_MESSAGE_BYTES:
        raise LimitExceededError("list in bytes", MAX_MESSAGE_BYTES, len(packed))
    return packed


def pack_lists(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lists that hold the items one after another, each as long as a message may be.

    Raises `LimitExceededError` for an item that no list can hold.
    """
    packed: list[bytes] = []
    size = _LIST_HEAD_BYTES
    for item in items:
        needed = _LIST_HEAD_BYTES + len(item)
        if packed and (size + needed > MAX_MESSAGE_BYTES or len(packed) == MAX_PARTIES):
            yield pack_list(packed)
            packed, size = [], _LIST_HEAD_BYTES
        packed.append(item)
        size += needed
    if packed:
        yield pack_list(packed)


def unpack_list(data: bytes) -> list[bytes]:
    """Return the items of a list; raises `MalformedMessageError` or `LimitExceededError`."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise LimitExceededError("list in bytes", MAX_MESSAGE_BYTES, len(data))
    try:
        return _items(msgpack.unpackb(data, raw=False, max_array_len=MAX_PARTIES))
    except (ValueError, msgpack.exceptions.UnpackException):
        raise MalformedMessageError("list", "is not msgpack") from None


def unpack_lists(data: bytes) -> list[bytes]:
    """Return the items of lists that lie one after another, in a file of our own.

    Raises `MalformedMessageError`.
    """
    unpacker = msgpack.Unpacker(raw=False, max_array_len=MAX_PARTIES, max_buffer_size=len(data))
    unpacker.feed(data)
    try:
        found = [item for items in unpacker for item in _items(items)]
    except (ValueError, msgpack.exceptions.UnpackException):
        raise MalformedMessageError("list", "is not msgpack") from None
    if unpacker.tell() < len(data):
        raise MalformedMessageError("list", "ends in the middle")
    return found


def _items(items: Any) -> list[bytes]:
    if not isinstance(items, list) or not all(isinstance(item, bytes) for item in items):
        raise MalformedMessageError("list", "is not an array of byte strings")
    return items
