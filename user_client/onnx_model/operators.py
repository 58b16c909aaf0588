"""The operators of ONNX that models of a round consist of, on arrays: this list is what may be run.

Each function takes the attributes of a node and its inputs, and returns its outputs. It raises
`RefusedModelError` for what the operator does not allow, and before it makes an array that is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.onnx_model.wire import DTYPES, Attribute, RefusedModelError

Values = NDArray[Any]
Attributes = dict[str, Attribute]


@dataclass
class Room:
    """How many numbers one value may have, and the most that one had so far."""

    most: int
    largest: int = 0

    def take(self, shape: Iterable[int]) -> None:
        """Raise `RefusedModelError` if a value of this shape is too large."""
        numbers = math.prod(shape)
        if numbers > self.most:
            raise RefusedModelError(f"asks for a value of {numbers:,} numbers, and {self.most:,} are allowed")
        self.largest = max(self.largest, numbers)


@dataclass(frozen=True)
class Call:
    """One node that is run: its attributes, its inputs, and the room for what it makes.

    What it keeps for the next time stands in its ``memory``.
    """

    attributes: Attributes
    inputs: tuple[Values, ...]
    room: Room
    memory: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> Values:
        return self.inputs[0]

    def whole(self, name: str, absent: int) -> int:
        """Return an attribute that is one whole number."""
        value = self.attributes.get(name, absent)
        if not isinstance(value, int):
            raise RefusedModelError(f"has an attribute '{name}' that is no number")
        return value

    def text(self, name: str, absent: str) -> str:
        """Return an attribute that is one word."""
        value = self.attributes.get(name, absent.encode())
        if not isinstance(value, bytes):
            raise RefusedModelError(f"has an attribute '{name}' that is no text")
        return value.decode(errors="replace")

    def numbers(self, name: str, dtype: type = np.float32) -> Values:
        """Return an attribute that is a list of numbers; empty if it is not there."""
        value = self.attributes.get(name, np.empty(0, dtype))
        if not isinstance(value, np.ndarray) or value.dtype != dtype:
            raise RefusedModelError(f"has an attribute '{name}' that is no such list of numbers")
        return value

    def axis(self, absent: int = -1) -> int:
        """Return the attribute ``axis`` of the first input, from 0."""
        return placed(self.whole("axis", absent), self.first.ndim)

    def axes(self) -> tuple[int, ...] | None:
        """Return the axes of a reduction, which stand in the second input or in an attribute."""
        given = whole_numbers(self.inputs[1]) if len(self.inputs) > 1 else self.numbers("axes", np.int64)
        return tuple(placed(int(each), self.first.ndim) for each in given.ravel()) or None


Outputs = tuple[Values, ...]


@dataclass(frozen=True)
class Operator:
    """What an operator does, the attributes it may have, and how many inputs it takes."""

    run: Callable[[Call], Outputs]
    attributes: frozenset[str] = frozenset()
    inputs: tuple[int, int] = (1, 1)


def placed(axis: int, dimensions: int) -> int:
    """Return an axis counted from the front."""
    if not -dimensions <= axis < dimensions:
        raise RefusedModelError(f"names axis {axis} of {dimensions}")
    return axis % dimensions


def whole_numbers(values: Values) -> NDArray[np.int64]:
    """Return numbers that say a shape, a place or a count."""
    if values.dtype not in (np.int64, np.int32):
        raise RefusedModelError("counts with numbers that are not whole")
    return values.astype(np.int64)


def _folded(function: Callable[[Values, Values], Values]) -> Callable[[Call], Outputs]:
    """Return an operator that folds its inputs, which are of one type, from the left."""

    def run(call: Call) -> Outputs:
        found, *others = call.inputs
        for each in others:
            if each.dtype != found.dtype:
                raise RefusedModelError("combines numbers of two types")
            call.room.take(np.broadcast_shapes(found.shape, each.shape))
            found = function(found, each)
        return (found,)

    return run


def _each(function: Callable[[Values], Values]) -> Callable[[Call], Outputs]:
    return lambda call: (np.asarray(function(call.first), call.first.dtype),)


def _div(one: Values, other: Values) -> Values:
    if one.dtype.kind != "f":
        raise RefusedModelError("divides numbers that are whole")
    return np.asarray(one / other)


def logistic(values: Values) -> Values:
    """Return ``1 / (1 + exp(-x))`` without an overflow."""
    small = np.exp(-np.abs(values))
    return np.asarray(np.where(values < 0, small, 1) / (1 + small), values.dtype)


def softmax(values: Values, axis: int = 1) -> Values:
    """Return shares that sum up to 1 along an axis."""
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _cast(call: Call) -> Outputs:
    to = call.whole("to", 0)
    if to not in DTYPES:
        raise RefusedModelError(f"makes numbers of type {to}")
    return (call.first.astype(DTYPES[to]),)


def _clip(call: Call) -> Outputs:
    if any(each.size != 1 for each in call.inputs[1:]):
        raise RefusedModelError("clips by more than one number")
    return (np.clip(call.first, *(each.reshape(()) for each in call.inputs[1:])),)


def _concat(call: Call) -> Outputs:
    call.room.take([sum(each.size for each in call.inputs)])
    return (np.concatenate(call.inputs, axis=call.axis()),)


def _flatten(call: Call) -> Outputs:
    axis = call.whole("axis", 1)
    if not 0 <= axis <= call.first.ndim:
        raise RefusedModelError(f"names axis {axis} of {call.first.ndim}")
    return (call.first.reshape(math.prod(call.first.shape[:axis]), math.prod(call.first.shape[axis:])),)


def _gather(call: Call) -> Outputs:
    axis, places = call.axis(0), whole_numbers(call.inputs[1])
    shape = call.first.shape
    call.room.take((*shape[:axis], *places.shape, *shape[axis + 1 :]))
    return (np.take(call.first, places, axis=axis),)


def shares(values: Values, axis: int) -> Values:
    """Return numbers divided by the sum of their sizes along an axis; where that is 0, as they are."""
    lengths = np.abs(values).sum(axis=axis, keepdims=True)
    return np.asarray(np.divide(values, lengths, out=values.copy(), where=lengths != 0), values.dtype)


def _normalization(call: Call) -> Outputs:
    if call.whole("p", 2) != 1 or call.first.dtype.kind != "f":
        raise RefusedModelError("divides by another length than the sum of sizes")
    return (shares(call.first, call.axis()),)


def _matmul(call: Call) -> Outputs:
    one, other = call.inputs
    if one.dtype != other.dtype or one.ndim < 2 or other.ndim < 2 or one.dtype.kind != "f":
        raise RefusedModelError("multiplies what are no matrices of one type")
    call.room.take((*np.broadcast_shapes(one.shape[:-2], other.shape[:-2]), one.shape[-2], other.shape[-1]))
    return (one @ other,)


def _reduced(function: Any) -> Callable[[Call], Outputs]:
    def run(call: Call) -> Outputs:
        keep = bool(call.whole("keepdims", 1))
        return (np.asarray(function(call.first, axis=call.axes(), keepdims=keep), call.first.dtype),)

    return run


def _reshape(call: Call) -> Outputs:
    shape = whole_numbers(call.inputs[1]).ravel().tolist()
    if call.whole("allowzero", 0) or 0 in shape[call.first.ndim :]:
        raise RefusedModelError("reshapes to an empty value")
    return (call.first.reshape([call.first.shape[i] if each == 0 else each for i, each in enumerate(shape)]),)


def _slice(call: Call) -> Outputs:
    begins, ends, *others = (whole_numbers(each).ravel().tolist() for each in call.inputs[1:])
    axes = others[0] if others else list(range(len(begins)))
    steps = others[1] if len(others) > 1 else [1] * len(begins)
    chosen = [slice(None)] * call.first.ndim
    for begin, end, axis, step in zip(begins, ends, axes, steps, strict=True):
        if step < 1:
            raise RefusedModelError("takes a part backwards")
        chosen[placed(axis, call.first.ndim)] = slice(begin, end, step)
    return (call.first[tuple(chosen)],)


def _topk(call: Call) -> Outputs:
    """Return the least numbers in ascending order, and their places; of equal ones any may be the last."""
    values, counts = call.first, whole_numbers(call.inputs[1])
    axis, largest = call.axis(), call.whole("largest", 1)
    if counts.size != 1 or largest or axis != values.ndim - 1 or not call.whole("sorted", 1):
        raise RefusedModelError("takes others than the least numbers of each row, in their order")
    count = int(counts.ravel()[0])
    if not 1 <= count <= values.shape[-1]:
        raise RefusedModelError(f"takes {count:,} of {values.shape[-1]:,} numbers")
    places = np.argpartition(values, count - 1, axis=-1)[..., :count]
    found = np.take_along_axis(values, places, axis=-1)
    order = np.argsort(found, axis=-1, kind="stable")
    return np.take_along_axis(found, order, axis=-1), np.take_along_axis(places, order, axis=-1)


def _transpose(call: Call) -> Outputs:
    order = call.numbers("perm", np.int64).tolist() or list(range(call.first.ndim))[::-1]
    return (np.transpose(call.first, order),)


def _unsqueeze(call: Call) -> Outputs:
    axes = whole_numbers(call.inputs[1]).ravel().tolist()
    return (np.expand_dims(call.first, tuple(placed(each, call.first.ndim + len(axes)) for each in axes)),)


def _argmax(call: Call) -> Outputs:
    found = np.argmax(call.first, axis=call.axis(0), keepdims=bool(call.whole("keepdims", 1)))
    return (np.asarray(found, np.int64),)


_AXIS, _KEEP = frozenset({"axis"}), frozenset({"axes", "keepdims"})
_ANY: Final = (1, 2**16)
"""One for each class, where a machine for each hands on its answer."""
STANDARD: Final = {
    "Add": Operator(_folded(np.add), inputs=(2, 2)),
    "ArgMax": Operator(_argmax, frozenset({"axis", "keepdims"})),
    "Cast": Operator(_cast, frozenset({"to"})),
    "Clip": Operator(_clip, inputs=(3, 3)),
    "Concat": Operator(_concat, _AXIS, _ANY),
    "Cos": Operator(_each(np.cos)),
    "Div": Operator(_folded(_div), inputs=(2, 2)),
    "Exp": Operator(_each(np.exp)),
    "Flatten": Operator(_flatten, _AXIS),
    "Gather": Operator(_gather, _AXIS, (2, 2)),
    "Identity": Operator(_each(np.asarray)),
    "LpNormalization": Operator(_normalization, frozenset({"axis", "p"})),
    "MatMul": Operator(_matmul, inputs=(2, 2)),
    "Max": Operator(_folded(np.maximum), inputs=_ANY),
    "Mul": Operator(_folded(np.multiply), inputs=(2, 2)),
    "ReduceMax": Operator(_reduced(np.max), _KEEP, (1, 2)),
    "ReduceSum": Operator(_reduced(np.sum), _KEEP, (1, 2)),
    "Relu": Operator(_each(lambda values: np.maximum(values, 0))),
    "Reshape": Operator(_reshape, frozenset({"allowzero"}), (2, 2)),
    "Sigmoid": Operator(_each(logistic)),
    "Slice": Operator(_slice, inputs=(3, 5)),
    "Softmax": Operator(lambda call: (softmax(call.first, call.axis()),), _AXIS),
    "Sub": Operator(_folded(np.subtract), inputs=(2, 2)),
    "Sum": Operator(_folded(np.add), inputs=_ANY),
    "TopK": Operator(_topk, frozenset({"axis", "largest", "sorted"}), (2, 2)),
    "Transpose": Operator(_transpose, frozenset({"perm"})),
    "Unsqueeze": Operator(_unsqueeze, inputs=(2, 2)),
}
"""The operators of the domain ``ai.onnx``, whose name in a file is empty."""
