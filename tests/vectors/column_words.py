"""What people read of columns of schema 2, beside the text of the example terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vectors.columns import (
    CODED_TERMS,
    DATE_TERMS,
    IMPUTED_DATE_TERMS,
    IMPUTED_TERMS,
    LEVEL_TERMS,
    LOGARITHM_OF_DAYS,
)
from tests.vectors.examples import changed

_DATES_WARNING = (
    "Warning: dates: a day may be known of one person alone, and so may the days between two. Whoever has"
    " them from elsewhere can recognise the row by them.\n"
)
_DATES = (
    "- admitted: a date written as iso, its rank among the 3 quantiles 2019-12-31, 18262.5, 2020-02-29; a"
    " date outside is moved to the nearer end; an empty field is refused\n"
    "- left: the days since the date in admitted, both written as iso, from 0 to 30, less 4.5; a number"
    " outside is moved to the nearer end; an empty field counts as the middle\n"
)
_LEVELS = (
    "- grade: one of low, mid, high, as its place in this order from -1 to 1, less 0.25; an empty field"
    " counts as the middle\n"
    "- levels: one of north, south, with the shares 0.25, 0.75, each less its share and times 0.5; any other"
    " text counts as south; an empty field counts as the middle, and one more feature says whether the field"
    " is empty, less the share 0.1\n"
)
_IMPUTED = (
    "- rank: its rank among the 3 quantiles 0, 1.5, 4; a number outside is moved to the nearer end; an"
    " empty field counts as 0.75\n"
    "- range: its logarithm, between those of 0.25 and 16, less that of 2; a number outside is moved to"
    " the nearer end; an empty field counts as 0.25\n"
    "- levels: one of north, south, with the shares 0.25, 0.75, each less its share and times 0.5; an empty"
    " field counts as south, and one more feature says whether the field is empty, less the share 0.1\n"
)


def columns_in_words(text: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield terms of schema 2 with other columns, and what people read, from the text of `TERMS_2`."""
    head, _ = text.split("- rank:")
    dates = (
        _with_width(head, 2).replace("Warning: nothing is", f"{_DATES_WARNING}Warning: nothing is") + _DATES
    )
    yield "dates", DATE_TERMS, dates
    yield (
        "an empty date that counts as a day",
        IMPUTED_DATE_TERMS,
        dates.replace("an empty field is refused", "an empty field counts as 2020-01-01"),
    )
    yield (
        "a duration as its logarithm",
        changed(DATE_TERMS, "table_schema", "columns", 1, to=LOGARITHM_OF_DAYS),
        dates.replace(
            "from 0 to 30, less 4.5", "its logarithm, between those of 0.5 and 30, less that of 4.5"
        ),
    )
    yield "values for empty fields, and a logarithm", IMPUTED_TERMS, head + _IMPUTED
    yield "levels in an order, and one for all other texts", LEVEL_TERMS, _with_width(head, 4) + _LEVELS
    line = next(line for line in text.splitlines() if line.startswith("- range:"))
    yield (
        "texts for an empty field in some columns",
        CODED_TERMS,
        text.replace(line, f"{line}; texts that also stand for an empty field: 1, -9").replace(
            "less the share 0.1\n", "less the share 0.1; texts that also stand for an empty field: 9, north\n"
        ),
    )


def _with_width(head: str, width: int) -> str:
    """Return the same of terms that keep so many numbers of as many features."""
    return (
        head.replace(
            "5 numbers (20 bytes) in place of its 5",
            f"{width} numbers ({4 * width} bytes) in place of its {width}",
        )
        .replace("(100 bytes)", f"({4 * width * width} bytes)")
        .replace("along the 5 leading", f"along the {width} leading")
    )
