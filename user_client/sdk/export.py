"""One ONNX file from the raw columns of a table to the answer.

The file holds F_i G_i, or under sums the secret coordinates: whoever has it can bring rows into the common
representation as we can. It must stay inside the institution, and says so in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
from numpy.typing import NDArray
from onnx import TensorProto, compose, helper, version_converter

from protocol import __version__
from protocol.answers import MemberReport
from protocol.codec import digest
from protocol.labels import BinaryLabel, MultiLabel, NumberLabel, SurvivalLabel
from protocol.messages import DownlinkManifest
from protocol.table_schema import ColumnOfLevels, LevelsColumn, RangeColumn, RanksColumn, Schema
from user_client.custody.round_directory import RoundDirectory
from user_client.errors import ExportDiffersError
from user_client.sdk.downlink import own_model
from user_client.sdk.joined_rows import own_group, require_whole_rows
from user_client.sdk.map_to_model import map_to_model
from user_client.sdk.model_card import alignment_told, inputs_of, model_told, warning_of
from user_client.sdk.predictor import Predictor
from user_client.sdk.shared_rows import trained_model
from user_client.sdk.sums import stored_feature_map
from user_client.sdk.terms import accepted_terms
from user_client.sdk.uplink import stored_own_map
from user_client.secret.local_model import LocalModel
from user_client.secret.network import Layer
from user_client.secret.own_model import OwnModel
from user_client.tables import encode_rows
from user_client.tables.as_onnx import ML, OLDEST_OPSET, Graph, encode_columns, map_rows

TOLERANCE: Final = 1e-5
"""Largest difference to `predict`: a probability, or a number from -1 to 1."""
TRIED_ROWS: Final = 500


def export(directory: RoundDirectory, report: MemberReport | None = None) -> tuple[bytes, float]:
    """Return one ONNX file from raw columns to the answer, and its largest difference to `predict`.

    The ``report`` of the analyst says what was chosen, where the terms leave that open.
    """
    manifest = directory.load(DownlinkManifest)
    require_whole_rows(own_group(directory), "an exported model")
    predictor = Predictor(directory)  # first: it refuses what is no model of a round
    schema = predictor.schema
    graph = Graph(list(inputs_of(schema)))
    features = encode_columns(graph, schema)
    model: onnx.ModelProto | None = None
    if manifest.has_anchor_predictions:
        found = _own_model(graph, features, own_model(directory))
    elif (trained := trained_model(directory)) is not None:
        found = _trained_model(graph, _to_model(graph, features, directory, manifest), trained.model)
    else:
        # within the profile of docs/protocol.md, as the predictor has found: no graphs, no other files
        model = compose.add_prefix(onnx.load_from_string(directory.read_model()), f"{graph.prefix}h_")
        aligned = _to_model(graph, features, directory, manifest, _opset_of(model))
        _append(graph, model, aligned)
        found = f"{graph.prefix}h_{schema.label_column.model_output}"
    outputs = _answers(graph, features, found, schema)
    file = _file(graph, outputs, model, _metadata(directory, schema, manifest, report)).SerializeToString()
    largest = _difference(predictor, schema, file)
    if not largest <= TOLERANCE:
        raise ExportDiffersError(largest)
    return file, largest


def _to_model(
    graph: Graph,
    features: str,
    directory: RoundDirectory,
    manifest: DownlinkManifest,
    opset: int = OLDEST_OPSET,
) -> str:
    """Add what makes of features the input of the model, as `map_to_model.map_of_rows`.

    ``opset`` is that of the model.
    """
    if manifest.has_change_of_basis:
        if (own_map := stored_own_map(directory)) is not None:
            features = _own_map(graph, features, own_map.file, opset)
        return map_rows(graph, features, map_to_model(directory, manifest))
    drawn = stored_feature_map(directory)
    if not drawn.is_linear:
        product = graph.node("MatMul", features, graph.constant(drawn.frequencies.T))
        angles = graph.node("Add", product, graph.constant(drawn.phases))
        waves = graph.node("Mul", graph.node("Cos", angles), graph.constant(drawn.amplitude))
        features = graph.node("Concat", features, waves, axis=1)
    return map_rows(graph, features, drawn.turn)


def _own_map(graph: Graph, features: str, file: bytes, opset: int) -> str:
    """Add a map of our own, in the opset of the model behind it; return what it makes of features."""
    found = onnx.load_from_string(file)  # within `profiles.OF_AN_INSTITUTION`, as the predictor has found
    if _opset_of(found) < opset:
        found = version_converter.convert_version(found, opset)
    found = compose.add_prefix(found, f"{graph.prefix}phi_")
    _append(graph, found, graph.node("Cast", features, to=TensorProto.FLOAT))
    graph.opset = max(graph.opset, _opset_of(found))
    return graph.node("Cast", found.graph.output[0].name, to=TensorProto.DOUBLE)


def _opset_of(model: onnx.ModelProto) -> int:
    return max((each.version for each in model.opset_import if not each.domain), default=OLDEST_OPSET)


def _append(graph: Graph, model: onnx.ModelProto, aligned: str) -> None:
    """Add the nodes of a model, fed with a matrix."""
    given = {each.name for each in model.graph.initializer}
    (fed,) = (each for each in model.graph.input if each.name not in given)
    graph.nodes.append(helper.make_node("Identity", [aligned], [fed.name]))
    graph.nodes += model.graph.node
    graph.constants += model.graph.initializer


def _own_model(graph: Graph, features: str, model: OwnModel) -> str:
    """Add our own model t_i."""
    found = graph.node("Softmax", _layers(graph, features, model.layers), axis=1)
    return graph.node("Cast", found, to=TensorProto.FLOAT)


def _layers(graph: Graph, reached: str, layers: Sequence[Layer]) -> str:
    """Add the layers of a network, with ReLU between them."""
    for index, (weights, shifts) in enumerate(layers):
        product = graph.node("MatMul", reached, graph.constant(weights))
        reached = graph.node("Add", product, graph.constant(shifts))
        if index < len(layers) - 1:
            reached = graph.node("Relu", reached)
    return reached


def _trained_model(graph: Graph, aligned: str, model: LocalModel) -> str:
    """Add our own model of the shared rows, as `LocalModel.predictions`; it was fitted on every class."""
    wide = graph.node("Cast", aligned, to=TensorProto.DOUBLE)
    centred = graph.node("Sub", wide, graph.constant(model.shift))
    scaled = graph.node("Div", centred, graph.constant(model.scale))
    answers = [_layers(graph, scaled, layers) for layers in model.networks]
    if model.classes:
        answers = [graph.node("Softmax", each, axis=1) for each in answers]
    total = answers[0] if len(answers) == 1 else graph.node("Sum", *answers)
    found = graph.node("Mul", total, graph.constant(model.label_scale / len(answers)))
    found = graph.node("Add", found, graph.constant(model.label_shift))
    return graph.node("Cast", found, to=TensorProto.FLOAT)


def _answers(graph: Graph, features: str, found: str, schema: Schema) -> list[onnx.ValueInfoProto]:
    """Add what a person asks for; for a row with a refused field that is NaN, and no class."""
    label = schema.label_column
    total = graph.node("ReduceSum", features, graph.constant([1], np.int64), keepdims=1)
    refused = graph.node("IsNaN", total)
    if isinstance(label, NumberLabel):
        wide = graph.node("Cast", found, to=TensorProto.DOUBLE)
        value = graph.affine(wide, -1.0, 1.0, label.unit, label.low)
        answer = graph.where(refused, graph.constant(np.nan), value)
        return [_output(graph, "prediction", answer, TensorProto.DOUBLE, 1)]
    found = graph.where(refused, graph.constant(np.nan, np.float32), found)
    if isinstance(label, SurvivalLabel):
        at_last = graph.node("Gather", found, graph.constant([label.outputs - 1], np.int64), axis=1)
        risk = graph.node("Sub", graph.constant(1.0, np.float32), at_last)
        return [
            _output(graph, "prediction", risk, TensorProto.FLOAT, 1),
            _output(graph, "survival", found, TensorProto.FLOAT, label.outputs),
        ]
    if isinstance(label, MultiLabel):
        said = [
            _output(
                graph,
                f"prediction_{one.name}",
                _whether(graph, refused, found, number, one),
                TensorProto.STRING,
                1,
            )
            for number, one in enumerate(label.labels)
        ]
        return [*said, _output(graph, "probabilities", found, TensorProto.FLOAT, label.outputs)]
    chosen = graph.where(
        refused, graph.constant(-1, np.int64), graph.node("ArgMax", found, axis=1, keepdims=1)
    )
    name = graph.node(
        "LabelEncoder",
        chosen,
        domain=ML,
        keys_int64s=list(range(label.outputs)),
        values_strings=list(label.classes),
        default_string="",
    )
    return [
        _output(graph, "prediction", name, TensorProto.STRING, 1),
        _output(graph, "probabilities", found, TensorProto.FLOAT, label.outputs),
    ]


def _whether(graph: Graph, refused: str, found: str, number: int, label: BinaryLabel) -> str:
    """Add what the column of one of several labels would say; nothing for a row with a refused field."""
    probability = graph.node("Gather", found, graph.constant([number], np.int64), axis=1)
    reached = graph.node("GreaterOrEqual", probability, graph.constant(0.5, np.float32))
    chosen = graph.where(
        refused, graph.constant(-1, np.int64), graph.node("Cast", reached, to=TensorProto.INT64)
    )
    return graph.node(
        "LabelEncoder",
        chosen,
        domain=ML,
        keys_int64s=[0, 1],
        values_strings=[label.absent, label.present],
        default_string="",
    )


def _output(graph: Graph, name: str, value: str, kind: int, width: int) -> onnx.ValueInfoProto:
    """Name a value as an output; one underscore more where something has that name."""
    taken = {each.name for each in graph.inputs} | {out for node in graph.nodes for out in node.output}
    while name in taken:
        name += "_"
    graph.nodes.append(helper.make_node("Identity", [value], [name]))
    return helper.make_tensor_value_info(name, kind, ["rows", width])


def _file(
    graph: Graph,
    outputs: list[onnx.ValueInfoProto],
    model: onnx.ModelProto | None,
    metadata: dict[str, str],
) -> onnx.ModelProto:
    whole = helper.make_graph(graph.nodes, "odc", graph.inputs, outputs, graph.constants)
    opsets = {"": graph.opset, ML: 2}
    for each in model.opset_import if model else ():
        opsets[each.domain] = max(each.version, opsets.get(each.domain, 1))
    made = helper.make_model(
        whole,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        ir_version=max(model.ir_version if model else 0, 8),
        producer_name="odc",
        producer_version=__version__,
        doc_string=metadata["warning"],
    )
    helper.set_model_props(made, metadata)
    return made


def _metadata(
    directory: RoundDirectory, schema: Schema, manifest: DownlinkManifest, report: MemberReport | None
) -> dict[str, str]:
    terms = accepted_terms(directory)
    return {
        "warning": warning_of(terms),
        "title": terms.title,
        "collaboration_id": terms.collaboration_id,
        "terms_digest": digest(terms).hex(),
        "institution": manifest.party,
        "predicts": terms.table_schema.label_column.name,
        "model": model_told(directory, terms, report),
        "alignment": alignment_told(terms, report),
        "inputs": json.dumps(inputs_of(schema)),
    }


def feeds(table: pa.Table, schema: Schema) -> dict[str, NDArray[Any]]:
    """Return the inputs of the file for a table that has numbers and texts alone: days in place of dates."""
    found: dict[str, NDArray[Any]] = {}
    for name, kind in inputs_of(schema).items():
        values = table.column(name).to_pylist()
        if kind == "text":
            column = np.array(["" if value is None else value for value in values], dtype=object)
        else:
            column = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        found[name] = column.reshape(-1, 1)
    return found


def _difference(predictor: Predictor, schema: Schema, file: bytes) -> float:
    """Return the largest difference between the file and `predict` on made-up rows."""
    table = _made_up(schema, np.random.default_rng(0))
    rows, label = encode_rows(table, schema, dates_as_days=True), schema.label_column
    expected = predictor.outputs(rows)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    found = session.run(None, feeds(table, schema))[-1]
    if isinstance(label, NumberLabel):
        found = (found - label.low) / label.unit - 1
    difference = np.abs(found - expected)
    return float(np.where(np.isnan(difference), np.inf, difference).max())


def _made_up(schema: Schema, rng: np.random.Generator) -> pa.Table:
    """Return rows within the ranges of the schema, and beyond them or empty where that is allowed."""
    columns: dict[str, pa.Array] = {}
    for column in schema.columns:
        if isinstance(column, ColumnOfLevels):
            unlisted = ["unlisted"] if isinstance(column, LevelsColumn) and column.other else []
            values: NDArray[Any] = rng.choice(np.array([*column.levels, *unlisted], dtype=object), TRIED_ROWS)
        else:
            ends = column.quantiles if isinstance(column, RanksColumn) else (column.low, column.high)
            beyond = 0 if getattr(column, "out_of_range", "clip") == "refuse" else (ends[-1] - ends[0]) / 4
            values = rng.uniform(ends[0] - beyond, ends[-1] + beyond, TRIED_ROWS)
            if isinstance(column, RangeColumn) and column.scale:  # else hardly any lie near the low end
                low, high, _ = column.on_scale
                values = np.exp(rng.uniform(low - 1, high + 1, TRIED_ROWS))
            if isinstance(column, RanksColumn):  # on quantiles too, where ties are
                values = np.where(rng.random(TRIED_ROWS) < 0.5, rng.choice(ends, TRIED_ROWS), values)
        share_empty = 0.1 if column.takes_empty else 0.0
        columns[column.name] = pa.array(values.tolist(), mask=rng.random(TRIED_ROWS) < share_empty)
    return pa.table(columns)
