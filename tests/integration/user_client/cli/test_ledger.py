from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.identity import key_digest
from tests.harness.in_process import LEAD
from tests.harness.odc import Odc
from user_client.transport import connection as connection_module


def test_a_ledger_is_fetched_and_checked_again_without_the_analyst(
    odc: Odc, monkeypatch: pytest.MonkeyPatch
) -> None:
    odc.consortium.until_contributed()
    fetched = odc("ledger", "fetch", "--out", "copy.odc", "--json")
    assert fetched.code == 0
    assert fetched.json["state"] == "sealed"
    assert "receipt.odc" in fetched.json["checked"]
    monkeypatch.setattr(connection_module, "metered", None)
    for again in (odc("ledger", "verify", "--json"), odc("ledger", "verify", "copy.odc", "--json")):
        assert again.json == fetched.json


def test_a_person_reads_every_step_and_the_head(odc: Odc) -> None:
    odc.consortium.until_accepted()
    shown = odc("ledger", "fetch")
    assert "publish terms" in shown.out
    assert "accept terms     hospital-a" in shown.out
    assert f"head: {odc('ledger', 'verify', '--json').json['head']}" in shown.out


def test_a_ledger_with_a_flipped_bit_is_two_lines_and_an_exit_code(odc: Odc) -> None:
    odc.consortium.until_accepted()
    odc("ledger", "fetch", "--out", "copy.odc")
    data = bytearray(Path("copy.odc").read_bytes())
    data[data.index(b"lead-hospital")] ^= 4
    Path("copy.odc").write_bytes(data)
    result = odc("ledger", "verify", "copy.odc")
    assert result.code == 5
    assert "entry 2: does not continue entry 1" in result.err
    assert len(result.err.splitlines()) == 3  # the first names the collaboration


def test_a_copy_is_not_overwritten_unasked(odc: Odc) -> None:
    odc.consortium.until_accepted()
    Path("copy.odc").write_text("mine")
    assert odc("ledger", "fetch", "--out", "copy.odc").code == 3
    assert odc("ledger", "fetch", "--out", "copy.odc", "--force").code == 0


def test_before_the_first_fetch_the_hint_says_what_to_do(odc: Odc) -> None:
    odc.consortium.until_accepted()
    result = odc("ledger", "verify")
    assert result.code == 6
    assert "odc ledger fetch" in result.err


def test_a_person_reads_which_members_have_seen_the_same(odc: Odc) -> None:
    made = odc.consortium
    made.until_contributed(analyst_key=key_digest(made.analyst.key.public_key()))
    assert odc("ledger", "fetch", "--json").json["members"] == [LEAD]
    assert f"the same as these had seen when they sent: {LEAD}" in odc("ledger", "fetch").out


def test_a_checkpoint_is_cosigned_here_and_verified_elsewhere_with_files_alone(odc: Odc) -> None:
    made = odc.consortium
    made.until_accepted()
    first = odc("ledger", "checkpoint", "--out", "first.note", "--json")
    assert first.code == 0, first.err
    assert first.json["text"] == Path("first.note").read_text()
    assert odc("ledger", "cosign", "first.note", "--out", "cosigned.note", "--json").json["signatures"] == 2
    made.lead_round.create_anchor()
    assert odc("ledger", "checkpoint", "--out", "second.note").code == 0
    assert odc("ledger", "prove", "first.note", "second.note", "--out", "proof").code == 0
    Path("analyst.pem").write_bytes(made.analyst.certificate.public_bytes(Encoding.PEM))
    Path("member.pem").write_bytes(made.hospital.home.certificate_path.read_bytes())
    verify = ("ledger", "verify-checkpoint")
    analyst = ("--signer", "analyst.pem")
    assert odc(*verify, "cosigned.note", *analyst, "--signer", "member.pem").code == 0
    assert odc(*verify, "second.note", *analyst, "--signer", "member.pem").code == 5
    grown = odc(*verify, "second.note", *analyst, "--earlier", "cosigned.note", "--proof", "proof", "--json")
    assert grown.json["begins_with"] == first.json["entries"]
    shrunk = odc(*verify, "first.note", *analyst, "--earlier", "second.note", "--proof", "proof")
    assert shrunk.code == 5
    assert odc(*verify, "second.note", *analyst, "--earlier", "first.note").code == 3
    assert odc("ledger", "prove", "first.note", "second.note", "--out", "proof").code == 3  # it is there
