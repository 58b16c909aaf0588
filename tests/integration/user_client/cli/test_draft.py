"""`odc terms draft` shows what fewer latent dimensions would keep, and what is still to be written."""

from __future__ import annotations

import tomllib

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


def test_an_equals_sign_may_be_in_a_column_and_in_what_is_said_of_it(odc: Odc) -> None:
    texts = ["a=b", "c", *"dcd", "n=a", *"cd" * 17]
    made = odc.consortium
    table = made.table(1, **{"dose=mg": [-9, *range(39)], "kind": texts, "x=y": range(40), "x": range(40)})
    words = ("terms", "draft", table, "--label", "y", "--party", LEAD, "--force")
    said = ("--missing-in", "dose=mg=-9", "--missing-in", "kind=n=a", "--missing-in", "kind=a=b")
    assert odc(*words, *said).code == 0
    drafted = tomllib.loads((made.directory / "terms.toml").read_text())
    columns = {one["name"]: one for one in drafted["table_schema"]["columns"]}
    assert columns["dose=mg"]["missing"] == ["-9"]
    assert columns["kind"]["missing"] == ["n=a", "a=b"]
    assert columns["kind"]["levels"] == ["c", "d"]
    both = odc(*words, "--impute", "x=y=1")
    assert both.code != 0
    assert "'x' or 'x=y'" in both.err
    assert "rename one of them" in both.err
