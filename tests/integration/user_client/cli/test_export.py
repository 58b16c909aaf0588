"""`odc export`: what a person types and reads; what is in the file is tested in sdk/."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.harness.odc import Odc


def test_the_file_and_its_card_are_written_for_us_alone(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    said = odc("export")
    assert said.code == 0
    assert "model.onnx and model.md written" in said.out
    assert "must stay inside this institution" in said.out
    assert stat.S_IMODE(Path("model.onnx").stat().st_mode) == 0o600
    assert "must stay inside that institution" in Path("model.md").read_text()
    assert "name the model with another ending" in odc("export", "--out", "other.md").err
    again = odc("export")
    assert (again.code, "--force" in again.err) == (3, True)
    found = odc("export", "--force", "--json").json
    assert (found["model"], found["card"], found["largest_difference"] < 1e-5) == (
        "model.onnx",
        "model.md",
        True,
    )


def test_before_the_downlink_nothing_is_written(odc: Odc) -> None:
    odc.consortium.until_contributed()
    refused = odc("export")
    assert (refused.code != 0, "odc receive" in refused.err) == (True, True)
    assert not Path("model.onnx").exists()
