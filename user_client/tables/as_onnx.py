"""The encoding of a table as nodes of an ONNX graph: what `encode` does, in a file without code of ours.

A field that `encode` refuses becomes NaN, and with it every answer for its row. Numbers are 64-bit floats
with NaN for an empty field; categories are texts without surrounding spaces, "" for an empty one. ONNX cannot
read dates, so that a column of dates takes numbers of days. The library `onnx` is loaded here; the extra
``export`` brings it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from protocol.table_schema import (
    CategoricalColumn,
    CentredColumn,
    Column,
    ColumnOfLevels,
    ColumnOfNumbers,
    LevelsColumn,
    NumericColumn,
    OrdinalColumn,
    RangeColumn,
    RanksColumn,
    Schema,
)
from user_client.tables.fields import SPELLINGS, number_of, plain

ZEROS: Final = 6
"""A level that is a whole number is known with up to so many zeros behind a point; `encode` takes any number
of them, which no list of texts has."""
UNKNOWN: Final = -1
"""The number of a text that is no level."""
EMPTY: Final = -2
"""The number of a text that stands for an empty field."""
ML: Final = "ai.onnx.ml"
OLDEST_OPSET: Final = 13
"""In which sums take their axes as an input, as ours do."""


class Graph:
    """A graph under construction: constants and nodes get names, which later nodes take as inputs.

    Parameters
    ----------
    inputs : sequence of str
        The names of the inputs. No other name begins as one of them does.
    """

    def __init__(self, inputs: Sequence[str] = ()) -> None:
        self.prefix = "odc_"
        while any(name.startswith(self.prefix) for name in inputs):
            self.prefix += "_"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.opset = OLDEST_OPSET
        self._count = 0

    def input(self, name: str, kind: int) -> str:
        """Add an input (rows, 1)."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["rows", 1]))
        return name

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Add a constant."""
        name = self._new("constant")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        name = self._new(kind)
        self.nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def _new(self, what: str) -> str:
        self._count += 1
        return f"{self.prefix}{self._count}_{what}"

    # what most columns are made of

    def where(self, condition: str, then: str, otherwise: str) -> str:
        return self.node("Where", condition, then, otherwise)

    def number(self, condition: str) -> str:
        """Return a condition as 0 and 1."""
        return self.node("Cast", condition, to=TensorProto.DOUBLE)

    def affine(self, value: str, less: float, divided_by: float, factor: float, plus: float) -> str:
        """Return ``factor * ((value - less) / divided_by) + plus``, in this order of rounding."""
        moved = self.node("Sub", value, self.constant(less))
        scaled = self.node("Div", moved, self.constant(divided_by))
        return self.node("Add", self.node("Mul", scaled, self.constant(factor)), self.constant(plus))

    def clipped(self, value: str, low: float, high: float) -> str:
        ends = self.constant(low), self.constant(high)
        above = self.where(self.node("Less", value, ends[0]), ends[0], value)
        return self.where(self.node("Greater", above, ends[1]), ends[1], above)


def encode_columns(graph: Graph, schema: Schema) -> str:
    """Add the inputs and the features of a schema; return the name of the matrix (rows, m)."""
    features = [_column(graph, column, schema.missing_in(column)) for column in schema.columns]
    return graph.node("Concat", *features, axis=1)


def _column(graph: Graph, column: Column, missing: Sequence[str]) -> str:
    if isinstance(column, ColumnOfLevels):
        code = _level_number(graph, column, missing)
        empty = graph.node("Equal", code, graph.constant(EMPTY, np.int64))
        if column.impute is not None:
            imputed = graph.constant(column.levels.index(column.impute), np.int64)
            code = graph.where(empty, imputed, code)
        if isinstance(column, CategoricalColumn):
            return _one_of(graph, code, len(column.levels))
        if isinstance(column, OrdinalColumn):
            return _with_missing_share(graph, column, _place(graph, column, code), empty)
        return _with_missing_share(graph, column, _levels(graph, column, code), empty)
    value, empty = _number(graph, column, missing)
    if isinstance(column, NumericColumn):
        impute = math.nan if column.impute is None else column.impute
        return _numeric(graph, column, graph.where(empty, graph.constant(impute), value))
    if column.impute is not None:
        value = graph.where(empty, graph.constant(column.impute), value)
    feature = (
        _ranks(graph, column, value) if isinstance(column, RanksColumn) else _range(graph, column, value)
    )
    return _with_missing_share(graph, column, feature, empty)


def _number(graph: Graph, column: ColumnOfNumbers, missing: Sequence[str]) -> tuple[str, str]:
    """Add an input of numbers; return its finite values, NaN for all others, and where it is empty."""
    value = graph.input(column.name, TensorProto.DOUBLE)
    empty = graph.node("IsNaN", value)
    if isinstance(column, NumericColumn) or column.dates is None:  # a code such as -999 is no number of days
        for stands_for_empty in sorted({x for x in map(number_of, missing) if math.isfinite(x)}):
            empty = graph.node("Or", empty, graph.node("Equal", value, graph.constant(stands_for_empty)))
    infinite = graph.node("IsInf", value)
    return graph.where(infinite, graph.constant(math.nan), value), empty


def _numeric(graph: Graph, column: NumericColumn, value: str) -> str:
    inside = graph.clipped(value, column.low, column.high)
    if column.out_of_range == "refuse":
        inside = graph.where(graph.node("Equal", inside, value), inside, graph.constant(math.nan))
    return graph.affine(inside, column.low, column.high - column.low, 2.0, -1.0)


def _range(graph: Graph, column: RangeColumn, value: str) -> str:
    low, high, centre = column.on_scale
    inside = graph.clipped(value, column.low, column.high)
    on_scale = inside if column.scale is None else graph.node("Log", inside)
    less = graph.node("Sub", on_scale, graph.constant(centre))
    return graph.node("Div", graph.node("Mul", less, graph.constant(2.0)), graph.constant(high - low))


def _ranks(graph: Graph, column: RanksColumn, value: str) -> str:
    """Return what `encode.ranks` does, with sums of comparisons in the place of a search."""
    known = np.array(column.quantiles)
    quantiles = graph.constant(known)
    inside = graph.clipped(value, known[0], known[-1])

    def count(kind: str) -> str:
        met = graph.number(graph.node(kind, quantiles, inside))
        return graph.node("ReduceSum", met, graph.constant([1], np.int64), keepdims=1)

    below, up_to = count("Less"), count("LessOrEqual")
    upper = graph.clipped(below, 1, len(known) - 1)
    index = graph.node("Cast", upper, to=TensorProto.INT64)
    lower = graph.node("Sub", index, graph.constant(1, np.int64))
    after, before = graph.node("Gather", quantiles, index), graph.node("Gather", quantiles, lower)
    step, one = graph.node("Sub", after, before), graph.constant(1.0)
    step = graph.where(graph.node("Greater", step, graph.constant(0.0)), step, one)
    part = graph.node("Div", graph.node("Sub", inside, before), step)
    between = graph.node("Add", graph.node("Sub", upper, one), part)
    sum_of_both = graph.node("Sub", graph.node("Add", below, up_to), one)
    middle = graph.node("Div", sum_of_both, graph.constant(2.0))
    position = graph.where(graph.node("Greater", up_to, below), middle, between)
    doubled = graph.node(
        "Div", graph.node("Mul", position, graph.constant(2.0)), graph.constant(len(known) - 1)
    )
    return graph.node("Sub", doubled, one)


def _level_number(graph: Graph, column: ColumnOfLevels, missing: Sequence[str]) -> str:
    text = graph.input(column.name, TensorProto.STRING)
    numbers = dict.fromkeys(("", *missing), EMPTY) | {level: i for i, level in enumerate(column.levels)}
    other = column.other if isinstance(column, LevelsColumn) else None
    for known in (*column.levels, *missing):  # the levels first, as in `read_levels`
        for written in _as_others_write(known):
            numbers.setdefault(written, numbers[known])
    return graph.node(
        "LabelEncoder",
        text,
        domain=ML,
        keys_strings=list(numbers),
        values_int64s=list(numbers.values()),
        default_int64=UNKNOWN if other is None else numbers[other],
    )


def _as_others_write(text: str) -> tuple[str, ...]:
    """Return the spellings of a whole number or a boolean by other programs: 1 as 1.00, true as True."""
    known = plain(text)
    if re.fullmatch("-?[0-9]+", known):
        return known, *(f"{known}.{'0' * zeros}" for zeros in range(1, ZEROS + 1))
    spellings = [spelling for spelling, boolean in SPELLINGS.items() if boolean == known]
    return (known, *spellings) if spellings else ()


def _levels(graph: Graph, column: LevelsColumn, code: str) -> str:
    less = graph.node("Sub", _one_of(graph, code, len(column.levels)), graph.constant(column.shares))
    return graph.node("Mul", less, graph.constant(column.weight))


def _place(graph: Graph, column: OrdinalColumn, code: str) -> str:
    """Return the place of a level in the order, and NaN where a text is none."""
    places = graph.constant(np.linspace(-1, 1, len(column.levels)) - column.centre)
    none = graph.constant(0, np.int64)
    place = graph.node("Gather", places, graph.node("Max", code, none))
    return graph.where(graph.node("Less", code, none), graph.constant(math.nan), place)


def _one_of(graph: Graph, code: str, levels: int) -> str:
    """Return 0 and 1 for each level, and NaN where a text is none."""
    chosen = graph.number(graph.node("Equal", code, graph.constant(np.arange(levels), np.int64)))
    is_none = graph.node("Less", code, graph.constant(0, np.int64))
    return graph.where(is_none, graph.constant(math.nan), chosen)


def _with_missing_share(graph: Graph, column: CentredColumn, features: str, empty: str) -> str:
    if column.empty != "impute":
        instead = 0.0 if column.empty == "centre" else math.nan
        features = graph.where(empty, graph.constant(instead), features)
    if column.missing_share is None:
        return features
    share = graph.node("Sub", graph.number(empty), graph.constant(column.missing_share))
    return graph.node("Concat", features, share, axis=1)


def map_rows(graph: Graph, features: str, matrix: NDArray[np.float64]) -> str:
    """Return features times a matrix, in 32-bit floats as a model takes them."""
    return graph.node("Cast", graph.node("MatMul", features, graph.constant(matrix)), to=TensorProto.FLOAT)
