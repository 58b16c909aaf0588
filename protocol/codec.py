"""Bytes <-> message, in one canonical form.

A message is a frozen pydantic model; on the wire it is a msgpack map with its keys sorted, the
shortest form of every number and no extension types. Decoding encodes again and compares, so two
different byte strings are never the same message (docs/protocol.md, "Canonical form").
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self, TypeVar
from weakref import ReferenceType, ref

import msgpack
from pydantic import VERSION, BaseModel, ConfigDict, ValidationError, model_validator

from protocol.errors import LimitExceededError, MalformedMessageError
from protocol.limits import (
    MAX_COLUMNS,
    MAX_CONTAINERS,
    MAX_FIELDS,
    MAX_MESSAGE_BYTES,
    MAX_NESTING,
    MAX_OPTIONAL_BYTES,
    MAX_OPTIONAL_FIELDS,
    MAX_PARTIES,
)
from protocol.texts import in_words

_BUILDS_LATE: Final = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
"""Whether pydantic may build what checks a message when the first one comes. A command starts a fifth sooner
for it. Earlier versions let other threads in while they build (pydantic #13419)."""


_OPTIONAL_NAME: Final = re.compile(r"opt_[a-z0-9][a-z0-9._@-]{0,95}")


class Message(BaseModel):
    """A value that is valid once constructed, and can be sent.

    It is *closed*: an unknown field is refused. A kind that is declared with ``extra="allow"`` is *open*: it
    keeps optional fields that it does not know, as docs/protocol.md, "Unknown fields", has it.
    """

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

    @model_validator(mode="after")
    def _check_unknown(self) -> Self:
        if self.__pydantic_extra__:
            _check_unknown_fields(type(self).__name__, self.__pydantic_extra__)
        return self

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Leave unknown fields out of what people and logs see: nobody here knows what they hold."""
        unknown = self.__pydantic_extra__ or {}
        return ((name, value) for name, value in super().__repr_args__() if name not in unknown)


def _check_unknown_fields(kind: str, unknown: dict[str, Any]) -> None:
    critical = [name for name in unknown if not _OPTIONAL_NAME.fullmatch(name)]
    if critical:
        raise ValidationError.from_exception_data(
            kind, [{"type": "extra_forbidden", "loc": (name,), "input": None} for name in critical]
        )
    if len(unknown) > MAX_OPTIONAL_FIELDS:
        raise ValueError(f"at most {MAX_OPTIONAL_FIELDS} unknown optional fields")
    if _depth(unknown) > MAX_NESTING:
        raise ValueError(f"unknown optional fields are nested deeper than {MAX_NESTING}")
    if not _is_plain(unknown):
        raise ValueError("unknown optional fields hold what no message can")
    if len(msgpack.packb(_canonical(unknown), use_bin_type=True)) > MAX_OPTIONAL_BYTES:
        raise ValueError(f"unknown optional fields take more than {MAX_OPTIONAL_BYTES} bytes")


def _is_plain(value: Any) -> bool:
    """Return whether a value has a canonical form: no extension type, no key but text, no NaN."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(key) for key in value) and all(
            map(_is_plain, value.values())
        )
    if isinstance(value, tuple):
        return type(value) is tuple and all(map(_is_plain, value))  # a timestamp is another tuple
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return value is None or isinstance(value, bytes) or (isinstance(value, float) and math.isfinite(value))


M = TypeVar("M", bound=Message)


_CONTAINERS: Final = (dict, list, tuple)


def _canonical(value: Any) -> Any:
    # a leaf is not worth a call: the quantiles of a wide table are tens of thousands of numbers
    if isinstance(value, dict):
        return {
            key: _canonical(item) if isinstance(item, _CONTAINERS) else item
            for key, item in sorted(value.items())
        }
    if isinstance(value, (list, tuple)):
        return [_canonical(item) if isinstance(item, _CONTAINERS) else item for item in value]
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
    """Return the nesting of a decoded value, without recursion, because the peer chooses the depth.

    Counting ends at the first level that is too deep.
    """
    depth, level = 1, [value] if isinstance(value, (dict, tuple)) else []
    while depth <= MAX_NESTING:
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, tuple))
        ]
        if not level:
            break
        depth += 1
    return depth


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


MOST_EXPLAINED: Final = 5
"""So many fields of a message are said to be wrong at once."""


def explain(error: ValidationError) -> str:
    """Say which fields are wrong and why, without repeating what was in them."""
    return "; ".join(f"{where}: {why}" for _, where, why in explained(error))


def explained(
    error: ValidationError, *, most: int | None = MOST_EXPLAINED
) -> list[tuple[tuple[int | str, ...], str, str]]:
    """Return the first fields that are wrong: where each stands, its name, and why it is wrong."""
    errors = error.errors(include_url=False, include_input=False)
    # an array ends at its first bad item, so that it then is too short says nothing
    holds_another = {item["loc"][:length] for item in errors for length in range(len(item["loc"]))}
    errors = [item for item in errors if item["type"] != "too_short" or item["loc"] not in holds_another]
    found = []
    for item in errors[:most]:
        # a field that should not be there has the name its sender chose: short, and without line breaks
        where = ".".join(repr(str(part)[:40])[1:-1] for part in item["loc"]) or "message"
        context = item.get("ctx", {})
        if item["type"] == "union_tag_invalid":  # its text quotes the kind
            why = f"is of no known kind; known are {context['expected_tags']}"
        elif item["type"] == "union_tag_not_found":
            why = f"has no {context['discriminator']}, which says of what kind it is"
        elif item["type"] == "string_pattern_mismatch":
            why = in_words(context["pattern"])
        else:
            why = item["msg"].removeprefix("Value error, ")
        found.append((item["loc"], where, f"{why[:1].lower()}{why[1:]}"))
    return found


_DIGESTS: Final[dict[int, tuple[ReferenceType[Message], bytes]]] = {}
"""By the identity of a message, for as long as it lives; messages do not change."""


def digest(message: Message) -> bytes:
    """Return the SHA-256 of the canonical bytes.

    It is computed once for each message: what a command signs and checks names the terms several times, and
    to encode the terms of a wide table takes milliseconds.
    """
    identity = id(message)
    known = _DIGESTS.get(identity)
    if known is not None and known[0]() is message:
        return known[1]
    found = hashlib.sha256(encode(message)).digest()
    _DIGESTS[identity] = ref(message, lambda _: _DIGESTS.pop(identity, None)), found
    return found


_LIST_HEAD_BYTES: Final = 5
"""Of msgpack before an array, and before a byte string, at most."""


def pack_list(items: Sequence[bytes]) -> bytes:
    """Return the bytes of a list of messages: a msgpack array of byte strings."""
    packed: bytes = msgpack.packb(list(items), use_bin_type=True)
    if len(packed) > MAX_MESSAGE_BYTES:
        raise LimitExceededError("list in bytes", MAX_MESSAGE_BYTES, len(packed))
    return packed


def without_absent(content: dict[str, Any], *names: str) -> dict[str, Any]:
    """Leave fields out that came later and are not used: messages without them keep their bytes."""
    return {name: value for name, value in content.items() if value or name not in names}


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
    unpacker = _unpacker_of(data)
    items = _next_items(unpacker)
    if unpacker.tell() != len(data):
        raise MalformedMessageError("list", "goes on after its end")
    return items


def unpack_lists(data: bytes) -> list[bytes]:
    """Return the items of lists that lie one after another, in a file of our own.

    Raises `MalformedMessageError`.
    """
    unpacker, found = _unpacker_of(data), []
    while unpacker.tell() < len(data):
        found += _next_items(unpacker)
    return found


def _unpacker_of(data: bytes) -> msgpack.Unpacker:
    # no containers inside: they are cheap to send and costly to hold
    unpacker = msgpack.Unpacker(
        max_array_len=0, max_map_len=0, ext_hook=_refuse_extension, max_buffer_size=len(data)
    )
    unpacker.feed(data)
    return unpacker


def _next_items(unpacker: msgpack.Unpacker) -> list[bytes]:
    """Return the items of the list that comes next; the first that is no byte string ends it."""
    items: list[bytes] = []
    try:
        count = unpacker.read_array_header()
        if count > MAX_PARTIES:
            raise MalformedMessageError("list", f"has more than {MAX_PARTIES} items")
        for _ in range(count):
            item = unpacker.unpack()
            if not isinstance(item, bytes):
                raise MalformedMessageError("list", "is not an array of byte strings")
            items.append(item)
    except msgpack.exceptions.OutOfData:
        raise MalformedMessageError("list", "ends in the middle") from None
    except (ValueError, msgpack.exceptions.UnpackException):
        raise MalformedMessageError("list", "is not an array of byte strings, or not msgpack") from None
    return items
