"""A hostile model on the way a person takes: `odc predict` and its neighbours say so and write nothing."""

from __future__ import annotations

from pathlib import Path

from tests.harness.models import hostile
from tests.harness.odc import Odc
from user_client.custody.round_directory import MODEL_FILE


def test_no_command_predicts_with_a_hostile_model(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    directory = odc.consortium.hospital_round.directory
    Path("new.csv").write_text("x0,x1,x2,x3,y\n0,1,0.5,-1,yes\n1,0,0,0.25,no\n")
    honest = directory.read(MODEL_FILE)
    for file in hostile().values():
        directory.write(MODEL_FILE, file)
        refused = odc("predict", "new.csv")
        assert (refused.code, "nothing was predicted" in refused.err) == (4, True), refused.err
        assert "Traceback" not in refused.err
        assert not Path("predictions.csv").exists()
    for command in (("evaluate", "new.csv"), ("explain", "new.csv"), ("export",)):
        refused = odc(*command)
        assert (refused.code, "tell the lead institution" in refused.err) == (4, True), command
    directory.write(MODEL_FILE, honest)
    assert odc("predict", "new.csv").code == 0
