"""Read an ONNX file: the protobuf messages and fields that models of a round have, and no other.

Strict where protobuf is lenient: an unknown field, a field that comes twice or a number of another kind ends
the reading, so that all that is in the file is checked. The lists of a large forest are decoded whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_PARTS: Final = 2**16
"""Nodes, and constants, of a graph: a machine for each class has some ten."""
MAX_ATTRIBUTES: Final = 32
"""Of one node; a forest has sixteen."""
MAX_NAME_BYTES: Final = 1000
MAX_DIMENSIONS: Final = 8
_VARINT_BYTES: Final = 10

Values = NDArray[Any]
Attribute = int | float | bytes | Values | list[bytes]
Fields = dict[int, list[Any]]


class RefusedModelError(ValueError):
    """The file is no model of a round, or asks for too much."""


class _Kind(Enum):
    """What a field holds: a number, bytes, or a list of numbers, one behind the other."""

    NUMBER = "number"
    BYTES = "bytes"
    EACH = "each"
    INTS = "ints"
    FLOATS = "floats"


_WIRE_TYPES: Final = {_Kind.NUMBER: 0, _Kind.BYTES: 2, _Kind.EACH: 2, _Kind.INTS: 0, _Kind.FLOATS: 5}
_TEXT: Final = _Kind.BYTES
_MODEL: Final = {
    1: _Kind.NUMBER,  # ir_version
    2: _TEXT,  # producer_name
    3: _TEXT,  # producer_version
    4: _TEXT,  # domain
    5: _Kind.NUMBER,  # model_version
    6: _TEXT,  # doc_string
    7: _Kind.BYTES,  # graph
    8: _Kind.EACH,  # opset_import
}
_OPSET: Final = {1: _TEXT, 2: _Kind.NUMBER}
_GRAPH: Final = {
    1: _Kind.EACH,  # node
    2: _TEXT,  # name
    5: _Kind.EACH,  # initializer
    10: _TEXT,  # doc_string
    11: _Kind.EACH,  # input
    12: _Kind.EACH,  # output
    13: _Kind.EACH,  # value_info
}
_NODE: Final = {
    1: _Kind.EACH,  # input
    2: _Kind.EACH,  # output
    3: _TEXT,  # name
    4: _TEXT,  # op_type
    5: _Kind.EACH,  # attribute
    6: _TEXT,  # doc_string
    7: _TEXT,  # domain
}
_ATTRIBUTE: Final = {
    1: _TEXT,  # name
    2: _Kind.FLOATS,  # f
    3: _Kind.NUMBER,  # i
    4: _Kind.BYTES,  # s
    7: _Kind.FLOATS,
    8: _Kind.INTS,
    9: _Kind.EACH,  # strings
    13: _TEXT,  # doc_string
    20: _Kind.NUMBER,  # type
}
_TYPES: Final = {1: 2, 2: 3, 3: 4, 6: 7, 7: 8, 8: 9}
"""The field that holds the value of an attribute of each type."""
_TENSOR: Final = {
    1: _Kind.INTS,  # dims
    2: _Kind.NUMBER,  # data_type
    4: _Kind.BYTES,  # float_data, packed
    5: _Kind.BYTES,  # int32_data
    7: _Kind.BYTES,  # int64_data
    8: _TEXT,  # name
    9: _Kind.BYTES,  # raw_data
    10: _Kind.BYTES,  # double_data
    12: _TEXT,  # doc_string
}
_VALUE: Final = {1: _TEXT, 2: _Kind.BYTES, 3: _TEXT}
DTYPES: Final[Mapping[int, str]] = {1: "<f4", 6: "<i4", 7: "<i8", 11: "<f8"}
"""The types of numbers, by their number in ONNX."""
_PACKED_IN: Final = {1: 4, 6: 5, 7: 7, 11: 10}


@dataclass(frozen=True)
class Node:
    """One operator with its attributes."""

    operator: tuple[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]


@dataclass(frozen=True)
class Graph:
    """What a file holds.

    Attributes
    ----------
    ir_version : int
    opsets : tuple of (domain, version)
    nodes : tuple of Node
    constants : dict
        Its initializers by name.
    inputs, outputs : tuple of str
        Inputs that are no constants.
    """

    ir_version: int
    opsets: tuple[tuple[str, int], ...]
    nodes: tuple[Node, ...]
    constants: dict[str, Values]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read(file: bytes) -> Graph:
    """Return the graph of a file; raises `RefusedModelError` for what no model of a round has."""
    model = _fields(memoryview(file), _MODEL, "the model")
    graph = _fields(_one(model, 7, b""), _GRAPH, "the graph")
    for number in (1, 5, 11, 12):
        if len(graph.get(number, ())) > MAX_PARTS:
            raise RefusedModelError(f"has more than {MAX_PARTS:,} parts of one kind")
    constants = dict(_tensor(each) for each in graph.get(5, ()))
    if len(constants) < len(graph.get(5, ())):
        raise RefusedModelError("has two constants of one name")
    inputs = [name for each in graph.get(11, ()) if (name := _value_name(each)) not in constants]
    return Graph(
        ir_version=_one(model, 1, 0),
        opsets=tuple(_opset(each) for each in model.get(8, ())),
        nodes=tuple(_node(each) for each in graph.get(1, ())),
        constants=constants,
        inputs=tuple(inputs),
        outputs=tuple(_value_name(each) for each in graph.get(12, ())),
    )


def _opset(data: memoryview) -> tuple[str, int]:
    found = _fields(data, _OPSET, "an opset")
    return _text(_one(found, 1, b"")), _one(found, 2, 0)


def _value_name(data: memoryview) -> str:
    return _text(_one(_fields(data, _VALUE, "an input or output"), 1, b""))


def _node(data: memoryview) -> Node:
    found = _fields(data, _NODE, "a node")
    attributes = [_attribute(each) for each in found.get(5, ())]
    if len(attributes) > MAX_ATTRIBUTES or len(dict(attributes)) < len(attributes):
        raise RefusedModelError("has a node with two attributes of one name, or too many")
    return Node(
        (_text(_one(found, 7, b"")), _text(_one(found, 4, b""))),
        tuple(map(_text, found.get(1, ()))),
        tuple(map(_text, found.get(2, ()))),
        dict(attributes),
    )


def _attribute(data: memoryview) -> tuple[str, Attribute]:
    found = _fields(data, _ATTRIBUTE, "an attribute")
    name, field = _text(_one(found, 1, b"")), _TYPES.get(_one(found, 20, 0))
    if field is None or set(found) & set(_TYPES.values()) - {field}:
        raise RefusedModelError(f"has an attribute '{name}' of a type that no model of a round has")
    if field == 9:
        return name, [bytes(each) for each in found.get(9, ())]
    empty = {2: np.zeros(1, np.float32), 3: 0, 4: b"", 7: np.empty(0, np.float32), 8: np.empty(0, np.int64)}
    value = _one(found, field, empty[field])
    if field == 2:
        if len(value) != 1:
            raise RefusedModelError(f"has an attribute '{name}' of more than one number")
        return name, float(value[0])
    return name, bytes(value) if field == 4 else value


def _tensor(data: memoryview) -> tuple[str, Values]:
    """Return name and numbers of a constant."""
    found = _fields(data, _TENSOR, "a constant")
    name, kind = _text(_one(found, 8, b"")), _one(found, 2, 0)
    if kind not in DTYPES:
        raise RefusedModelError(f"has a constant of type {kind}")
    shape = _one(found, 1, np.empty(0, np.int64)).tolist()
    packed, raw = _one(found, _PACKED_IN[kind], b""), _one(found, 9, b"")
    others = {4, 5, 7, 9, 10} & set(found) - {_PACKED_IN[kind], 9}
    if len(shape) > MAX_DIMENSIONS or min(shape, default=0) < 0 or (len(packed) and len(raw)) or others:
        raise RefusedModelError("has a constant whose numbers or dimensions are not one list")
    if kind in (6, 7) and len(packed):
        numbers = _varints(packed)[0].astype(DTYPES[kind])
    else:
        bare = packed if len(packed) else raw
        if len(bare) % np.dtype(DTYPES[kind]).itemsize:
            raise RefusedModelError("has a constant with half a number")
        numbers = np.frombuffer(bare, DTYPES[kind])
    count = 1
    for each in shape:
        count *= each  # of Python, which does not overflow
    if len(numbers) != count:
        raise RefusedModelError(f"has a constant of {count:,} numbers, of which {len(numbers):,} are there")
    return name, numbers.reshape(shape)


def _fields(data: memoryview, kinds: Mapping[int, _Kind], what: str) -> Fields:
    """Return the fields of a message by number."""
    found: Fields = {}
    at = 0
    while at < len(data):
        began = at
        key, at = _varint(data, at)
        number, kind = key >> 3, kinds.get(key >> 3)
        if kind is None or key & 7 != _WIRE_TYPES[kind]:
            raise RefusedModelError(f"has field {number} in {what}, which no model of a round has there")
        value: Any
        if kind is _Kind.INTS:
            value, at = _run_of_ints(data, began, key)
        elif kind is _Kind.FLOATS:
            value, at = _run_of_floats(data, began, key)
        elif kind is _Kind.NUMBER:
            value, at = _varint(data, at)
            value -= (value >> 63) << 64  # two's complement
        else:
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise RefusedModelError(f"ends within {what}")
            value, at = data[at : at + length], at + length
        if number in found and kind is not _Kind.EACH:
            raise RefusedModelError(f"has field {number} of {what} twice")
        found.setdefault(number, []).append(value)
    return found


def _one(found: Fields, number: int, absent: Any) -> Any:
    return found[number][0] if number in found else absent


def _text(data: bytes | memoryview) -> str:
    if len(data) > MAX_NAME_BYTES:
        raise RefusedModelError(f"has a name of {len(data):,} bytes")
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        raise RefusedModelError("has a name that is no text") from None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned number of 64 bits, and where the next field begins."""
    value = 0
    for place, byte in enumerate(data[at : at + _VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + place + 1
    raise RefusedModelError("has a number that is too long, or ends within one")


def _varints(data: bytes | memoryview) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return numbers one behind the other, each with the first and the last place it stands at."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if len(raw) and (not len(ends) or ends[-1] != len(raw) - 1):
        raise RefusedModelError("ends within a number")
    begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    widths = ends - begins + 1
    if widths.max(initial=0) > _VARINT_BYTES:
        raise RefusedModelError("has a number that is too long, or ends within one")
    values = np.zeros(len(ends), np.uint64)
    for place in range(int(widths.max(initial=0))):
        longer = widths > place
        digits = raw[begins[longer] + place].astype(np.uint64) & np.uint64(0x7F)
        values[longer] |= digits << np.uint64(7 * place)
    return values.view(np.int64), begins, ends


def _run_of_ints(data: memoryview, at: int, key: int) -> tuple[NDArray[np.int64], int]:
    """Return the numbers of a field that is repeated from here on, and where the next field begins."""
    rest = np.frombuffer(data, np.uint8, offset=at)
    ends = np.flatnonzero(rest < 0x80)
    if len(ends) < 2:
        raise RefusedModelError("ends within a number")
    # key and number take turns, and a key is one byte
    before = np.concatenate([[-1], ends[1::2]])[: len(ends[0::2])]
    is_key = (ends[0::2] == before + 1) & (rest[ends[0::2]] == key)
    count = int(is_key.argmin()) if not is_key.all() else len(is_key)
    count = min(count, len(ends) // 2)
    stop = int(ends[2 * count - 1]) + 1
    return _varints(data[at : at + stop])[0][1::2], at + stop


def _run_of_floats(data: memoryview, at: int, key: int) -> tuple[NDArray[np.float32], int]:
    """Return the same of 32-bit floats."""
    whole = (len(data) - at) // 5
    if not whole:
        raise RefusedModelError("ends within a number")
    run = np.frombuffer(data, [("key", "u1"), ("value", "<f4")], count=whole, offset=at)
    is_key = run["key"] == key
    count = whole if is_key.all() else int(is_key.argmin())
    return run["value"][:count].astype(np.float32), at + 5 * count
