"""Where we are and what comes next; a round in one sitting, which resumes anywhere."""

from __future__ import annotations

from typing import NoReturn

import httpx
import pytest

from analyst_server.services import end
from analyst_server.services.awaited import Awaited
from tests.harness.in_process import HOSPITAL, LEAD
from tests.harness.odc import Odc
from user_client.transport import connection


def test_without_a_command_it_says_how_to_begin(odc: Odc) -> None:
    said = odc(home="nobody")
    assert (said.code, "next: odc join INVITATION" in said.out) == (0, True)


def test_whoever_waits_for_the_lead_is_told_so_and_the_lead_of_them(odc: Odc) -> None:
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    odc("join", "i.json")
    waiting = odc("status")
    assert (waiting.code, "the lead institution has not approved yet" in waiting.err) == (5, True)
    assert "next: odc join, once the lead institution has approved our request" in odc().out
    assert odc(home=LEAD).out.splitlines()[1:] == [
        f"{HOSPITAL} waits for a certificate",
        "no collaboration names this institution yet",
        "next: odc consortium approve",
    ]


def test_without_a_collaboration_it_says_how_to_begin(odc: Odc) -> None:
    odc.consortium.until_joined()
    assert "next: odc consortium invite PARTY" in odc(home=LEAD).out
    assert "next: odc round TABLE" in odc().out


def test_without_a_command_it_names_the_next_step(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    assert f"Readmission ({odc.consortium.id[:8]}): enrolling\n  next: odc round TABLE" in odc().out


def test_machines_are_told_the_same_without_a_command(odc: Odc) -> None:
    nobody = odc("--json", home="nobody").json
    assert (nobody["party"], nobody["next"]) == (
        None,
        "odc join INVITATION, or the lead: odc consortium create",
    )
    odc("consortium", "invite", HOSPITAL, "--out", "i.json", home=LEAD)
    odc("join", "i.json")
    lead = odc("--json", home=LEAD).json
    assert (lead["waiting_for_certificates"], lead["next"]) == ([HOSPITAL], "odc consortium approve")
    odc.consortium.until_joined().publish()
    found = odc("--json")
    assert (found.json["party"], found.err) == (HOSPITAL, "")
    assert found.json["collaborations"] == [
        {
            "collaboration_id": odc.consortium.id,
            "title": "Readmission",
            "state": "enrolling",
            "next": "odc round TABLE, or one by one: odc terms show, odc terms accept",
        }
    ]
    refused = odc("--json", "status")
    assert (refused.code, "odc COMMAND --json" in refused.err) == (3, True)


@pytest.mark.parametrize("how", ["status", ""])
def test_after_the_downlink_is_here_nothing_is_to_be_received(odc: Odc, how: str) -> None:
    odc.consortium.until_released()
    words = [how] if how else []
    assert "next: odc receive" in odc(*words).out
    odc("receive")
    assert "next: odc predict TABLE" in odc(*words).out


def test_a_round_goes_on_where_it_stopped(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    tables = {home: odc.consortium.table(seed) for seed, home in enumerate((LEAD, HOSPITAL))}

    def walk(home: str) -> tuple[int, str]:
        result = odc("round", tables[home], "--yes", "--wait", "0", home=home)
        return result.code, result.out + result.err

    code, said = walk(HOSPITAL)
    assert (code, f"{LEAD}: odc terms accept" in said) == (6, True)
    assert "This institution sends to the analyst, once:" in said
    code, said = walk(LEAD)
    assert (code, f"{HOSPITAL}: odc contribute" in said) == (6, True)
    code, said = walk(HOSPITAL)
    assert "40 rows of 3 encoded features become 3 numbers each" in said
    odc.consortium.compute()
    for home in tables:
        code, said = walk(home)
        assert (code, "next: odc predict TABLE" in said) == (0, True)
    assert odc("predict", odc.consortium.table(5)).code == 0


def test_a_collaboration_that_was_cancelled_is_counted_and_not_shown(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    end.cancel(odc.consortium.analyst, odc.consortium.id)
    assert odc().out.splitlines()[1:] == [
        "next: odc round TABLE, which waits until the analyst publishes the terms",
        "cancelled, and not shown: 1 (odc --json names them)",
    ]
    assert [row["state"] for row in odc("--json").json["collaborations"]] == ["cancelled"]


def away(request: httpx.Request) -> NoReturn:
    raise httpx.ConnectError("refused", request=request)


def test_without_the_analyst_it_says_what_is_known_here(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    def known() -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(connection, "metered", lambda *_: lambda *_: httpx.MockTransport(away))
            said = odc()
        assert (said.code, "error: no answer from https://analyst" in said.err) == (7, True)
        assert said.out.startswith(f"{HOSPITAL} in Heart, analyst https://analyst:8443\n")
        return said.out.splitlines()[1:-1]

    name = f"Readmission ({odc.consortium.until_joined().publish()[:8]})"
    assert known() == []
    odc("terms", "show")
    assert known() == [f"{name}: we have read the terms, and not signed them"]
    odc("terms", "accept")
    assert known() == [f"{name}: we have signed the terms, and sent nothing"]
    odc.consortium.contribute_all()
    assert known() == [f"{name}: the analyst has our uplink, and the model is not here yet"]
    odc.consortium.compute()
    odc("receive")
    assert known() == [f"{name}: the model is here", "  next: odc predict TABLE, odc evaluate TABLE"]


def test_a_round_whose_model_is_here_is_meant_before_those_that_were_cancelled(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    found = odc.consortium.id
    end.cancel(odc.consortium.analyst, odc.consortium.publish())
    said = odc("round", odc.consortium.table(1))
    assert (said.code, said.out) == (0, "released\nnext: odc predict TABLE, odc evaluate TABLE\n")
    assert "rows-1.csv was not read: no step of this round needs a table now" in said.err
    second = odc.consortium.publish(title="Second")
    assert odc("wait").out == (
        "enrolling\nnext: odc round TABLE, or one by one: odc terms show, odc terms accept\n"
    )
    assert odc().out.splitlines()[-1].startswith("behind a command, -c names the one that is meant: -c ")
    assert all(f"-c {each[:8]}" in odc().out for each in (found, second))


def test_whoever_waits_is_told_what_a_cancellation_means(odc: Odc) -> None:
    odc.consortium.until_anchored()
    end.cancel(odc.consortium.analyst, odc.consortium.id)
    said = odc("wait", "--collaboration", odc.consortium.id).out
    assert "cancelled\nnext: the analyst has cancelled the collaboration, and erases what was sent" in said


def test_a_table_that_cannot_be_read_is_told_before_terms_are_waited_for(odc: Odc) -> None:
    odc.consortium.until_joined()
    table = odc.consortium.directory / "empty.csv"
    table.touch()
    refused = odc("round", table, "--wait", "600")
    assert (refused.code, "empty.csv" in refused.err) == (3, True)


def test_what_an_analyst_says_moves_no_cursor(odc: Odc, monkeypatch: pytest.MonkeyPatch) -> None:
    odc.consortium.until_accepted()
    evil = Awaited(LEAD, "create-anchor", "\x1b[2J the lead")
    monkeypatch.setattr("analyst_server.services.views.awaited", lambda *_: [evil])
    said = odc("round", odc.consortium.table(1), "--yes", "--wait", "0").err
    assert "enrolling: waiting for <U+001B>[2J the lead" in said
    assert "\x1b" not in said


def test_a_round_says_what_it_does_and_no_commands(odc: Odc) -> None:
    odc.consortium.until_anchored()
    said = odc("round", odc.consortium.table(1), "--yes", "--wait", "0").err.splitlines()
    assert "anchored: preparing our table" in said
    assert "collecting: waiting for the others, whom `odc status` names" in said


def test_the_risk_is_the_last_that_is_said_before_the_question(odc: Odc) -> None:
    odc.consortium.until_anchored()
    asked = odc.at_terminal("round", odc.consortium.table(1), typed="n").err.splitlines()
    question = next(number for number, line in enumerate(asked) if line.startswith("Send this, from"))
    advice, *warnings = reversed([line for line in asked[:question] if line])
    assert advice.startswith("if that is too much, send nothing")
    assert warnings[0].startswith("warning: the analyst with any member")


def test_a_round_asks_before_it_signs_and_before_it_sends(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    table = odc.consortium.table(1)
    assert "no terminal to ask at" in odc("round", table).err
    assert "nothing was signed" in odc.at_terminal("round", table, typed="n").err
    assert not any(member["accepted"] for member in odc.consortium.hospital_round.status()["members"])
    odc.consortium.lead_round.accept()
    signed = odc.at_terminal("round", table, "--wait", "0", typed="y")
    assert f"Sign these terms for {HOSPITAL}?" in signed.err
    odc.consortium.lead_round.create_anchor()
    asked = odc.at_terminal("round", table, typed="n").err
    assert f"Send this, from {table}, for 'Readmission'? It cannot be taken back." in asked
    assert all(member["uplink"] == "none" for member in odc.consortium.hospital_round.status()["members"])


def test_another_table_than_was_signed_with_is_compared_with_the_terms_before_it_is_sent(odc: Odc) -> None:
    columns = [
        {"kind": "numeric", "name": name, "low": -4, "high": 4, "out_of_range": "clip"}
        for name in ("x0", "x1", "x2")
    ]
    label = {"name": "y", "classes": ["no", "yes"]}
    schema = {"columns": columns, "label_column": label}
    odc.consortium.until_anchored(table_schema=schema)
    other = odc.consortium.table(1, x2=[-999, *(index / 10 for index in range(39))])
    asked = odc.at_terminal("round", other, typed="n").err.splitlines()
    assert asked[-3].startswith("warning: column 'x2': -999 is in 1 rows")
    assert asked[-2].startswith(f"Send this, from {other}, for")
    unfit = odc("round", odc.consortium.table(1, x1=["old"] * 40), "--yes")
    assert (unfit.code, "column 'x1', 40 data rows" in unfit.err) == (3, True)
    assert all(member["uplink"] == "none" for member in odc.consortium.hospital_round.status()["members"])


def test_a_round_is_of_the_collaboration_in_which_something_is_left_to_do(odc: Odc) -> None:
    odc.consortium.until_released()
    odc("receive")
    first = odc.consortium.id
    odc.consortium.publish(title="Second")
    walked = odc("round", odc.consortium.table(1), "--yes", "--wait", "0").err
    assert walked.startswith(f"Second ({odc.consortium.id[:8]})")
    odc.consortium.app = None  # type: ignore[assignment]  # to predict, the analyst is not asked
    predicted = odc("predict", odc.consortium.table(5))
    assert (predicted.code, first[:8] in predicted.err) == (0, True)


def test_who_signs_has_seen_the_risk_with_warnings_last(odc: Odc) -> None:
    columns = [
        {"kind": "numeric", "name": name, "low": -4, "high": 4, "out_of_range": "clip"}
        for name in ("x0", "x1", "x2")
    ]
    label = {"name": "y", "classes": ["no", "yes"]}
    odc.consortium.until_joined().publish(table_schema={"columns": columns, "label_column": label})
    table = odc.consortium.table(1, x2=[-999, *(index / 10 for index in range(39))])
    asked = odc.at_terminal("round", table, typed="n").err
    told = [
        "the table fits: 40 rows of 3 encoded features",
        "a model of your own rows alone has a ROC-AUC of",
        "who know the secret basis together, can in principle rebuild every value",
        "in 2 of 3 columns nothing is empty, clipped, another level or a code",
        "warning: column 'x2': -999 is in 1 rows",
        'ask the lead for terms with missing = ["", "-999"] in table_schema',
        f"Sign these terms for {HOSPITAL}?",
    ]
    places = [asked.find(words) for words in told]
    assert -1 not in places, told[places.index(-1)]
    assert places == sorted(places)
    unasked = odc("round", table, "--yes", "--wait", "0").err  # a script signs, and its log has the risk
    assert all(words in unasked for words in told[:-1])


def test_a_table_that_does_not_fit_is_told_before_anything_is_signed(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    refused = odc("round", odc.consortium.table(1, x1=["old"] * 40), "--yes")
    assert (refused.code, "column 'x1', 40 data rows, the first is 1: expected a number" in refused.err) == (
        3,
        True,
    )
    assert not any(member["accepted"] for member in odc.consortium.hospital_round.status()["members"])


def test_waiting_ends_at_once_where_a_step_is_ours(odc: Odc) -> None:
    odc.consortium.until_joined().publish()
    assert (
        odc("wait", "--json").json["next"]
        == "odc round TABLE, or one by one: odc terms show, odc terms accept"
    )


def test_waiting_in_vain_says_what_for(odc: Odc) -> None:
    odc.consortium.until_accepted()
    waited = odc("wait", "--timeout", "0.1")
    assert (waited.code, f"{LEAD}: odc anchor create" in waited.err) == (6, True)


def test_a_machine_in_order_has_no_trouble(odc: Odc) -> None:
    odc.consortium.until_accepted()
    found = odc("doctor", odc.consortium.table(1), "--json")
    assert found.code == 0
    looked = {one["what"] for one in found.json["findings"]}
    assert looked >= {"membership", "permissions", "disk", "certificate", "analyst", "table"}
    assert not any(one["fix"] for one in found.json["findings"])
    assert {one["outcome"] for one in found.json["findings"]} == {"ok"}


def test_each_trouble_comes_with_its_fix(odc: Odc) -> None:
    odc.consortium.until_accepted()
    table = odc.consortium.table(1)
    table.write_text(table.read_text().replace("x1,", "X1 ,", 1))
    home = odc.consortium.directory / HOSPITAL
    home.chmod(0o777)
    odc.consortium.clock.now += 10 * 365 * 86400
    machine = odc("doctor", table, "--json").json["findings"]
    assert {one["outcome"] == "trouble" for one in machine if one["fix"]} == {True}
    found = odc("doctor", table)
    assert found.code == 3
    assert "fix: chmod 700" in found.out
    assert "fix: odc renew" in found.out
    assert "fix: rename 'X1 ' to 'x1'" in found.out
