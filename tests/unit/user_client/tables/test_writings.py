"""Texts that hold a number, a time or a list are named with what to write, and names are not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from protocol.errors import InputError
from user_client.tables import draft_schema
from user_client.tables.writings import advice_on, are_codes

ROWS = 300
RNG = np.random.default_rng(0)
YES_OR_NO = RNG.choice(["no", "yes"], ROWS).tolist()
WRITINGS = {
    "percentages": lambda number: f"{number / 3:.1f}%",
    "times of the day": lambda number: f"{number // 60 % 24:02}:{number % 60:02}",
    "two numbers each": lambda number: f"{100 + number}/{60 + number // 3}",
    "numbers with their unit": lambda number: f"{50 + number} kg",
    "lists": lambda number: ";".join(letter for bit, letter in enumerate("ABCDEFGHI") if number >> bit & 1),
}


@pytest.mark.parametrize("what", WRITINGS)
def test_a_column_of_many_is_refused_with_what_to_write(what: str) -> None:
    texts = [WRITINGS[what](number) for number in range(1, ROWS + 1)]
    with pytest.raises(InputError) as caught:
        draft_schema(pa.table({"x": texts, "y": YES_OR_NO}), "y")
    assert f"which are {what}; write" in str(caught.value)
    assert "--exclude x" in str(caught.value)
    assert "too few" not in str(caught.value)


@pytest.mark.parametrize("what", WRITINGS)
def test_a_column_of_fewer_is_drafted_with_a_remark(what: str) -> None:
    texts = [WRITINGS[what](number % 40 + 1) for number in range(ROWS)]
    found = draft_schema(pa.table({"x": texts, "y": YES_OR_NO}), "y")
    assert [one for one in found.remarks if one.startswith(f"x: its texts are {what}; write")]
    meant = draft_schema(pa.table({"x": texts, "y": YES_OR_NO}), "y", categories=["x"])
    assert not [one for one in meant.remarks if "its texts are" in one]


@pytest.mark.parametrize(
    "texts",
    [
        [f"ward {number}" for number in range(40)],
        [f"C{number}.{number % 10}" for number in range(40)],
        [f"Smith, J. {number}" for number in range(40)],
        [f"{number}-{number + 9}" for number in range(0, 400, 10)],
        ["mild", "moderate", "severe", "none", "A+", "B+", "AB+", "O+", "A-", "B-", "O-"],
        ["10 %", "20 %", "50 %"],
    ],
    ids=["names", "codes", "persons", "spans", "groups", "few"],
)
def test_names_are_names(texts: list[str]) -> None:
    assert advice_on(texts) is None


def test_codes_of_many_may_be_shortened() -> None:
    codes = [f"{letter}{number:02}.{number % 9}" for letter in "ABC" for number in range(100)]
    assert are_codes(codes)
    assert not are_codes([f"patient {number}" for number in range(20)])
    with pytest.raises(InputError, match="shorten these codes to their first characters in every table, or"):
        draft_schema(pa.table({"icd": codes, "y": YES_OR_NO}), "y")


def test_times_of_a_date_are_lost_and_whole_days_lose_nothing() -> None:
    days = [f"2024-01-{1 + number % 28:02}" for number in range(ROWS)]
    times = [f"{day} {number % 24:02}:00" for number, day in enumerate(days)]

    def said_of(texts: list[str]) -> list[str]:
        found = draft_schema(pa.table({"at": texts, "y": YES_OR_NO}), "y")
        return [one for one in found.remarks if "the hour and the day of the week" in one]

    assert len(said_of(times)) == 1
    assert not said_of(days)
    assert not said_of([f"{day} 00:00" for day in days])


def test_a_heavy_tail_is_not_said_to_be_kept_in_proportion() -> None:
    amounts = np.exp(3 * RNG.standard_normal(ROWS))
    (said,) = [
        one
        for one in draft_schema(pa.table({"x": amounts, "y": YES_OR_NO}), "y").remarks
        if "heavy tail" in one
    ]
    assert "ranks keep the order alone" in said
    assert "--logarithm x" in said
