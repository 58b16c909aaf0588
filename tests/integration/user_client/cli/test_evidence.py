"""`odc evidence`: what it writes and says; what is in an archive is tested in sdk/."""

from __future__ import annotations

from pathlib import Path

from protocol.identity import fingerprint
from tests.harness.odc import Odc
from user_client import evidence_verifier
from user_client.evidence_verifier import verify


def test_an_archive_is_written_for_its_owner_and_says_what_is_not_in_it(odc: Odc) -> None:
    odc.consortium.until_accepted()
    made = odc("evidence", "--out", "evidence.zip")
    assert made.code == 0
    assert "acceptance.odc   our signature under the terms" in made.out
    assert "receipt.odc      would come with `odc contribute`" in made.out
    assert "title of the terms: Readmission" in made.out
    root = odc.consortium.hospital.home.root().certificate
    assert f'--root "{fingerprint(root)}"' in made.out
    assert Path("evidence.zip").stat().st_mode & 0o777 == 0o600


def test_an_archive_for_machines(odc: Odc) -> None:
    odc.consortium.until_contributed()
    made = odc("evidence", "--out", "evidence.zip", "--json").json
    assert {"downlink.odc", "forgotten.odc"} == set(made["absent"])
    assert "desk.json" in made["files"]
    data = Path("evidence.zip").read_bytes()
    assert len(data) == made["bytes"]
    assert verify(data, made["root_fingerprint"]).doubts == made["doubts"] == []


def test_the_verifier_is_printed_as_it_is(odc: Odc) -> None:
    assert odc("evidence", "--verifier").out == Path(evidence_verifier.__file__).read_text()


def test_an_archive_is_not_overwritten_unasked_and_needs_a_name(odc: Odc) -> None:
    odc.consortium.until_accepted()
    Path("evidence.zip").write_text("mine")
    assert odc("evidence", "--out", "evidence.zip").code == 3
    assert odc("evidence", "--out", "evidence.zip", "--force").code == 0
    assert "--out FILE.zip" in odc("evidence").err
