"""What is asked before our one uplink leaves."""

from __future__ import annotations

import pytest

from tests.harness.in_process import COLUMNS
from tests.harness.odc import Odc


def nothing_was_received(odc: Odc) -> bool:
    status = odc.consortium.hospital_round.status()
    return all(member["uplink"] == "none" for member in status["members"])


def test_a_script_that_does_not_say_yes_sends_nothing_and_does_not_hang(odc: Odc) -> None:
    odc.consortium.until_anchored()
    refused = odc("contribute", odc.consortium.table(1))
    assert (refused.code, "no terminal to ask at" in refused.err, "--yes" in refused.err) == (3, True, True)
    assert nothing_was_received(odc)
    assert odc("contribute", "--yes").code == 0


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_sees_what_would_leave_and_is_asked(odc: Odc, answer: str) -> None:
    odc.consortium.until_anchored()
    asked = odc.at_terminal("contribute", odc.consortium.table(1), typed=answer)
    assert "40 rows of 3 encoded features become 3 numbers each" in asked.err
    table = odc.consortium.directory / "rows-1.csv"
    assert f"Send this, from {table}, for 'Readmission'? It cannot be taken back." in asked.err
    assert (asked.code == 0) == (answer == "y")
    assert nothing_was_received(odc) == (answer == "n")


def test_no_rows_make_nobody_a_consumer_by_accident(odc: Odc) -> None:
    odc.consortium.until_anchored()
    empty = odc.consortium.table(1, **{name: [] for name in (*COLUMNS, "y")})
    refused = odc("contribute", empty, "--yes")
    assert (refused.code, "--consumer" in refused.err) == (3, True)
    assert nothing_was_received(odc)
    assert odc("contribute", empty, "--yes", "--consumer").code == 0


def test_a_consumer_with_rows_is_a_contradiction(odc: Odc) -> None:
    odc.consortium.until_anchored()
    refused = odc("contribute", odc.consortium.table(1), "--yes", "--consumer")
    assert (refused.code, "the table has 40" in refused.err) == (3, True)
    assert nothing_was_received(odc)


def test_a_receipt_is_shown_again_without_a_question(odc: Odc) -> None:
    odc.consortium.until_anchored()
    first = odc("contribute", odc.consortium.table(1), "--yes", "--json")
    assert odc("contribute", "--json").json == first.json
    assert "nothing was sent now: our one uplink of this round was received" in odc("contribute").out
