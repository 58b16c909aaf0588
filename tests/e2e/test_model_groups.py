"""Institutions with like shares of the classes share a model, and one with others gets that of all rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from protocol.messages import DownlinkManifest
from tests.harness.consortium import WAIT_S, Consortium, consortium

NAMES = ("lead-hospital", "hospital-b", "hospital-c")
RARE = NAMES[:2]
"""The first two have few rows of the second class, the third has many."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("groups"), *NAMES) as found:
        yield found


def of_shares(seed: int, *, yes: int, no: int) -> pa.Table:
    """Return rows of two classes that overlap, so that the shares of the classes count."""
    is_yes = np.arange(yes + no) < yes
    values = np.random.default_rng(seed).normal(size=(yes + no, 4)) * 3 + 1.5 * (2 * is_yes[:, None] - 1)
    columns = {f"x{number}": np.clip(values[:, number], -9, 9) for number in range(4)}
    return pa.table({**columns, "label": np.where(is_yes, "yes", "no")})


@pytest.fixture(scope="module")
def released(made: Consortium) -> str:
    found = made.anchored(model_groups={"largest_distance": 0.2}, hold_out=0.2)
    for seed, name in enumerate(NAMES):
        yes, no = (30, 120) if name in RARE else (120, 30)
        made.contribute(name, found, of_shares(seed, yes=yes, no=no))
    made.wait_for(found, "released")
    for name in NAMES:
        made.institution(name).odc("receive", "--wait", str(WAIT_S))
    return found


def downlink(made: Consortium, name: str, collaboration_id: str) -> DownlinkManifest:
    return made.sessions[name].round(collaboration_id).directory.load(DownlinkManifest)


def test_the_ledger_has_all_models_and_each_institution_that_of_its_group(
    made: Consortium, released: str
) -> None:
    found = [downlink(made, name, released) for name in NAMES]
    assert found[0].model.digest == found[1].model.digest != found[2].model.digest
    assert {one.models for one in found} == {tuple(sorted({one.model.digest for one in found}))}
    for name in NAMES:
        assert "downlink.odc" in made.institution(name).odc("ledger", "verify")["checked"]


def test_probabilities_are_those_of_the_group(made: Consortium, released: str, tmp_path: Path) -> None:
    fresh = of_shares(99, yes=100, no=100)
    path = tmp_path / "fresh.csv"
    pyarrow.csv.write_csv(fresh.drop_columns(["label"]), path)
    means = []
    for name in NAMES:
        out = tmp_path / f"{name}.csv"
        made.institution(name).odc("predict", str(path), "--out", str(out))
        means.append(float(np.mean(pyarrow.csv.read_csv(out)["probability_yes"].to_numpy())))
    assert max(means[:2]) < means[2] - 0.05


def test_the_report_says_who_is_a_group_and_what_one_model_would_be_worth(
    made: Consortium, released: str, tmp_path: Path
) -> None:
    own: Any = made.lead.round(released).report()["results"]
    assert [group["parties"] for group in own["groups"]] == [sorted(RARE)]
    assert own["groups"][0]["rows"] == 240
    assert own["rows"] == 360
    text = made.analyst.run("collaboration", "report", released)
    assert f"{', '.join(sorted(RARE))} share a model that was trained on their 240 rows alone" in text
    assert "every other institution has the model that was trained on all 360 rows" in text


def test_the_card_names_whose_rows_trained_the_model(made: Consortium, released: str, tmp_path: Path) -> None:
    for name, teachers in ((NAMES[0], sorted(RARE)), (NAMES[2], list(NAMES))):
        out = tmp_path / f"{name}.onnx"
        made.institution(name).odc("export", "--out", str(out))
        card = out.with_suffix(".md").read_text()
        assert f"of the rows of {', '.join(teachers)}; the file is that of {name}" in card
