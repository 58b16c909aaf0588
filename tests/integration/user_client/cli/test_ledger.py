from __future__ import annotations

from pathlib import Path

import pytest

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
    assert len(result.err.splitlines()) == 2


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
