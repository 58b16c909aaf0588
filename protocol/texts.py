"""The kinds of text that messages hold: what people read and sign must look like what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import StringConstraints

from protocol.limits import MAX_NAME_CHARS, MAX_TEXT_CHARS

_MOVES_A_TERMINAL = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Control characters, and those that change the direction of writing: people must see what they sign."""
_LINE = f"^[^{_MOVES_A_TERMINAL}]*$"
_LINES = rf"^([^{_MOVES_A_TERMINAL}]|\n|\t)*$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS, pattern=_LINE)]
FieldText = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS, pattern=_LINE)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS, pattern=_LINES)]
_DNS_LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
PartyName = Annotated[str, StringConstraints(pattern=_DNS_LABEL)]
"""A DNS label, so that a party's name is safe in a path, a log and a certificate."""
KeyDigest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a public key (DER, SubjectPublicKeyInfo)."""
_ID = r"^[0-9a-f]{32}$"
Identifier = Annotated[str, StringConstraints(pattern=_ID)]


def is_id(text: str) -> bool:
    """Return whether a text is written as the ids that we give."""
    return re.fullmatch("[0-9a-f]{32}", text) is not None


def in_words(pattern: str) -> str:
    """Return what a text has to be like that a pattern here has refused."""
    if pattern == _DNS_LABEL:
        return (
            "a name has 1 to 63 lower case letters, digits and hyphens, and begins and ends with no hyphen,"
            " such as hospital-b"
        )
    if pattern == _ID:
        return "an id has 32 digits, 0 to 9 and a to f"
    if pattern in (_LINE, _LINES):
        return "must be text without control characters"
    return "is not written as it has to be"


_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What moves a terminal's cursor, turns the direction of writing or is not seen at all: control and format
characters, and those that Unicode says to leave out of a display (Default_Ignorable_Code_Point)."""
LINE_ENDS: Final = "\n\t"
"""Characters of these that a text of several lines has."""


def hidden_characters(text: str) -> list[str]:
    """Return the characters of a text that nobody sees, as ``U+200B``, without line feeds and tabs."""
    return [f"U+{ord(each):04X}" for each in _INVISIBLE.findall(text) if each not in LINE_ENDS]


def visible(text: str) -> str:
    """Return a text with every character that nobody sees spelt as ``<U+200B>``."""
    return _INVISIBLE.sub(lambda at: at[0] if at[0] in LINE_ENDS else f"<U+{ord(at[0]):04X}>", text)


def why_not_new(content: Any) -> Iterator[str]:
    """Yield what keeps the content of terms from being published: texts that do not look like what they are.

    Terms that are published already keep their texts, and are shown with `visible`.
    """
    for place, text in _texts(content, ()):
        name = ".".join(place)
        if hidden := hidden_characters(text):
            yield f"{name} has a character that nobody sees: {', '.join(dict.fromkeys(hidden))}"
        if place == ("purpose",) and any(each in text for each in LINE_ENDS):
            yield "purpose has several lines, as the text that people sign has: write one paragraph"
        if place[:2] == ("table_schema", "label_column") and _CLASSES & {*place} and is_formula(text):
            yield f"{name} begins with {text[0]!r}: a spreadsheet would compute it as a formula"
        if place[0] == "table_schema" and _LEVELS & {*place} and text != text.strip():
            yield f"{name} has white space at an end: no field of a table is equal to it, take it away"


_CLASSES: Final = frozenset({"classes", "seen", "censored", "absent", "present"})
_LEVELS: Final = _CLASSES | {"levels"}


def _texts(content: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(content, str):
        yield place, content
    elif isinstance(content, Mapping):
        for name, value in content.items():
            yield from _texts(value, (*place, str(name)))
    elif isinstance(content, list | tuple):
        for number, value in enumerate(content):
            yield from _texts(value, (*place, str(number)))


_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would compute a text of a CSV file: ``=1+1``, ``@SUM(A1)``, not ``-1``."""
    return len(text) > 1 and text[0] in "=+-@\t\r" and not _NUMBER.fullmatch(text)


def decimal_text(value: float) -> str:
    """Return the fewest digits that read back as the same 64-bit float, never with an exponent."""
    text = repr(float(value))
    if "e" in text:
        text = f"{Decimal(text):f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
