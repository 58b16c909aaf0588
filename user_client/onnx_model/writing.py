"""Write a small ONNX file: what a map of rows is made of, without the library `onnx`.

An institution that only sends and predicts does not have that library. `wire` reads what is written here.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

IR_VERSION: Final = 8
OPSET: Final = 13
FLOAT, DOUBLE = 1, 11
_TYPE_OF: Final = {"float32": FLOAT, "int64": 7, "float64": DOUBLE}
_INT: Final = 2
"""The type of an attribute that is one whole number."""


class Writer:
    """A graph under construction, from the input (n, features) to one output (n, width) of 32-bit floats."""

    def __init__(self, features: int) -> None:
        self._features = features
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self.input = "rows"

    def __repr__(self) -> str:
        return f"<Writer of {len(self._nodes)} nodes>"

    def constant(self, values: Any) -> str:
        """Add a constant of 64-bit floats, or of 64-bit whole numbers, and return its name."""
        array = np.ascontiguousarray(values)
        array = array if array.dtype == np.int64 else array.astype(np.float64)
        name = f"constant_{len(self._constants)}"
        little = array.astype(array.dtype.newbyteorder("<"))
        dims = b"".join(_number(1, each) for each in array.shape)
        kind = _number(2, _TYPE_OF[str(array.dtype)])
        self._constants.append(dims + kind + _bytes(8, name.encode()) + _bytes(9, little.tobytes()))
        return name

    def node(self, operator: str, *inputs: str, **attributes: int) -> str:
        """Add a node with one output, and return the output's name."""
        name = f"value_{len(self._nodes)}"
        content = b"".join(_bytes(1, each.encode()) for each in inputs) + _bytes(2, name.encode())
        content += _bytes(4, operator.encode())
        for attribute, value in attributes.items():
            content += _bytes(5, _bytes(1, attribute.encode()) + _number(3, value) + _number(20, _INT))
        self._nodes.append(content)
        return name

    def file(self, found: str, width: int) -> bytes:
        """Return the file whose output is a value, (n, ``width``) of 64-bit floats."""
        output = self.node("Cast", found, to=FLOAT)
        graph = b"".join(_bytes(1, each) for each in self._nodes) + _bytes(2, b"map")
        graph += b"".join(_bytes(5, each) for each in self._constants)
        graph += _bytes(11, _matrix(self.input, self._features)) + _bytes(12, _matrix(output, width))
        return _number(1, IR_VERSION) + _bytes(7, graph) + _bytes(8, _bytes(1, b"") + _number(2, OPSET))


def cosine_map(frequencies: NDArray[np.float64], phases: NDArray[np.float64]) -> bytes:
    """Return the file of ``sqrt(2 / D) cos(W x + b)`` for W, (D, m), and b, (D,)."""
    count, features = frequencies.shape
    graph = Writer(features)
    wide = graph.node("Cast", graph.input, to=DOUBLE)
    angles = graph.node("MatMul", wide, graph.constant(frequencies.T))
    waves = graph.node("Cos", graph.node("Add", angles, graph.constant(phases)))
    return graph.file(graph.node("Mul", waves, graph.constant(np.sqrt(2 / count))), count)


def kernel_map(
    landmarks: NDArray[np.float64], inverse_root: NDArray[np.float64], kernel_width: float
) -> bytes:
    """Return the file of ``k(x, Z) R``, with ``k(x, z) = exp(-|x - z|^2 / (2 s^2))``.

    Parameters
    ----------
    landmarks : (r, m) ndarray
        Z.
    inverse_root : (r, D) ndarray
        R.
    kernel_width : float
        s, in the unit of the rows.
    """
    graph = Writer(landmarks.shape[1])
    wide = graph.node("Cast", graph.input, to=DOUBLE)
    products = graph.node("MatMul", wide, graph.constant(landmarks.T))
    squares = graph.node(
        "ReduceSum", graph.node("Mul", wide, wide), graph.constant(np.array([1], np.int64)), keepdims=1
    )
    # -|x - z|^2 = 2 x z - |z|^2 - |x|^2
    doubled = graph.node("Mul", products, graph.constant(2.0))
    less = graph.node("Sub", doubled, graph.constant(np.square(landmarks).sum(axis=1)))
    scaled = graph.node("Div", graph.node("Sub", less, squares), graph.constant(2 * kernel_width**2))
    similar = graph.node("Exp", scaled)
    return graph.file(graph.node("MatMul", similar, graph.constant(inverse_root)), inverse_root.shape[1])


def _matrix(name: str, width: int) -> bytes:
    """Return an input or output: a matrix of 32-bit floats with any number of rows."""
    dims = _bytes(1, _bytes(2, b"rows")) + _bytes(1, _number(1, width))
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _number(1, FLOAT) + _bytes(2, dims)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
