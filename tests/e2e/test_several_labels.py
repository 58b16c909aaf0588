"""A round that predicts several labels at once, by the commands that people type, on made-up patients."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.csv
import pytest

from odc_demo.actors import CommandError
from tests.harness.consortium import consortium

NAMES = ("lead-hospital", "hospital-b", "hospital-c")
LABELS = ("diabetes", "anaemia", "fell")
LABEL_OPTIONS = tuple(word for name in LABELS for word in ("--label", name))
SAYS = {"diabetes": ("no", "yes"), "anaemia": ("0", "1"), "fell": ("never", "once")}


def patients(seed: int, rows: int = 300) -> pa.Table:
    """Three labels, each of which depends on two columns of five; the last is rare."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, 5))
    scores = np.stack([values[:, 0] + values[:, 1], values[:, 2] - values[:, 0], values[:, 3] - 1.5], axis=1)
    has = scores + 0.3 * rng.standard_normal(scores.shape) > 0
    columns = {f"x{index}": column for index, column in enumerate(values.T)}
    labels = {name: np.array(SAYS[name])[has[:, j].astype(int)] for j, name in enumerate(LABELS)}
    return pa.table({**columns, **labels})


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with consortium(tmp_path_factory.mktemp("labels"), *NAMES) as made:
        for seed, name in enumerate(NAMES):
            pyarrow.csv.write_csv(patients(seed), made.institution(name).home / "rows.csv")
        lead = made.institution(NAMES[0])
        parties = [word for name in NAMES for word in ("--party", name)]
        # the columns are independent: axes of different hospitals would differ if one were left out
        kept = ("--dither", "0", "--latent-dim", "5")
        drafted = lead.odc("terms", "draft", "rows.csv", *LABEL_OPTIONS, *parties, *kept)
        made.analyst.run("collaboration", "create", str(lead.home / "terms.toml"))
        (row,) = json.loads(made.analyst.run("collaboration", "list", "--json"))
        shown = lead.odc("terms", "show")
        made.play_by_command(row["collaboration_id"], "rows.csv")
        fresh = patients(99, 1000)
        pyarrow.csv.write_csv(fresh.drop_columns(list(LABELS)), lead.home / "fresh.csv")
        lead.odc("predict", "fresh.csv", "--out", "fresh-predictions.csv")
        lead.odc("predict", "fresh.csv", "--out", "wary.csv", "--threshold", "fell=0.05")
        evaluated = made.run_all(NAMES, "evaluate", "rows.csv", "--send")
        exported = lead.odc("export")
        explained = lead.odc("explain", "rows.csv")
        yield {
            "terms": tomllib.loads((lead.home / "terms.toml").read_text()),
            "drafted": drafted,
            "shown": shown,
            "evaluated": evaluated,
            "report": lead.odc("report", "--wait", "60")["report"],
            "page": made.analyst.run("collaboration", "report", row["collaboration_id"], "--wait", "60"),
            "predictions": pyarrow.csv.read_csv(lead.home / "fresh-predictions.csv"),
            "wary": pyarrow.csv.read_csv(lead.home / "wary.csv"),
            "fresh": fresh,
            "exported": exported,
            "card": (lead.home / "model.md").read_text(),
            "explained": explained,
            "lead": lead,
        }


def test_the_draft_says_what_counts_as_having_a_label(played: dict[str, Any]) -> None:
    assert played["terms"]["table_schema"]["label_column"] == {
        "kind": "multilabel",
        "labels": [
            {"name": name, "absent": absent, "present": present} for name, (absent, present) in SAYS.items()
        ],
    }
    assert any(remark.startswith("fell: a row with once counts") for remark in played["drafted"]["remarks"])
    words = played["shown"]["plain_words"]
    assert "diabetes (yes, or else no); anaemia (1, or else 0); fell (once, or else never)" in words
    assert "Warning: several labels: " in words


def test_every_label_is_predicted_by_itself(played: dict[str, Any]) -> None:
    found, fresh = played["predictions"], played["fresh"]
    assert found.column_names == [
        *(f"prediction_{name}" for name in LABELS),
        *(f"probability_{name}" for name in LABELS),
    ]
    for name in LABELS:
        said = [str(each) for each in found.column(f"prediction_{name}").to_pylist()]
        truth = fresh.column(name).to_pylist()
        assert np.mean(np.array(said) == np.array(truth)) > 0.85, name
        likely = found.column(f"probability_{name}").to_numpy() >= 0.5
        assert said == np.array(SAYS[name])[likely.astype(int)].tolist()


def test_a_threshold_of_one_label_moves_that_label_alone(played: dict[str, Any]) -> None:
    usual, wary = played["predictions"], played["wary"]
    for name in LABELS[:2]:
        assert usual.column(f"prediction_{name}").equals(wary.column(f"prediction_{name}"))
    more = [table.column("prediction_fell").to_pylist().count("once") for table in (usual, wary)]
    assert more[1] > more[0]


def test_the_institutions_and_the_report_score_every_label(played: dict[str, Any]) -> None:
    for found in played["evaluated"]:
        assert found["metric"] == "roc_auc"
        assert set(found["by_label"]) == set(LABELS)
        assert found["together_in_classes"] is None
        assert found["local_fit"]["kind"] == "averaged"
    assert np.mean([found["together"] for found in played["evaluated"]]) > 0.85
    judged = played["report"]["results"]["judgement"]["within"]
    assert set(judged["labels"]) == set(LABELS)
    assert judged["roc_auc"]["mean"] == pytest.approx(
        np.mean([one["mean"] for one in judged["labels"].values()]), abs=0.02
    )
    assert "ece" not in judged
    assert "ROC-AUC of diabetes" in played["page"]
    assert {score["metric"] for score in played["report"]["member_scores"]} == {"roc_auc"}


def test_the_exported_file_says_what_predict_says(played: dict[str, Any]) -> None:
    lead, fresh = played["lead"], played["fresh"]
    assert played["exported"]["largest_difference"] < 1e-5
    session = onnxruntime.InferenceSession(lead.home / "model.onnx", providers=["CPUExecutionProvider"])
    outputs = [each.name for each in session.get_outputs()]
    assert outputs == [*(f"prediction_{name}" for name in LABELS), "probabilities"]
    feeds = {f"x{index}": fresh.column(f"x{index}").to_numpy()[:, None] for index in range(5)}
    *said, probabilities = session.run(outputs, feeds)
    for number, name in enumerate(LABELS):
        column = played["predictions"].column(f"probability_{name}").to_numpy()
        np.testing.assert_allclose(probabilities[:, number], column, atol=1e-5)
        told = [str(each) for each in played["predictions"].column(f"prediction_{name}").to_pylist()]
        assert said[number][:, 0].tolist() == told
    assert "whether a row has each of diabetes = yes, anaemia = 1, fell = once" in played["card"]


def test_answers_are_explained_label_by_label(played: dict[str, Any]) -> None:
    assert played["explained"]["outcomes"] == ["diabetes = yes", "anaemia = 1", "fell = once"]
    leading = {column["name"] for column in played["explained"]["columns"][:4]}
    assert leading == {"x0", "x1", "x2", "x3"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--label", "diabetes", "--label", "x0"), "column 'x0' has 300 distinct values"),
        ((*LABEL_OPTIONS, "--model", "knn"), "model must be one of "),
        ((*LABEL_OPTIONS, "--nri"), "nri goes with the task classes"),
        ((*LABEL_OPTIONS, "--class-weight", "balanced"), "class_weight goes with the task classes"),
        ((*LABEL_OPTIONS, "--uplink", "sums"), "sums serve classes and numbers"),
        ((*LABEL_OPTIONS, "--task", "number"), "the task number has one label, 3 are named"),
        (("--label", "fell", "--task", "multilabel"), "the task multilabel has 2 to 16 labels, 1 are named"),
        (("--label", "fell", "--label", "fell"), "a label is named twice"),
    ],
)
def test_what_does_not_go_with_several_labels_is_refused(
    played: dict[str, Any], words: tuple[str, ...], reason: str
) -> None:
    parties = [word for name in NAMES for word in ("--party", name)]
    with pytest.raises(CommandError, match=reason):
        played["lead"].odc("terms", "draft", "rows.csv", *parties, *words, "--out", "other.toml")


def test_an_empty_label_is_named(played: dict[str, Any]) -> None:
    lead = played["lead"]
    table = patients(1, 40)
    column = [None, *table.column("fell").to_pylist()[1:]]
    table = table.set_column(table.column_names.index("fell"), "fell", pa.array(column))
    table = table.set_column(table.column_names.index("anaemia"), "anaemia", pa.array(["2"] * 40))
    pyarrow.csv.write_csv(table, lead.home / "empty.csv")
    with pytest.raises(CommandError, match="2 columns do not fit the terms"):
        lead.odc("terms", "check", "empty.csv", "--terms", "terms.toml")
