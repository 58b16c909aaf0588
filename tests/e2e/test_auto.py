"""A round whose alignment and model are chosen: by the commands that people type, on a real table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.datasets import load_breast_cancer

from odc_demo.actors import CommandError
from tests.harness.consortium import Consortium, consortium

NAMES = ("lead-hospital", "hospital-b", "hospital-c")
MODEL = """
[model]
kind = "auto"
budget_s = 300

[[model.candidates]]
kind = "logistic"

[[model.candidates]]
kind = "random-forest"
trees = 20
"""


def tumours() -> pa.Table:
    found = load_breast_cancer()
    columns = dict(zip(found.feature_names[:10], found.data[:, :10].T, strict=True))
    return pa.table({**columns, "tumour": np.where(found.target, "benign", "malignant")})


def with_model(draft: str, model: str) -> str:
    """Edit the terms as their lead would: another model in the place of the drafted one."""
    changed, count = re.subn(r"\n\[model\]\n(?:[^\[\n].*\n|\n)*", f"\n{model}\n", draft)
    assert count == 1
    return changed


def published(made: Consortium, draft: str) -> str:
    path = made.institution(NAMES[0]).home / "edited.toml"
    path.write_text(draft)
    before = {
        row["collaboration_id"] for row in json.loads(made.analyst.run("collaboration", "list", "--json"))
    }
    made.analyst.run("collaboration", "create", str(path))
    rows = json.loads(made.analyst.run("collaboration", "list", "--json"))
    (found,) = {row["collaboration_id"] for row in rows} - before
    return str(found)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    table = tumours()
    parts = np.array_split(np.random.default_rng(0).permutation(len(table)), len(NAMES))
    with consortium(tmp_path_factory.mktemp("auto"), *NAMES) as made:
        for name, part in zip(NAMES, parts, strict=True):
            pyarrow.csv.write_csv(table.take(part), made.institution(name).home / "rows.csv")
        lead = made.institution(NAMES[0])
        parties = [word for name in NAMES for word in ("--party", name)]
        lead.odc("terms", "draft", "rows.csv", "--label", "tumour", *parties, "--dither", "0",
                 "--alignment", "auto")  # fmt: skip
        draft = (lead.home / "terms.toml").read_text()
        found = published(made, with_model(draft, MODEL))
        shown = lead.odc("terms", "show")["plain_words"]
        made.play_by_command(found, "rows.csv")
        yield {
            "made": made,
            "draft": draft,
            "shown": shown,
            "right": {
                name: predicted_right(made, name, table.take(part))
                for name, part in zip(NAMES, parts, strict=True)
            },
            "report": lead.odc("report", "--wait", "60")["report"],
            "page": made.analyst.run("collaboration", "report", found, "--wait", "60"),
        }


def predicted_right(made: Consortium, name: str, own: pa.Table) -> float:
    predicted = pyarrow.csv.read_csv(made.institution(name).home / "predictions.csv")
    return float(np.mean(predicted.column("prediction").to_numpy() == own.column("tumour").to_numpy()))


def test_members_are_told_which_models_may_come_back(played: dict[str, Any]) -> None:
    assert "(auto: the best of several" in played["shown"]
    assert "logistic, random-forest)" in played["shown"]


def test_the_report_shows_every_candidate_and_the_rule(played: dict[str, Any]) -> None:
    choice = played["report"]["results"]["choice"]
    assert [one["name"] for one in choice["candidates"]] == ["logistic", "random-forest, trees 20"]
    for one in choice["candidates"]:
        assert 0.8 < one["mean"] <= 1
        assert 0 <= one["spread"] < 0.2
        assert one["folds"] == 3
    assert choice["folds"] == "3 parties, each left out in turn"
    assert "two standard errors" in choice["rule"]
    assert choice["rule"] in played["page"]
    assert f"the model is {choice['chosen']}, chosen of 2" in played["page"]


def test_members_are_told_which_alignments_are_tried_and_read_how_each_did(played: dict[str, Any]) -> None:
    names = ["isotropic", "odc", "gopp", "imakura"]
    assert f"common representation ({', '.join(names)})" in played["shown"]
    choice = played["report"]["results"]["alignment_choice"]
    assert [one["name"] for one in choice["candidates"]] == names
    for one in choice["candidates"]:
        assert 0.8 < one["mean"] <= 1
        assert one["folds"] == 3
    assert choice["scored_by"] == "logistic"
    assert f"the alignment is {choice['chosen']}, chosen of 4 by the scores of logistic" in played["page"]


def test_the_chosen_model_predicts_and_is_judged(played: dict[str, Any]) -> None:
    assert min(played["right"].values()) > 0.85
    assert 0.9 < played["report"]["results"]["judgement"]["within"]["roc_auc"]["mean"] <= 1


def test_candidates_that_do_not_fit_are_named_when_the_terms_are_published(played: dict[str, Any]) -> None:
    unfit = MODEL.replace('"random-forest"\ntrees = 20', '"ridge"')
    with pytest.raises(CommandError, match="a ridge model does not predict classes"):
        published(played["made"], with_model(played["draft"], unfit))
