"""The lead drafts from its own rows, and corrects the draft so that it fits the other hospitals' tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from odc_demo.corrections import corrected_draft
from protocol.errors import InputError


def part(rows: int = 40, **columns: Any) -> pa.Table:
    base = {
        "age": [str(40 + index % 30) for index in range(rows)],
        "ward": [["1", "2"][index % 4 == 0] for index in range(rows)],
        "smoker": [["never", "former"][index % 2] for index in range(rows)],
        "label": [["no", "yes"][index % 3 == 0] for index in range(rows)],
    }
    return pa.table({**base, **columns})


def corrected(**others: pa.Table) -> tuple[str, ...]:
    return corrected_draft({"lead": part(), **others}, "label", ()).options()


def test_tables_alike_need_no_correction() -> None:
    assert corrected(b=part(), c=part(8)) == ()


def test_what_only_others_have_becomes_options_of_the_draft() -> None:
    b = part(smoker=["never", "pipe"] * 20, label=["no", "unknown"] * 20)
    c = part(ward=["1", "east"] * 20, label=["dead", "yes"] * 20)
    assert corrected(b=b, c=c) == (
        *("--class", "unknown", "--class", "dead"),
        *("--other", "smoker", "--other", "ward"),
    )


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"label": ["no", ""] * 20}, "b: column 'label', 20 rows, the first is 2: the field is empty"),
        ({"age": ["40", "high"] * 20}, "b: column 'age', 20 rows, the first is 2: expected a number"),
    ],
)
def test_what_no_option_makes_room_for_is_told(other: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        corrected(b=part(**other))
