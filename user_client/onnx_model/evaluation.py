"""Check the analyst's model against the profile of docs/protocol.md, and evaluate it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.onnx_model.form import Form, check_form
from user_client.onnx_model.operators import Call, Operator, Room, Values
from user_client.onnx_model.profiles import OF_A_ROUND, Profile
from user_client.onnx_model.wire import Graph, Node, RefusedModelError, read

INPUT: Final = "rep"
"""How the input of a model of a round is called."""
SHARED: Final = ("shared_rows", "shared_targets")
"""The constants of a model that is made of its training rows."""
LABEL_SCALE: Final = ("label_scale", "label_shift")
"""The constants with which a model of numbers undoes the scale of its labels."""
IR_VERSIONS: Final = range(7, 11)
OPSETS: Final = {"": range(13, 23), "ai.onnx.ml": range(1, 4)}
OPERATORS: Final = OF_A_ROUND.operators
ALWAYS_ALLOWED: Final = 2**24
"""Numbers of one value. A file with more of them may have as many in a value as it has itself."""
_SCALER: Final = ("ai.onnx.ml", "Scaler")
_BLOCK: Final = 2**21
"""Numbers of the largest value while a block of rows is evaluated: 16 MB in double precision."""
_MOST_ROWS: Final = 4096


@dataclass(frozen=True)
class _Step:
    """A node that an output needs, with the values that nobody needs after it."""

    node: Node
    operator: Operator
    finished: tuple[str, ...]
    memory: dict[str, Any] = field(default_factory=dict)


class Evaluation:
    """A model, checked and ready.

    Raises `RefusedModelError` for one outside the profile, or with none of the forms if any are given.
    """

    def __init__(self, file: bytes, forms: Sequence[Form] = (), profile: Profile = OF_A_ROUND) -> None:
        self._graph, self._profile = read(file), profile
        self._room = max(ALWAYS_ALLOWED, len(file) // 4)
        _check(self._graph, profile)
        (self._input,) = self._graph.inputs
        check_form(self._graph, len(file), forms)
        self._constants: dict[str, Values] = dict(self._graph.constants)
        self._plans: dict[str, list[_Step]] = {}
        self._rows_at_once: dict[tuple[str, int], int] = {}

    def run(self, rows: NDArray[np.float32], output: str) -> NDArray[np.float32]:
        """Return one output for rows, (n, m); each depends on its own row alone.

        Without a name it is the only one of the file.
        """
        if not output:
            if len(self._graph.outputs) != 1:
                raise RefusedModelError(f"has {len(self._graph.outputs)} outputs, and one is needed")
            (output,) = self._graph.outputs
        if output not in self._plans:
            self._plans[output] = self._plan(output)
        key = (output, rows.shape[1])
        if key not in self._rows_at_once:  # what one row takes tells how many may go together
            room = Room(self._room)
            self._of_block(rows[:1], output, room)
            self._rows_at_once[key] = min(_MOST_ROWS, max(1, _BLOCK // max(1, room.largest)))
        step = self._rows_at_once[key]
        parts = [
            self._of_block(rows[start : start + step], output, Room(self._room))
            for start in range(0, max(1, len(rows)), step)
        ]
        return np.concatenate(parts)

    def shared_rows(self) -> NDArray[np.float32]:
        """Return the training rows that a model is made of, (u, l), and beside each the sums of its targets.

        Both are in the units of `run`: the rows as it takes them, the targets as it answers. The last column
        is how many rows a row stands for. A model that names no rows has none, (0, 0).
        """
        rows, targets = (self._constants.get(name) for name in SHARED)
        if rows is None or targets is None:
            return np.empty((0, 0), np.float32)
        scalers = [node for node in self._graph.nodes if INPUT in node.inputs]
        if [node.operator for node in scalers] != [_SCALER]:
            raise RefusedModelError("names training rows in a form that no knn model has")
        shift, scale = (scalers[0].attributes.get(name) for name in ("offset", "scale"))
        if (
            rows.ndim != 2
            or targets.ndim != 2
            or len(rows) != len(targets)
            or {rows.dtype, targets.dtype} != {np.dtype(np.float32)}
            or targets.shape[1] < 2
            or not isinstance(shift, np.ndarray)
            or not isinstance(scale, np.ndarray)
            or {len(shift), len(scale)} - {1, rows.shape[1]}
            or not scale.all()
        ):
            raise RefusedModelError("names training rows in a form that no knn model has")
        sums, counts = targets[:, :-1].astype(np.float64), targets[:, -1:].astype(np.float64)
        if all(name in self._constants for name in LABEL_SCALE):
            times, plus = (self._constants[name].ravel()[:1].astype(np.float64) for name in LABEL_SCALE)
            sums = sums * times + counts * plus
        return np.hstack([rows / scale + shift, sums, counts]).astype(np.float32)

    def _plan(self, output: str) -> list[_Step]:
        """Return the nodes that an output needs; those of constants alone are evaluated here, once."""
        if output not in self._graph.outputs:
            raise RefusedModelError(f"has no output '{output}'")
        needed, nodes = {output}, []
        for node in reversed(self._graph.nodes):
            if needed & set(node.outputs):
                needed |= set(node.inputs)
                nodes.append(node)
        steps = []
        for node in reversed(nodes):
            step = _Step(node, self._profile.operators[node.operator[0]][node.operator[1]], ())
            if all(name in self._constants for name in node.inputs):
                _evaluate(step, self._constants, Room(self._room))
            else:
                steps.append(step)
        return list(_with_ends(steps, output))

    def _of_block(self, rows: NDArray[np.float32], output: str, room: Room) -> NDArray[np.float32]:
        values = {self._input: rows}
        room.take(rows.shape)
        for step in self._plans[output]:
            _evaluate(step, values, room, self._constants)
            for name in step.finished:
                values.pop(name, None)
        found = values[output] if output in values else self._constants[output]
        if found.dtype != np.float32 or found.ndim != 2 or len(found) != len(rows):
            raise RefusedModelError("answers something else than a row of 32-bit floats for each row")
        return np.asarray(found)


def _evaluate(
    step: _Step, values: dict[str, Values], room: Room, constants: dict[str, Values] | None = None
) -> None:
    """Add the outputs of a node to the values."""
    node = step.node
    inputs = tuple(values[name] if name in values else (constants or {})[name] for name in node.inputs)
    try:
        with np.errstate(all="ignore"):
            found = step.operator.run(Call(node.attributes, inputs, room, step.memory))
    except RefusedModelError:
        raise
    except (
        ValueError,
        IndexError,
        TypeError,
        OverflowError,
    ):  # shapes that do not fit; numpy says it in its words
        raise RefusedModelError(f"has a '{node.operator[1]}' whose inputs do not fit") from None
    if len(node.outputs) > len(found):
        raise RefusedModelError(f"has a '{node.operator[1]}' with too many outputs")
    for name, value in zip(node.outputs, found, strict=False):
        room.take(value.shape)
        values[name] = value


def _with_ends(steps: list[_Step], output: str) -> Iterator[_Step]:
    last = {name: number for number, step in enumerate(steps) for name in step.node.inputs}
    for number, step in enumerate(steps):
        mine = (*step.node.inputs, *step.node.outputs)
        ends = tuple(name for name in mine if last.get(name, number) == number and name != output)
        yield _Step(step.node, step.operator, ends, step.memory)


def _check(graph: Graph, profile: Profile) -> None:
    """Raise `RefusedModelError` unless the graph is one that models of a round have."""
    if graph.ir_version not in IR_VERSIONS:
        raise RefusedModelError(f"is of ONNX IR version {graph.ir_version}")
    domains = set()
    for domain, version in graph.opsets:
        if version not in OPSETS.get(domain, ()):
            raise RefusedModelError(f"is of opset {version} of the domain '{domain}'")
        domains.add(domain)
    if len(graph.inputs) != 1 or profile.input not in (None, *graph.inputs):
        named = "" if profile.input is None else f" '{profile.input}'"
        raise RefusedModelError(f"does not have the one input{named}")
    known = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        _check_operator(node, domains, profile)
        name = node.operator[1]
        if not set(node.inputs) <= known:
            raise RefusedModelError(f"has a '{name}' that takes what no node before it makes")
        if not node.outputs or set(node.outputs) & known or len(set(node.outputs)) < len(node.outputs):
            raise RefusedModelError(f"has a '{name}' that names its output as another value is named")
        known |= set(node.outputs)
    if not set(graph.outputs) <= known:
        raise RefusedModelError("has an output that nothing makes")


def _check_operator(node: Node, domains: set[str], profile: Profile) -> None:
    domain, name = node.operator
    operator = profile.operators.get(domain, {}).get(name)
    if operator is None or domain not in domains:
        raise RefusedModelError(f"has an operator that may not run: '{name}' of the domain '{domain}'")
    if set(node.attributes) - operator.attributes or (
        not profile.takes_decimals and any(isinstance(each, float) for each in node.attributes.values())
    ):
        raise RefusedModelError(f"has a '{name}' with attributes that may not be set")
    if not operator.inputs[0] <= len(node.inputs) <= operator.inputs[1]:
        raise RefusedModelError(f"has a '{name}' of {len(node.inputs)} inputs")
