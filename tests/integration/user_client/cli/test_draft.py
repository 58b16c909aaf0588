"""`odc terms draft` shows what fewer latent dimensions would keep, and what is still to be written."""

from __future__ import annotations

from tests.harness.in_process import LEAD
from tests.harness.odc import Odc


def test_a_draft_shows_the_cost_of_fewer_dimensions_and_keeps_it_here(odc: Odc) -> None:
    words = ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD, "--force")
    found = odc(*words, "--json").json
    assert found["fewer"][0] == {
        "latent_dim": found["latent_dim"],
        "kept": found["signal"]["kept"],
        "score": found["signal"]["projected_auc"],
        "measure": "roc_auc",
    }
    asked = odc(*words, "--latent-dim", "3", "--json").json
    assert asked["fewer"][0]["kept"] == asked["signal"]["kept"]
    assert found["fewer"][0] in asked["fewer"]  # what would be drafted, beside what was asked for
    shown = odc(*words).out
    assert "latent_dim   kept (R squared)" in shown
    assert f"{found['fewer'][-1]['kept']:.2f}" in shown
    assert "kept" not in (odc.consortium.directory / "terms.toml").read_text()


def test_a_draft_without_a_purpose_says_so(odc: Odc) -> None:
    """Everybody signs it, and the officer who does reads the legal basis in it."""
    words = ("terms", "draft", odc.consortium.table(1), "--label", "y", "--party", LEAD, "--force")
    assert "look at purpose: it is empty" in odc(*words).out
    shown = odc(*words, "--purpose", "research on readmissions").out
    assert "look at purpose" not in shown
    assert 'purpose = "research on readmissions"' in (odc.consortium.directory / "terms.toml").read_text()
