"""The kinds of text that messages hold: what people read and sign must look like what it is."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import StringConstraints

from protocol.limits import MAX_NAME_CHARS, MAX_TEXT_CHARS

_MOVES_A_TERMINAL = r"\x00-\x1f\x7f-\x9f\u{200e}\u{200f}\u{2028}-\u{202e}\u{2066}-\u{2069}"
"""Control characters, and those that change the direction of writing: people must see what they sign."""
_LINE = f"^[^{_MOVES_A_TERMINAL}]*$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS, pattern=_LINE)]
FieldText = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS, pattern=_LINE)]
Text = Annotated[
    str, StringConstraints(max_length=MAX_TEXT_CHARS, pattern=rf"^([^{_MOVES_A_TERMINAL}]|\n|\t)*$")
]
PartyName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
"""A DNS label, so that a party's name is safe in a path, a log and a certificate."""
Identifier = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


def decimal_text(value: float) -> str:
    """Return the fewest digits that read back as the same 64-bit float, never with an exponent."""
    text = f"{Decimal(repr(value)):f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
