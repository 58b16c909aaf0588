from __future__ import annotations

import re

import pytest

from protocol import errors
from protocol.errors import InputError, OdcError
from protocol.problems import all_errors
from protocol.tokens import TokenRow
from runtime.terminal import exit_code, for_terminal, token_lifetime_s, token_lines


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
