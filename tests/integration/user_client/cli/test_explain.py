"""The command that explains the model, and what it writes."""

from __future__ import annotations

import re

import pytest

from tests.harness.in_process import Consortium
from tests.harness.odc import Odc


@pytest.fixture
def released(odc: Odc) -> Consortium:
    odc.consortium.until_released()
    odc("receive")
    return odc.consortium


def test_the_command_shows_a_table_and_writes_values_and_plots(odc: Odc, released: Consortium) -> None:
    table, here = released.table(9), released.directory
    result = odc("explain", table, "--rows", "rows.csv", "--plot", "plot.svg")
    lines = result.out.splitlines()
    assert lines[0] == "how far a column moves the answer (yes), over 40 rows:"
    assert {line.split()[0] for line in lines[1:4]} == {"x0", "x1", "x2"}
    assert re.search(r"shuffled, the score falls by -?\d+\.\d ±\d+\.\d$", lines[1])
    assert re.fullmatch(r"ROC-AUC of these rows: \d+\.\d", lines[4])
    assert (here / "rows.csv").read_text().startswith('"row","outcome","shapley_x0"')
    assert "<svg" in (here / "plot.svg").read_text()
    as_json = odc("explain", table, "--plot", "plot.png", "--background", "own", "--json").json
    assert {column["name"] for column in as_json["columns"]} == {"x0", "x1", "x2"}
    assert (here / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--plot", "plot.pdf"), "a .png or an .svg file"),
        (("--background", "mine"), "one of anchor, own"),
        (("--rows", "taken.csv"), "taken.csv exists"),
        (("--rows", "-"), "--rows names a file"),
    ],
)
def test_options_that_cannot_be_are_refused_before_the_work(
    odc: Odc, released: Consortium, options: tuple[str, ...], why: str
) -> None:
    (released.directory / "taken.csv").write_text("mine")
    result = odc("explain", released.table(9), *options)
    assert (result.code, why in result.err) == (3, True)
    assert (released.directory / "taken.csv").read_text() == "mine"
