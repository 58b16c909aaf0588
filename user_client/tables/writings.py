"""Texts that hold more than a name: a number with its unit, a time, two numbers, a list, a code of many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

NEARLY_ALL: Final = 0.9
"""Share of the texts of a column that are written in one way."""
FEWEST: Final = 8
"""Of fewer different texts each is a level, however it is written."""
_NUMBER: Final = r"[-+]?\d+(?:[.,]\d+)?"
_PERCENT: Final = re.compile(rf"{_NUMBER}\s*%")
_TIME: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?(?:\s*[ap]\.?m\.?)?", re.IGNORECASE)
_TWO: Final = re.compile(rf"{_NUMBER}\s*/\s*{_NUMBER}")
_UNIT: Final = re.compile(rf"{_NUMBER}\s*([^\W\d_][^\d\s]*(?:/[^\s]+)?|°[CF]?)")
_CODE: Final = re.compile(r"(?=[^\s]*\d)[A-Za-z]{1,4}[\d][\w.\-/]*|\d[\w.\-/]*[A-Za-z.][\w.\-/]*")
_SEPARATORS: Final = (";", "|", ",", "+")
_OFTEN: Final = 3
"""So many texts have each part of a list, on average."""


def advice_on(texts: Sequence[str]) -> str | None:
    """Return how a column of such different texts is written, and what to write; None if they are names."""
    if len(texts) < FEWEST:
        return None
    most = NEARLY_ALL * len(texts)
    if sum(_PERCENT.fullmatch(text) is not None for text in texts) >= most:
        return "are percentages; write them as numbers, without the sign, in every table"
    if sum(_TIME.fullmatch(text) is not None for text in texts) >= most:
        return "are times of the day; write the part of the day in every table, such as night and morning"
    if sum(_TWO.fullmatch(text) is not None for text in texts) >= most:
        return "are two numbers each; write each into a column of its own in every table"
    units = Counter(match[1] for text in texts if (match := _UNIT.fullmatch(text)))
    if units and units.most_common(1)[0][1] >= most:
        return "are numbers with their unit; write the numbers alone, in one unit, in every table"
    if any(_are_lists(texts, separator) for separator in _SEPARATORS):
        return "are lists; write a column of yes and no for each of their parts in every table"
    return None


def _are_lists(texts: Sequence[str], separator: str) -> bool:
    """Return whether half of the texts have several parts, of which each stands in several texts."""
    parts = [[part.strip() for part in text.split(separator)] for text in texts]
    several = [each for each in parts if len(each) > 1 and all(each)]
    different = {part for each in several for part in each}
    return 2 * len(several) >= len(texts) and _OFTEN * len(different) <= sum(map(len, several))


def are_codes(texts: Sequence[str]) -> bool:
    """Return whether nearly all texts are letters with digits, as codes of diagnoses are."""
    return sum(_CODE.fullmatch(text) is not None for text in texts) >= NEARLY_ALL * len(texts)
