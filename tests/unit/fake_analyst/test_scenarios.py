"""Each scenario tries words that stand in docs/protocol.md, and its verdict can go either way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest

from fake_analyst.between import Noted, Request
from fake_analyst.client import Client, Ran, Step
from fake_analyst.scenario import Scenario, Tried
from fake_analyst.scenarios import SCENARIOS
from fake_analyst.trial import what_is_wrong
from protocol.errors import InputError
from protocol.operations import APPEND, FETCH_DOWNLINK, FETCH_LEDGER, SEND_SEEN_LEDGER, Operation
from tests.harness.tree import REPOSITORY


def sections() -> dict[str, str]:
    """Return the text of docs/protocol.md by the number of its section, with single spaces."""
    parts = re.split(r"^## (\d+)\. ", (REPOSITORY / "docs" / "protocol.md").read_text(), flags=re.MULTILINE)
    return {number: " ".join(text.split()) for number, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_what_a_scenario_tries_stands_in_its_section_of_the_document(scenario: Scenario) -> None:
    assert scenario.says in sections()[scenario.section]


def test_no_two_scenarios_have_one_name() -> None:
    assert [name for name, count in Counter(one.name for one in SCENARIOS).items() if count > 1] == []


def noted(operation: Operation, *, lied: bool = False, tag: str = "") -> Noted:
    headers = {"if-none-match": tag} if tag else {}
    return Noted(Request(operation, {}, "", headers, 0.0), lied=lied, status=200)


REFUSED, DONE, LIED = Ran(Step.CONTRIBUTE, 5, ""), Ran(Step.CONTRIBUTE, 0, ""), noted(FETCH_LEDGER, lied=True)
SCENARIO = Scenario("any", "lies", "10", "MUST", Step.CONTRIBUTE)


@pytest.mark.parametrize(
    ("ran", "requests", "says"),
    [
        (REFUSED, [LIED], ""),
        (REFUSED, [noted(APPEND), LIED], ""),
        (DONE, [LIED], "it believed the lie"),
        (REFUSED, [LIED, noted(APPEND)], "it sent after the lie: append"),
        (REFUSED, [noted(FETCH_LEDGER)], "it never asked for what was lied about, only for: fetch_ledger"),
        (Ran(Step.CONTRIBUTE, None, ""), [LIED], "did not end in time"),
        (Ran(Step.CONTRIBUTE, -9, ""), [LIED], "was ended by SIGKILL"),
        (Ran(Step.CONTRIBUTE, 70, ""), [LIED], "ended with 70"),
    ],
)
def test_a_client_has_to_refuse_and_to_send_nothing_more(
    ran: Ran, requests: Sequence[Noted], says: str
) -> None:
    found = what_is_wrong(SCENARIO, Tried([ran], requests), lied=True)
    assert says in found
    assert bool(found) == bool(says)


def test_a_downlink_may_be_asked_for_again_and_not_acknowledged() -> None:
    scenario = Scenario("any", "lies", "9", "MUST", Step.RECEIVE)
    again, told = noted(FETCH_DOWNLINK), noted(FETCH_DOWNLINK, tag="any")
    lied, refused = noted(FETCH_DOWNLINK, lied=True), Ran(Step.RECEIVE, 5, "")
    assert not what_is_wrong(scenario, Tried([refused], [lied, again]), lied=True)
    for further in (told, noted(SEND_SEEN_LEDGER)):
        assert "it sent after the lie" in what_is_wrong(
            scenario, Tried([refused], [lied, further]), lied=True
        )


def test_who_has_to_bear_it_fails_by_refusing() -> None:
    scenario = Scenario("any", "stumbles", "12", "MUST", Step.CONTRIBUTE, ends="succeeds")
    assert "should have gone on" in what_is_wrong(scenario, Tried([REFUSED], [LIED]), lied=True)
    assert not what_is_wrong(scenario, Tried([DONE], [LIED, noted(APPEND)]), lied=True)


def test_a_client_needs_a_command_for_every_step() -> None:
    with pytest.raises(InputError, match="no command was given for: contribute, receive"):
        Client({Step.JOIN: "client join", Step.ACCEPT: "client accept"})
