"""One ONNX file from raw columns to the answer says what `odc predict` says, without our packages."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from protocol.errors import MalformedMessageError, NotFoundError
from protocol.table_schema import Schema
from tests.harness.in_process import Consortium, rows
from tests.harness.problems import TERMS
from user_client.custody.round_directory import MODEL_FILE
from user_client.errors import ConnectionFailedError, ExportDiffersError, MissingExtraError, NotPreparedError
from user_client.sdk import DraftedEvent, draft_terms
from user_client.sdk import export as exporting
from user_client.sdk.map_to_model import map_to_model

SMALL: dict[str, Any] = {
    "mlp": {"hidden_units": 16, "epochs": 30},
    "averaged": {"hidden_units": 16},
    "random-forest": {"trees": 20},
    "gradient-boosting": {"trees": 20},
    "random-feature-svm": {"random_features": 50},
}
KINDS = [(kind, task) for kind, terms in TERMS.items() for task in terms.tasks]

READER = """
import csv, json, sys
import numpy, onnxruntime
model, table, out = sys.argv[1:]
session = onnxruntime.InferenceSession(model)
with open(table) as file:
    rows = list(csv.DictReader(file))
feeds = {}
for each in session.get_inputs():
    values = [row[each.name].strip() for row in rows]
    if each.type == "tensor(string)":
        feeds[each.name] = numpy.array(values, dtype=object).reshape(-1, 1)
    else:
        feeds[each.name] = numpy.array([float(v) if v else float("nan") for v in values]).reshape(-1, 1)
names = [each.name for each in session.get_outputs()]
answers = dict(zip(names, (found.tolist() for found in session.run(names, feeds))))
assert not any(name.split(".")[0] in ("user_client", "protocol") for name in sys.modules)
json.dump(answers, open(out, "w"))
"""


def messy(seed: int, rows: int = 60) -> pa.Table:
    """A table with what tables have: texts, codes, empty fields, heavy tails, and three labels."""
    rng = np.random.default_rng(seed)
    told = rng.standard_normal(rows)
    age = [None if rng.random() < 0.1 else round(float(60 + 10 * value), 1) for value in told]
    site = [str(rng.choice(["north", "south", ""])) for _ in range(rows)]
    return pa.table(
        {
            "age": age,
            "dose": np.exp(2 * told + rng.standard_normal(rows)),
            "grade": [int(value) for value in np.clip(np.round(told + 2), 0, 4)],
            "site": site,
            "ill": ["yes" if value + 0.3 * rng.standard_normal() > 0 else "no" for value in told],
            "days": np.clip(20 + 5 * told + rng.standard_normal(rows), 1, 40),
            "fell": ["once" if value + rng.standard_normal() > 0.5 else "never" for value in told],
        }
    )


def released(consortium: Consortium, kind: str, task: str, encoding: str = "ranks", **options: Any) -> None:
    """Play a round on messy tables, by drafted terms."""
    label: Any = {"classes": "ill", "multilabel": ["ill", "fell"]}.get(task, "days")
    other = {
        "classes": ["days", "fell"],
        "number": ["ill", "fell"],
        "survival": ["fell"],
        "multilabel": ["days"],
    }[task]
    paths = []
    for seed in range(3):
        paths.append(consortium.directory / f"messy-{seed}.csv")
        pyarrow.csv.write_csv(messy(seed), paths[-1])
    number: dict[str, Any] = {"task": "number", "label_range": (0.0, 50.0)} if task == "number" else {}
    if task == "survival":
        number = {"task": "survival", "event": DraftedEvent("ill", "yes", (15, 20))}
    if task == "multilabel":
        number = {"task": "multilabel"}
    drafted = draft_terms(
        paths[0], label=label, parties=["lead-hospital", "hospital-a"], title="Messy", exclude=other,
        categories=["grade"] if encoding == "ranks" else [], encoding=encoding, **number, **options,
    )  # fmt: skip
    play(consortium, drafted.content, kind, paths)


def play(consortium: Consortium, drafted: dict[str, Any], kind: str, paths: list[Path]) -> None:
    """Play a round by drafted terms, until the hospital has received."""
    content = {name: value for name, value in drafted.items() if name not in ("parties", "lead")}
    consortium.until_joined().publish(**{**content, "model": {"kind": kind, **SMALL.get(kind, {})}})
    for session in consortium.sessions:
        session.round(consortium.id).accept(accept_row_revealing_model=TERMS[kind].carries_rows)
    consortium.lead_round.create_anchor()
    for path, session in zip(paths, consortium.sessions, strict=False):
        session.round(consortium.id).prepare(path, attacks="none")
        session.round(consortium.id).contribute(accept_signal_loss=True)
    consortium.compute()
    consortium.hospital_round.receive()


def read_elsewhere(consortium: Consortium, file: bytes) -> Any:
    """Run the file on the CSV table nobody has sent, in a process that has onnxruntime alone."""
    model, out = consortium.directory / "model.onnx", consortium.directory / "answers.json"
    model.write_bytes(file)
    command = [
        sys.executable,
        "-I",
        "-c",
        READER,
        str(model),
        str(consortium.directory / "messy-2.csv"),
        str(out),
    ]
    subprocess.run(command, check=True, timeout=120)
    return json.loads(out.read_text())


@pytest.mark.parametrize(("kind", "task"), KINDS)
def test_the_file_says_of_raw_columns_what_predict_says(kind: str, task: str, consortium: Consortium) -> None:
    released(consortium, kind, task)
    exported = consortium.hospital_round.export()
    assert exported.largest_difference < 1e-5
    answers = read_elsewhere(consortium, exported.onnx_file)
    expected = consortium.hospital_round.predict(consortium.directory / "messy-2.csv")
    if task == "number":
        np.testing.assert_allclose(np.array(answers["prediction"])[:, 0], expected.labels, atol=25 * 1e-5)
        return
    if task == "survival":
        np.testing.assert_allclose(answers["survival"], expected.probabilities, atol=1e-5)
        np.testing.assert_allclose(np.array(answers["prediction"])[:, 0], expected.labels, atol=1e-5)
        return
    assert np.abs(np.array(answers["probabilities"]) - expected.probabilities).max() < 1e-5
    if task == "multilabel":
        for name in ("ill", "fell"):
            assert [row[0] for row in answers[f"prediction_{name}"]] == [row[name] for row in expected.labels]
        return
    assert [row[0] for row in answers["prediction"]] == expected.labels


@pytest.mark.parametrize("encoding", ["ranges", "plain"])
def test_every_encoding_is_in_the_file(encoding: str, consortium: Consortium) -> None:
    released(consortium, "logistic", "classes", encoding)
    answers = read_elsewhere(consortium, consortium.hospital_round.export().onnx_file)
    expected = consortium.hospital_round.predict(consortium.directory / "messy-2.csv")
    np.testing.assert_allclose(answers["probabilities"], expected.probabilities, atol=1e-5)


def dated(seed: int, rows: int = 60) -> pa.Table:
    """A table of dates, of codes that are its own, and of levels in an order, each with empty fields."""
    rng = np.random.default_rng(seed)
    first, stay, grade = rng.integers(0, 999, rows), rng.integers(0, 30, rows), rng.integers(0, 3, rows)
    told = (first - 500) / 500 + (stay - 15) / 15 + grade - 1
    came = [dt.date(2019, 1, 1) + dt.timedelta(days=int(day)) for day in first]
    left = [day + dt.timedelta(days=int(days)) for day, days in zip(came, stay, strict=True)]
    codes = np.where(rng.random(rows) < 0.2, f"only at {seed}", rng.choice(["a", "b"], rows))
    empty = rng.random((3, rows)) < 0.1
    return pa.table(
        {
            "came": pa.array(came, mask=empty[0]),
            "left": pa.array(left),
            "code": pa.array(codes.tolist(), mask=empty[1]),
            "grade": pa.array([("low", "mid", "high")[each] for each in grade], mask=empty[2]),
            "ill": ["yes" if value + 0.3 * rng.standard_normal() > 0 else "no" for value in told],
        }
    )


def test_dates_and_levels_in_an_order_are_in_the_file(consortium: Consortium) -> None:
    paths = [consortium.directory / f"dated-{seed}.csv" for seed in range(3)]
    for seed, path in enumerate(paths):
        pyarrow.csv.write_csv(dated(seed), path)
    drafted = draft_terms(
        paths[0], label="ill", parties=["lead-hospital", "hospital-a"], title="Dated",
        durations={"left": "came"}, ordinals={"grade": ["low", "mid", "high"]}, others=["code"],
    )  # fmt: skip
    play(consortium, drafted.content, "logistic", paths)
    exported = consortium.hospital_round.export()
    assert exported.largest_difference < 1e-5
    fresh = dated(2)
    days = [fresh.column(name).cast(pa.int32()).cast(pa.float64()) for name in ("came", "left")]
    table = fresh.set_column(0, "came", days[0]).set_column(1, "left", pc.subtract(days[1], days[0]))
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    session = onnxruntime.InferenceSession(exported.onnx_file)
    (found,) = session.run(["probabilities"], exporting.feeds(table, schema))
    expected = consortium.hospital_round.predict(paths[2])
    np.testing.assert_allclose(found, expected.probabilities, atol=1e-5)
    told = {each.key: each.value for each in onnx.load_from_string(exported.onnx_file).metadata_props}
    assert json.loads(told["inputs"])["came"] == "days since 1970-01-01"
    assert json.loads(told["inputs"])["left"] == "days since the date in came"


def test_our_own_model_leaves_in_the_same_way(consortium: Consortium) -> None:
    released(consortium, "logistic", "classes", nri=True)
    answers = read_elsewhere(consortium, consortium.hospital_round.export().onnx_file)
    expected = consortium.hospital_round.predict(consortium.directory / "messy-2.csv")
    np.testing.assert_allclose(answers["probabilities"], expected.probabilities, atol=1e-5)


def test_the_file_and_its_card_say_what_they_are(consortium: Consortium) -> None:
    released(consortium, "averaged", "classes")
    exported = consortium.hospital_round.export()
    told = {each.key: each.value for each in onnx.load_from_string(exported.onnx_file).metadata_props}
    assert "must stay inside that institution" in told["warning"]
    assert told["institution"] == "hospital-a"
    assert told["collaboration_id"] == consortium.id
    assert json.loads(told["inputs"]) == {"age": "number", "dose": "number", "grade": "text", "site": "text"}
    assert "| grade | string" in exported.card
    assert "not measured here yet" in exported.card
    assert "shared representation" in exported.card
    assert "**The file beside this card contains the secret map F_i G_i" in exported.card
    assert "This file contains" not in exported.card
    assert repr(exported) == f"<Exported of {len(exported.onnx_file)} bytes>"


def test_the_card_names_the_model_that_was_chosen(consortium: Consortium) -> None:
    candidates = [{"kind": "logistic"}, {"kind": "logistic", "epochs": 7}]
    consortium.until_released(terms_schema=2, model={"kind": "auto", "candidates": candidates})
    consortium.hospital_round.receive()
    card = consortium.hospital_round.export().card
    assert "- Model: logistic (chosen by the analyst), of the rows of" in card


def test_card_and_metadata_name_the_alignment_that_was_chosen(consortium: Consortium) -> None:
    alignment = {"method": "auto", "candidates": ["imakura", "odc"]}
    consortium.until_released(terms_schema=2, alignment=alignment)
    consortium.hospital_round.receive()
    exported = consortium.hospital_round.export()
    told = {each.key: each.value for each in onnx.load_from_string(exported.onnx_file).metadata_props}
    assert re.search(r"^- Alignment: (imakura|odc) \(chosen by the analyst\)$", exported.card, re.MULTILINE)
    assert re.fullmatch(r"(imakura|odc) \(chosen by the analyst\)", told["alignment"])


def test_without_the_report_the_card_names_what_may_have_been_chosen(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_released(terms_schema=2, alignment={"method": "auto", "candidates": ["imakura", "odc"]})
    consortium.hospital_round.receive()

    def unreachable(*_: Any, **__: Any) -> Any:
        raise ConnectionFailedError("no")

    monkeypatch.setattr(consortium.hospital.connection, "ask_json", unreachable)
    assert "- Alignment: auto: the best of imakura, odc" in consortium.hospital_round.export().card


def test_the_card_has_the_scores_that_are_known(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(consortium, "averaged", "classes")
    consortium.hospital_round.evaluate(consortium.directory / "messy-1.csv", send=True)
    card = consortium.hospital_round.export().card
    assert "here, 20" in card
    assert "here, on the same rows: PR-AUC " in card
    assert "hospital-a: ROC-AUC together" in card
    assert "no score from the analyst: " in card

    def unreachable(*_: Any, **__: Any) -> Any:
        raise ConnectionFailedError("no")

    monkeypatch.setattr(consortium.hospital.connection, "ask_json", unreachable)
    assert "could not be fetched" in consortium.hospital_round.export().card


def test_nothing_is_exported_before_the_downlink_or_without_the_library(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium.until_contributed()
    with pytest.raises(NotPreparedError, match="odc receive"):
        consortium.hospital_round.export()
    consortium.compute()
    consortium.hospital_round.receive()
    monkeypatch.setitem(sys.modules, "user_client.sdk.export", None)
    monkeypatch.delattr("user_client.sdk.export")
    with pytest.raises(MissingExtraError) as caught:
        consortium.hospital_round.export()
    assert "the extra [export]" in str(caught.value)


def test_a_file_that_says_something_else_is_not_given_out(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(consortium, "logistic", "classes")
    plain = map_to_model
    monkeypatch.setattr(exporting, "map_to_model", lambda *given: 1.001 * plain(*given))
    with pytest.raises(ExportDiffersError, match="differs from `odc predict`"):
        consortium.hospital_round.export()


@pytest.mark.parametrize("where", ["initializer", "attribute"])
def test_a_model_that_takes_numbers_from_another_file_is_not_exported(
    where: str, consortium: Consortium
) -> None:
    """In the exported file they would be read again, on whatever machine it runs."""
    released(consortium, "logistic", "classes")
    directory = consortium.hospital_round.directory
    model = onnx.load_from_string(directory.read(MODEL_FILE))
    tensor = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[1], name="w")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="basis.npy")
    if where == "initializer":
        model.graph.initializer.append(tensor)
    else:
        model.graph.node.append(onnx.helper.make_node("Constant", [], ["unused"], value=tensor))
    directory.write(MODEL_FILE, model.SerializeToString())
    with pytest.raises(MalformedMessageError, match="nothing was predicted"):
        consortium.hospital_round.export()


def test_columns_named_like_what_is_in_the_file_are_no_trouble(consortium: Consortium) -> None:
    names = ["prediction", "probabilities", "odc_1|constant"]
    table = rows_named(names)
    columns = [{"kind": "numeric", "name": name, "low": -4, "high": 4} for name in names]
    label = {"name": "y", "classes": ["no", "yes"]}
    consortium.until_accepted(table_schema={"columns": columns, "label_column": label})
    consortium.lead_round.create_anchor()
    for session in consortium.sessions:
        session.round(consortium.id).prepare(table, attacks="none")
        session.round(consortium.id).contribute()
    consortium.compute()
    consortium.hospital_round.receive()
    exported = consortium.hospital_round.export()
    assert "| odc_1\\|constant | 64-bit float" in exported.card
    file = exported.onnx_file
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == names
    assert [each.name for each in session.get_outputs()] == ["prediction_", "probabilities_"]


def rows_named(names: list[str]) -> pa.Table:
    drawn = rows(3)
    return pa.table({**dict(zip(names, list(drawn.values())[:3], strict=True)), "y": drawn["y"]})


@pytest.mark.parametrize("part", ["graph", "function"])
def test_a_model_with_graphs_inside_it_is_not_exported(part: str, consortium: Consortium) -> None:
    """A name in such a graph could mean one of ours."""
    released(consortium, "logistic", "classes")
    directory = consortium.hospital_round.directory
    model = onnx.load_from_string(directory.read(MODEL_FILE))
    if part == "graph":
        graph = onnx.helper.make_graph([], "inner", [], [])
        node = onnx.helper.make_node("If", ["rep"], ["unused"], then_branch=graph, else_branch=graph)
        model.graph.node.append(node)
    else:
        model.functions.append(onnx.helper.make_function("odc", "f", [], [], [], []))
    directory.write(MODEL_FILE, model.SerializeToString())
    with pytest.raises(MalformedMessageError, match="nothing was predicted"):
        consortium.hospital_round.export()


def test_an_analyst_that_refuses_its_report_does_not_stop_the_export(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(consortium, "logistic", "classes")

    def refused(*_: Any, **__: Any) -> Any:
        raise NotFoundError("collaboration")

    monkeypatch.setattr(consortium.hospital.connection, "ask_json", refused)
    assert "could not be fetched" in consortium.hospital_round.export().card
