"""The cases of odd_inputs.json: what odd fields of a table are, as numbers, as levels and as text.

What each comes to is written out here, not computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.vectors.examples import Case

REFUSED: Final = "refused"
EMPTY: Final = "empty"
MISSING: Final = ["", "NA", "-999"]

_NUMBERS: Final[dict[str, float | str]] = {
    "1": 1.0,
    "+1": 1.0,
    "-0": -0.0,
    "007": 7.0,
    "1.": 1.0,
    ".5": 0.5,
    "+.5e1": 5.0,
    "1e5": 100000.0,
    "1E+05": 100000.0,
    "0.1": 0.1,
    "9007199254740993": 9007199254740992.0,
    "9007199254740995": 9007199254740996.0,
    "2.4703282292062328e-324": 5e-324,
    "1e-400": 0.0,
    "1.7976931348623157e308": 1.7976931348623157e308,
    "1.7976931348623159e308": REFUSED,
    "-1e400": REFUSED,
    "inf": REFUSED,
    "-Infinity": REFUSED,
    "NaN": REFUSED,
    "nan(1)": REFUSED,
    ".": REFUSED,
    "+": REFUSED,
    "1e": REFUSED,
    "1e1.5": REFUSED,
    "--1": REFUSED,
    "+ 1": REFUSED,
    "1 000": REFUSED,
    "1\u00a0000": REFUSED,
    "1_000": REFUSED,
    "1,000": REFUSED,
    "1,5": REFUSED,
    "0x10": REFUSED,
    "1d5": REFUSED,
    "1.5f": REFUSED,
    "5%": REFUSED,
    "true": REFUSED,
    "\u22121": REFUSED,
    "\uff11": REFUSED,
    "\u0661\u0662": REFUSED,
    "1e\u0665": REFUSED,
    "\u00b2": REFUSED,
    "1\u200b": REFUSED,
    "\ufeff1": REFUSED,
    " 1": 1.0,
    "1\t": 1.0,
    "\u00a01\u3000": 1.0,
    "\u20091\u202f": 1.0,
    "\x1c1\x85": 1.0,
    "\u2028 1\n": 1.0,
    "": EMPTY,
    " \t": EMPTY,
    " NA ": EMPTY,
    "na": REFUSED,
    "-999": EMPTY,
    "-999.0": EMPTY,
    "-9.99E2": EMPTY,
    "-999.5": -999.5,
    "1e999": REFUSED,
}
_LEVELS: Final[list[tuple[list[str], str, int | str]]] = [
    (["north", "south"], "\u00a0south ", 1),
    (["north", "south"], "South", REFUSED),
    (["north", "south"], "south\u200b", REFUSED),
    (["north", "south"], "so uth", REFUSED),
    (["north", "south"], "", EMPTY),
    (["NA", "south"], "NA", 0),
    (["\u00e9t\u00e9", "hiver"], "\u00e9t\u00e9", 0),
    (["\u00e9t\u00e9", "hiver"], "e\u0301te\u0301", REFUSED),
    (["e\u0301te\u0301", "\u00e9t\u00e9"], "\u00e9t\u00e9", 1),
    (["stra\u00dfe", "weg"], "STRASSE", REFUSED),
    (["\ufb01n", "d\u00e9but"], "fin", REFUSED),
    ([" north", "south"], " north", REFUSED),
    (["1", "2"], "1.0", 0),
    (["1", "2"], "2.000", 1),
    (["1.0", "2.0"], "2", 1),
    (["1", "1.0"], "1.0", 1),
    (["1", "1.0"], "1.00", 0),
    (["1", "2"], "1.", REFUSED),
    (["1", "2"], "+1", REFUSED),
    (["1", "2"], "01", REFUSED),
    (["1", "2"], "1e0", REFUSED),
    (["1", "2"], "1.01", REFUSED),
    (["0", "1"], "-0.0", REFUSED),
    (["-1", "1"], "-1.0", 0),
    (["1", "2"], "\uff11", REFUSED),
    (["-999", "1"], "-999.0", 0),
    (["0", "1"], "-999.0", EMPTY),
    (["0", "1"], "-9.99E2", REFUSED),
    (["false", "true"], "True", 1),
    (["False", "True"], "FALSE", 0),
    (["FALSE", "TRUE"], "true", 1),
    (["True", "true"], "true", 1),
    (["false", "true"], "tRUE", REFUSED),
    (["false", "true"], "1", REFUSED),
    (["+1", "2"], "+1.0", REFUSED),
]
_TYPED: Final[list[tuple[str, Any, str | None]]] = [
    ("integer", -5, "-5"),
    ("integer", 9007199254740993, "9007199254740993"),
    ("float", 1.0, "1"),
    ("float", -0.0, "-0"),
    ("float", 0.1, "0.1"),
    ("float", 1234567890.0, "1234567890"),
    ("float", 10000000000.0, "1e+10"),
    ("float", 12345678901.5, "1.23456789015e+10"),
    ("float", 0.000001, "0.000001"),
    ("float", 0.00000015, "1.5e-7"),
    ("float", None, None),
    ("float", "NaN", None),
    ("float", "Infinity", "inf"),
    ("boolean", True, "true"),
    ("boolean", False, "false"),
    ("date", "2020-01-31", "2020-01-31"),
    ("time in seconds", "2020-01-31T01:02:03", "2020-01-31 01:02:03"),
    ("time in microseconds", "2020-01-31T01:02:03.004", "2020-01-31 01:02:03.004000"),
    ("time in milliseconds of UTC", "2020-01-31T00:00:00", "2020-01-31 00:00:00.000Z"),
    ("decimal of two places", "1.50", "1.50"),
    ("decimal of two places", "-3.00", "-3.00"),
    ("text", " NA ", "NA"),
]


def odd_inputs() -> dict[str, list[Case]]:
    """Return the file: fields of text as numbers and as levels, and values of a type as text."""
    return {
        "numbers": [*_numbers()],
        "levels": [
            {"levels": levels, "missing": MISSING, "field": field, "level": level}
            for levels, field, level in _LEVELS
        ],
        "typed": [{"type": kind, "value": value, "text": text} for kind, value, text in _TYPED],
    }


def _numbers() -> Iterator[Case]:
    for field, number in _NUMBERS.items():
        yield {"missing": MISSING, "field": field, "number": number}
