"""The cases of models.json: ONNX files within the profile of docs/protocol.md, "Downlink", and outside of it.

The files are written field by field, with the numbers that onnx.proto has for them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.vectors.examples import Case
from tests.vectors.packing import runs

REFUSED: Final = "refused"
REP: Final = [[0.5, -0.25], [-1.0, 2.0], [0.0, 0.0]]
W, B = [[1.0, -2.0, 0.5], [0.25, 1.5, -1.0]], [0.125, -0.5, 0.0]
LAST, LAST_B = [[1.0, -1.0], [0.5, 2.0], [-0.75, 0.25]], [0.0, 0.25]
FLOAT, STRING, FLOAT16 = 1, 8, 10
Field = tuple[int, int | float | bytes | str]


def varint(value: int) -> bytes:
    value %= 2**64
    head = b""
    while value >= 0x80:
        head += bytes([value & 0x7F | 0x80])
        value >>= 7
    return head + bytes([value])


def message(*fields: Field) -> bytes:
    """Return a protobuf message: whole numbers, 32-bit floats, and what has a length."""
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            found += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += varint(number << 3 | 2) + varint(len(data)) + data
    return found


def tensor(name: str, rows: Any, *changes: Field, raw: bool = False) -> bytes:
    """Return an initializer of 32-bit floats; ``changes`` take the place of its fields."""
    shape, flat = [len(rows)], rows
    if isinstance(rows[0], list):
        shape, flat = [len(rows), len(rows[0])], [each for row in rows for each in row]
    fields: list[Field] = [*((1, size) for size in shape), (2, FLOAT), (8, name)]
    fields.append((9 if raw else 4, struct.pack(f"<{len(flat)}f", *flat)))
    replaced = {number for number, _ in changes}
    return message(*(field for field in fields if field[0] not in replaced), *changes)


def attribute(name: str, value: Any) -> bytes:
    """Return an attribute: a whole number, a text, or a list of floats, whole numbers or texts."""
    match value:
        case int():
            return message((1, name), (3, value), (20, 2))
        case str():
            return message((1, name), (4, value), (20, 3))
        case [float(), *_]:
            return message((1, name), *((7, each) for each in value), (20, 6))
        case [int(), *_]:
            return message((1, name), *((8, each) for each in value), (20, 7))
        case [str(), *_]:
            return message((1, name), *((9, each) for each in value), (20, 8))
    raise TypeError(name)


def node(
    operator: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *more: Field,
    domain: str = "",
    **attributes: Any,
) -> bytes:
    """Return a node; ``more`` are fields behind all others."""
    fields: list[Field] = [*((1, each) for each in inputs), *((2, each) for each in outputs), (4, operator)]
    fields += [(5, attribute(name, value)) for name, value in attributes.items()]
    return message(*fields, *([(7, domain)] if domain else []), *more)


def value_info(name: str, width: int) -> bytes:
    """Return an input or output: 32-bit floats, any number of rows."""
    shape = message((1, message((2, "rows"))), (1, message((1, width))))
    return message((1, name), (2, message((1, message((1, FLOAT), (2, shape))))))


def opset(domain: str, version: int) -> bytes:
    return message((1, domain), (2, version)) if domain else message((2, version))


def file(
    nodes: Sequence[bytes],
    tensors: Sequence[bytes],
    *more: Field,
    ir: int | None = 9,
    opsets: Sequence[tuple[str, int]] = (("", 17),),
    inputs: Sequence[str] = ("rep",),
    outputs: Sequence[str] = ("probabilities",),
) -> bytes:
    graph = message(
        *((1, each) for each in nodes),
        (2, "odc"),
        *((5, each) for each in tensors),
        *((11, value_info(name, 2)) for name in inputs),
        *((12, value_info(name, 2)) for name in outputs),
    )
    version: list[Field] = [] if ir is None else [(1, ir)]
    return message(*version, (2, "a test"), (7, graph), *((8, opset(*each)) for each in opsets), *more)


TENSORS: Final = [tensor("w", W), tensor("b", B), tensor("v", LAST), tensor("c", LAST_B)]
HIDDEN: Final = [
    node("MatMul", ["rep", "w"], ["h0"]),
    node("Add", ["h0", "b"], ["h1"]),
    node("Relu", ["h1"], ["h2"]),
    node("MatMul", ["h2", "v"], ["s0"]),
    node("Add", ["s0", "c"], ["s1"]),
]
MLP: Final = [*HIDDEN, node("Softmax", ["s1"], ["probabilities"], axis=-1)]
ML: Final = (("", 17), ("ai.onnx.ml", 1))
LINEAR: Final[dict[str, Any]] = {
    "coefficients": [1.0, 0.25, -2.0, 1.5, 0.5, -1.0],
    "intercepts": B,
    "classlabels_ints": [0, 1, 2],
    "multi_class": 0,
}


def linear(transform: str) -> bytes:
    given = {**LINEAR, "post_transform": transform}
    return node("LinearClassifier", ["rep"], ["label", "probabilities"], domain="ai.onnx.ml", **given)


def _product(row: Sequence[float], w: Sequence[Sequence[float]], b: Sequence[float]) -> list[float]:
    return [sum(x * w[i][j] for i, x in enumerate(row)) + b[j] for j in range(len(b))]


def _softmax(scores: Sequence[float]) -> list[float]:
    powers = [math.exp(each - max(scores)) for each in scores]
    return [each / sum(powers) for each in powers]


def _scores(row: Sequence[float]) -> list[float]:
    return _product([max(each, 0.0) for each in _product(row, W, B)], LAST, LAST_B)


def accepted() -> Iterator[Case]:
    """Files within the profile, and what they answer for the rows of `REP`."""

    def case(name: str, data: bytes, probabilities: list[list[float]]) -> Case:
        return {"name": name, "parts": runs(data), "verdict": "valid", "probabilities": probabilities}

    of_mlp = [_softmax(_scores(row)) for row in REP]
    of_linear = [_softmax(_product(row, W, B)) for row in REP]
    yield case("a layer of hidden units", file(MLP, TENSORS), of_mlp)
    raw = [tensor("w", W, raw=True), *TENSORS[1:]]
    yield case("numbers as raw bytes", file(MLP, raw, ir=7, opsets=[("", 13)]), of_mlp)
    yield case("the newest versions", file(MLP, TENSORS, ir=10, opsets=[("", 22), ("ai.onnx.ml", 3)]), of_mlp)
    label = node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0)
    yield case("another output, which is ignored",
        file([*MLP, label], TENSORS, outputs=["label", "probabilities"]), of_mlp)  # fmt: skip
    yield case("a linear classifier", file([linear("SOFTMAX")], [], opsets=ML), of_linear)
    logistic = [[1 / (1 + math.exp(-each)) for each in _product(row, W, B)] for row in REP]
    shares = [[each / sum(row) for each in row] for row in logistic]
    raw_linear = linear("LOGISTIC").replace(b"probabilities", b"unscaled_rows")
    norm = node("Normalizer", ["unscaled_rows"], ["probabilities"], domain="ai.onnx.ml", norm="L1")
    yield case("one class against the rest", file([raw_linear, norm], [], opsets=ML), shares)
    other = node("Softmax", ["s0"], ["p1"], axis=1)
    first = node("Softmax", ["s1"], ["p0"], axis=1)
    mean = [node("Sum", ["p0", "p1"], ["p"]), node("Mul", ["p", "half"], ["probabilities"])]
    without = [_softmax([x - y for x, y in zip(_scores(row), LAST_B, strict=True)]) for row in REP]
    both = [[(x + y) / 2 for x, y in zip(*rows, strict=True)] for rows in zip(of_mlp, without, strict=True)]
    yield case("the mean of two",
        file([*HIDDEN, first, other, *mean], [*TENSORS, tensor("half", [0.5])]), both)  # fmt: skip
    leaves = [[0.75, 0.25] if row[0] <= 0 else [0.0, 1.0] for row in REP]
    yield case("a tree", file([tree()], [], opsets=ML), leaves)


def tree(modes: Sequence[str] = ("BRANCH_LEQ", "LEAF", "LEAF")) -> bytes:
    """One split of the first number of a row, at 0."""
    return node(
        "TreeEnsembleClassifier", ["rep"], ["label", "probabilities"], domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_modes=[*modes],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], nodes_values=[0.0, 0.0, 0.0],
        class_treeids=[0, 0, 0], class_nodeids=[1, 1, 2], class_ids=[0, 1, 1],
        class_weights=[0.75, 0.25, 1.0], classlabels_int64s=[0, 1], post_transform="NONE",
    )  # fmt: skip


def outside() -> Iterator[tuple[str, bytes]]:
    """Files that no honest analyst sends: each is one with a single change."""
    good = file(MLP, TENSORS)
    for name, ir in (("IR version 6", 6), ("IR version 11", 11), ("no IR version", None)):
        yield name, file(MLP, TENSORS, ir=ir)
    for name, opsets in [
        ("opset 12", [("", 12)]),
        ("opset 23", [("", 23)]),
        ("opset 4 of ai.onnx.ml", [("", 17), ("ai.onnx.ml", 4)]),
        ("another domain", [("", 17), ("com.example", 1)]),
        ("another domain of a version that ours has", [("", 17), ("com.example", 17)]),
        ("no opset", []),
    ]:
        yield name, file(MLP, TENSORS, opsets=opsets)
    yield "an operator of a domain without an opset", file([linear("SOFTMAX")], [])
    yield "cut off", good[:-1]
    yield "nothing", b""
    yield "two graphs", good + message((7, b""))
    yield "the IR version twice", good + message((1, 9))
    yield "the IR version as bytes", file(MLP, TENSORS, (1, b"9"), ir=None)
    yield "a function", good + message((25, message((1, "Steal"))))
    yield "metadata", good + message((14, message((1, "key"), (2, "value"))))
    yield "two inputs", file(MLP, TENSORS, inputs=["rep", "more"])
    yield "another input", file(MLP, TENSORS, inputs=["rows"])
    yield "no output of this name", file(MLP, TENSORS, outputs=["h1"])
    yield "an output that nothing makes", file(MLP, TENSORS, outputs=["probabilities", "nothing"])
    yield from _of_nodes()
    yield from _of_tensors()


def _of_nodes() -> Iterator[tuple[str, bytes]]:
    soft, axis = ("Softmax", ["s1"], ["probabilities"]), (1, "axis")
    a_graph, a_float = message(axis, (6, b""), (20, 5)), message(axis, (2, 1.0), (20, 1))
    a_tensor, a_number = message(axis, (5, tensor("t", B)), (20, 4)), attribute("axis", 1)
    for name, last in [
        ("an operator that is not in the list", node("Hardmax", *soft[1:])),
        ("an operator in another domain", node(*soft, domain="ai.onnx.ml")),
        ("a loop", node("Loop", ["", "", "s1"], ["probabilities"], (5, a_graph))),
        ("an attribute that is a graph", node(*soft, (5, a_graph))),
        ("an attribute that is a tensor", node(*soft, (5, a_tensor))),
        ("an attribute that is one float", node(*soft, (5, a_float))),
        ("an attribute that says another type", node(*soft, (5, message(axis, (3, -1), (20, 1))))),
        ("an attribute twice", node(*soft, (5, a_number), (5, a_number))),
        ("33 attributes", node(*soft, *((5, attribute(f"a{i}", 1)) for i in range(33)))),
        ("a value that is made later", node("Softmax", ["later"], ["probabilities"])),
        ("an output with the name of an initializer", node("Softmax", ["s1"], ["w"])),
        ("an output with the name of the input", node("Softmax", ["s1"], ["rep"])),
        ("a name of 1001 bytes", node("Softmax", ["s1"], ["n" * 1001])),
    ]:
        yield name, file([*HIDDEN, last, *MLP[-1:]] if b"probabilities" not in last else [*HIDDEN, last],
            TENSORS, opsets=ML)  # fmt: skip
    yield "a value made twice", file([*MLP, node("Relu", ["s1"], ["h0"])], TENSORS)
    yield (
        "rows below each other",
        file([*MLP[:-1], node("Concat", ["s1", "s1"], ["probabilities"], axis=0)], TENSORS),
    )
    yield "shapes that do not fit", file([*HIDDEN, node("MatMul", ["s1", "v"], ["probabilities"])], TENSORS)
    swapped = linear("SOFTMAX").replace(
        b"\x12\x05label\x12\x0dprobabilities", b"\x12\x0dprobabilities\x12\x05label"
    )
    yield "the label in the place of the probabilities", file([swapped], [], opsets=ML)
    yield "a transform that is not in the list", file([linear("PROBIT")], [], opsets=ML)
    norm = node("Normalizer", ["s1"], ["probabilities"], domain="ai.onnx.ml", norm="L2")
    yield "a norm that is not in the list", file([*HIDDEN, norm], TENSORS, opsets=ML)
    yield "a tree that asks otherwise", file([tree(["BRANCH_GT", "LEAF", "LEAF"])], [], opsets=ML)
    order = 4097
    large = [tensor("tall", [[0.0]] * order), tensor("wide", [[0.0] * order])]
    yield (
        "a value of more than 2^24 numbers",
        file(
            [
                node("MatMul", ["tall", "wide"], ["square"]),
                node("MatMul", ["square", "tall"], ["column"]),
                node("MatMul", ["wide", "column"], ["one"]),
                *HIDDEN,
                node("Add", ["s1", "one"], ["probabilities"]),
            ],
            [*TENSORS, *large],
        ),
    )


def _of_tensors() -> Iterator[tuple[str, bytes]]:
    numbers = struct.pack("<6f", *(each for row in W for each in row))
    for name, given in [
        ("an initializer of 16-bit floats", tensor("w", W, (2, FLOAT16), (9, bytes(12)), (4, b""))),
        ("an initializer of texts", tensor("w", W, (2, STRING), (6, "a"), (4, b""))),
        ("fewer numbers than the shape says", tensor("w", W, (4, numbers[:20]))),
        ("more numbers than the shape says", tensor("w", W, (4, numbers + numbers[:4]))),
        ("half a number", tensor("w", W, (4, numbers[:22]))),
        ("numbers in two places", message((1, 2), (1, 3), (2, FLOAT), (8, "w"), (4, numbers), (9, numbers))),
        ("numbers of another type", message((1, 2), (1, 3), (2, FLOAT), (8, "w"), (10, bytes(48)))),
        ("a dimension below zero", message((1, -2), (1, -3), (2, FLOAT), (8, "w"), (4, numbers))),
        ("nine dimensions", message(*[(1, 1)] * 7, (1, 2), (1, 3), (2, FLOAT), (8, "w"), (4, numbers))),
        ("numbers in another file",
            message((1, 2), (1, 3), (2, FLOAT), (8, "w"), (13, message((1, "location"), (2, "f"))), (14, 1))),
        ("a part of a larger one", tensor("w", W, (3, message((1, 0), (2, 6))))),
    ]:  # fmt: skip
        yield name, file(MLP, [given, *TENSORS[1:]])
    for name, spare in [
        (
            "an initializer of a type that is not in the list",
            message((1, 2), (2, 12), (8, "u"), (9, bytes(8))),
        ),
        ("no numbers, where another type has them", message((1, 0), (2, FLOAT), (8, "u"), (7, b""))),
        (
            "an unused one, a dimension below zero",
            message((1, -1), (1, -1), (2, FLOAT), (8, "u"), (9, bytes(4))),
        ),
        ("an unused one, fewer numbers than its shape", message((1, 2), (2, FLOAT), (8, "u"), (9, bytes(4)))),
    ]:
        yield name, file(MLP, [*TENSORS, spare])
    yield "two initializers of one name", file(MLP, [*TENSORS, tensor("w", W)])
    yield "an initializer with the name of the input", file(MLP, [*TENSORS, tensor("rep", W)])


def models() -> dict[str, Any]:
    """The content of models.json."""
    refused = [{"name": name, "parts": runs(data), "verdict": REFUSED} for name, data in outside()]
    return {"rep": REP, "models": [*accepted(), *refused]}
