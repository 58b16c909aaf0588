from __future__ import annotations

from tests.harness.odc import Odc


def test_preparing_tries_attacks_and_says_what_they_found(odc: Odc) -> None:
    odc.consortium.until_anchored(latent_dim=2)
    table = odc.consortium.table(1)
    said = odc("prepare", table).out
    assert "the analyst with any member could try closest vector:" in said
    assert "the analyst could try independent components: columns told for nearly all rows:" in said
    assert odc("prepare", table, "--no-attacks", "--json").json["attacks"]  # what was found is kept
    thorough = odc("prepare", table, "--thorough").out
    assert "the analyst with rows of similar people could try population matching:" in thorough
    assert "the analyst with 5 rows that it knows could try known rows:" in thorough
    assert len(odc("prepare", table, "--json").json["attacks"]) == 5  # what was found is kept
    assert "contradict" in odc("prepare", table, "--thorough", "--no-attacks").err
    other = odc.consortium.table(2)
    assert odc("prepare", other, "--no-attacks", "--json").json["attacks"] == []
    assert "could try" not in odc("prepare", other, "--no-attacks").out


def test_a_policy_is_shown_changed_and_cleared(odc: Odc) -> None:
    odc.consortium.until_joined()
    assert "nothing is limited" in odc("policy").out
    said = odc("policy", "--max-exact-rows", "0.01", "--min-hidden-bits", "8", "--never", "patient_id").out
    assert "at most 1.0% of the rows" in said
    assert "at least 8 bits" in said
    assert "column patient_id" in said
    found = odc("policy", "--max-found-columns", "2", "--json").json
    assert found == {
        "max_exact_rows": 0.01,
        "max_found_columns": 2,
        "min_hidden_bits": 8.0,
        "never": ["patient_id"],
    }
    assert "nothing is limited" in odc("policy", "--clear").out
    refused = odc("policy", "--max-exact-rows", "5")
    assert refused.code == 3
    assert "max_exact_rows" in refused.err
    assert "less than or equal to 1" in refused.err


def test_a_policy_is_told_before_anything_is_sent_and_holds_when_it_is(odc: Odc) -> None:
    odc.consortium.until_anchored(latent_dim=2)
    odc("policy", "--min-hidden-bits", "8")
    prepared = odc("prepare", odc.consortium.table(1))
    assert "not allowed, by our policy or by the terms: 8 of a row's 16 bits must stay here" in prepared.out
    assert "it would allow terms with a dither of" in prepared.out
    assert "next: odc contribute" not in prepared.out
    refused = odc("contribute")
    assert refused.code == 3
    assert "ask the lead for terms with a dither of" in refused.err


def test_a_damaged_policy_is_not_taken_for_none(odc: Odc) -> None:
    odc.consortium.until_anchored()
    odc("prepare", odc.consortium.table(1))
    odc.consortium.hospital.home.policy_path.write_text("max_rows = 1\n")
    refused = odc("contribute")
    assert refused.code != 0
    assert "policy.toml" in refused.err
    assert "max_rows" in refused.err
