"""A hospital sends fewer numbers of a row than the others, by its commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow.csv
import pytest

from odc_demo.actors import CommandError
from tests.harness.consortium import WAIT_S, Consortium, consortium, rows
from tests.harness.exported import predicts_as_it_exports

NAMES = ("lead-hospital", "hospital-b", "careful-hospital")
CAREFUL = NAMES[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("fewer"), *NAMES) as found:
        yield found


@pytest.fixture(scope="module")
def released(made: Consortium) -> dict[str, Any]:
    """A round whose third member sends two numbers of a row, and what its commands said."""
    found = made.anchored(
        latent_dim=4,
        least_latent_dim=2,
        alignment={"method": "imakura"},
        hold_out=0.25,
        model={"kind": "logistic"},
    )
    for seed, name in enumerate(NAMES[:2]):
        made.contribute(name, found, rows(seed, 200))
    careful = made.institution(CAREFUL)
    path = careful.home / "rows.csv"
    pyarrow.csv.write_csv(rows(2, 200), path)
    checked = careful.odc("terms", "check", str(path))
    with pytest.raises(CommandError, match="from 2 to 4 numbers of each row, got 1"):
        careful.odc("prepare", str(path), "--latent-dim", "1")
    prepared = careful.odc("prepare", str(path), "--latent-dim", "2")
    careful.odc("contribute", "--yes", "--accept-signal-loss")
    made.wait_for(found, "released")
    for name in NAMES:
        made.institution(name).odc("receive", "--wait", str(WAIT_S))
    return {"id": found, "checked": checked, "prepared": prepared, "table": str(path)}


def test_what_it_could_choose_and_what_it_has_chosen_is_said(released: dict[str, Any]) -> None:
    assert [each["latent_dim"] for each in released["checked"]["to_choose_from"]] == [4, 3, 2]
    prepared = released["prepared"]
    assert (prepared["latent_dim"], prepared["most_latent_dim"]) == (2, 4)
    assert [array["shape"] for array in prepared["arrays"][:2]] == [[150, 2], [4, 2]]


def test_it_predicts_explains_and_exports_what_it_predicts(
    made: Consortium, released: dict[str, Any], tmp_path: Any
) -> None:
    careful, table = made.institution(CAREFUL), rows(99, 300)
    right, columns = predicts_as_it_exports(careful, table, tmp_path)
    assert right > 0.6
    named = careful.odc("coefficients", released["table"])["coefficients"]
    assert {each["column"] for each in named} == columns
    assert careful.odc("evaluate", released["table"])["rows"] == 50


def test_everybody_reads_the_choice(made: Consortium, released: dict[str, Any]) -> None:
    text = made.analyst.run("collaboration", "report", released["id"])
    assert f"{CAREFUL} sends 2 numbers of a row, and the model takes 4" in text
    told: Any = made.lead.round(released["id"]).report()
    assert {each["party"]: each["latent_dim"] for each in told["parties"]} == {
        NAMES[0]: 4,
        NAMES[1]: 4,
        CAREFUL: 2,
    }
