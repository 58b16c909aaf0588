"""`odc forget` and what the other commands say around it; what it does is tested in sdk/."""

from __future__ import annotations

from pathlib import Path

from tests.harness.nri import NRI
from tests.harness.odc import Odc


def test_forgetting_says_what_was_erased_and_what_that_means(odc: Odc) -> None:
    odc.consortium.until_contributed(**NRI)
    result = odc("forget")
    assert result.code == 0
    assert "basis.npy (the secret basis F_i, and with it the map phi_i of the rows if there" in result.out
    assert "UTC" in result.out
    assert "a backup may still hold older copies" in result.out
    assert "next: odc forget --check" in result.out


def test_forgetting_for_machines(odc: Odc) -> None:
    odc.consortium.until_contributed(**NRI)
    found = odc("forget", "--json").json
    assert {file["name"] for file in found["erased"]} == {"basis.npy", "uplink.payload"}
    assert Path(found["statement"]).exists()
    assert len(found["uplink_digest"]) == 64


def test_what_would_be_lost_needs_a_yes(odc: Odc) -> None:
    odc.consortium.until_contributed()
    asked = odc("forget")
    assert asked.code == 3
    assert "`odc predict` would not be possible any more" in asked.err
    assert "--yes" in asked.err
    assert odc("forget", "--yes").code == 0


def test_looking_lists_every_file_and_ends_well(odc: Odc) -> None:
    odc.consortium.until_contributed(**NRI)
    result = odc("forget", "--check")
    assert result.code == 0
    assert "the analyst's receipt" in result.out
    assert "our statement (verified)" in result.out
    assert "no file here contains the secret basis" in result.out


def test_looking_ends_badly_before_anything_is_forgotten(odc: Odc) -> None:
    odc.consortium.until_contributed()
    result = odc("forget", "--check")
    assert result.code == 6
    assert (
        "these files still contain or reveal the basis: anchor.odc, basis.npy, sealing.key, uplink.payload"
        in result.err
    )
    assert "no file here contains" not in result.out


def test_looking_names_what_nobody_knows(odc: Odc) -> None:
    odc.consortium.until_contributed(**NRI)
    directory = odc.consortium.directory_of(odc.consortium.hospital)
    (directory / "notes.txt").write_text("x")
    result = odc("forget", "--check")
    assert result.code == 6
    assert "files of unknown content: notes.txt" in result.err
    (directory / "notes.txt").unlink()
    (directory / "forgotten.odc").unlink()
    assert "we have signed no statement" in odc("forget", "--check").err


def test_receiving_says_how_well_our_own_model_has_learnt(odc: Odc) -> None:
    odc.consortium.until_released(**NRI)
    assert "% of the anchor rows it was not trained on" in odc("receive").out
    assert odc("receive", "--json").json["held_out_agreement"] > 0.5


def test_the_lead_names_the_table_of_a_public_anchor(odc: Odc) -> None:
    odc.consortium.until_accepted(anchor={"kind": "public", "rows": 30})
    refused = odc("anchor", "create", home="lead-hospital")
    assert refused.code == 3
    assert "--table FILE" in refused.err
    table = str(odc.consortium.table(50))
    made = odc("anchor", "create", "--table", table, home="lead-hospital")
    assert "anchor sealed for 2 members" in made.out
