"""Hospitals that map their rows in four ways, by their commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

from odc_demo.actors import CommandError
from tests.harness.consortium import WAIT_S, Consortium, consortium, rows
from tests.harness.exported import predicts_as_it_exports
from user_client.onnx_model.writing import Writer

NAMES = ("lead-hospital", "hospital-b", "hospital-c", "hospital-d")
OWN = {NAMES[1]: "random-features", NAMES[2]: "kernel-pca", NAMES[3]: "own.onnx"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("maps"), *NAMES) as found:
        yield found


def encoder(path: Path) -> None:
    """A network of one layer, 4 features to 16 numbers."""
    rng, graph = np.random.default_rng(0), Writer(4)
    wide = graph.node("Cast", graph.input, to=11)
    reached = graph.node("MatMul", wide, graph.constant(rng.standard_normal((4, 16))))
    path.write_bytes(graph.file(graph.node("Tanh", reached), 16))


@pytest.fixture(scope="module")
def released(made: Consortium) -> dict[str, Any]:
    """A round of one linear map and three others, and what the commands said."""
    found = made.anchored(
        latent_dim=4,
        own_maps=["kernel-pca", "onnx", "random-features"],
        alignment={"method": "kawakami"},
        anchor={"kind": "gaussian", "rows": 400},
        hold_out=0.25,
        model={"kind": "logistic"},
    )
    prepared = {}
    for seed, name in enumerate(NAMES):
        member, options = made.institution(name), []
        path = member.home / "rows.csv"
        pyarrow.csv.write_csv(rows(seed, 200), path)
        if name in OWN:
            encoder(member.home / "own.onnx")
            chosen = str(member.home / OWN[name]) if OWN[name].endswith(".onnx") else OWN[name]
            options = ["--own-map", chosen]
        prepared[name] = member.odc("prepare", str(path), *options)
        send = ["--yes", "--accept-signal-loss"]
        if name == NAMES[-1]:  # the last one walks on to its downlink
            member.odc("round", str(path), *send, *options, "--wait", str(WAIT_S))
        else:
            member.odc("contribute", *send)
    made.wait_for(found, "released")
    for name in NAMES[:-1]:
        made.institution(name).odc("receive", "--wait", str(WAIT_S))
    return {"id": found, "prepared": prepared}


def test_what_leaves_is_alike_and_what_is_said_of_it_is_not(released: dict[str, Any]) -> None:
    shapes = {name: [each["shape"] for each in one["arrays"]] for name, one in released["prepared"].items()}
    assert set(map(str, shapes.values())) == {str([[150, 4], [400, 4], [150]])}
    measured = {name: one["information"] is not None for name, one in released["prepared"].items()}
    assert measured == {name: name not in OWN for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_each_predicts_and_exports_what_it_predicts(
    made: Consortium, released: dict[str, Any], tmp_path: Path, name: str
) -> None:
    member, table = made.institution(name), rows(99, 300)
    right, _ = predicts_as_it_exports(member, table, tmp_path)
    assert right > 0.6  # chance is 0.5; of 48 members of simulated rounds the worst had 0.75
    assert member.odc("evaluate", str(member.home / "rows.csv"))["rows"] == 50


def test_coefficients_are_of_linear_maps(made: Consortium, released: dict[str, Any]) -> None:
    table = str(made.institution(NAMES[0]).home / "rows.csv")
    assert made.institution(NAMES[0]).odc("coefficients", table)["coefficients"]
    with pytest.raises(CommandError, match="coefficients are of linear maps"):
        made.institution(NAMES[1]).odc("coefficients", table)


def test_everybody_reads_that_maps_may_differ(made: Consortium, released: dict[str, Any]) -> None:
    text = made.analyst.run("collaboration", "report", released["id"])
    assert "by a non-linear function of its own (kernel-pca, onnx, random-features)" in text
    assert "suspected" not in text
