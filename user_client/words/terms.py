"""Terms in words."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.consent import plain_words
from protocol.terms import Terms
from protocol.texts import visible
from user_client.sdk.session import SHORT_ID


def on_screen(terms: Terms) -> str:
    """Return the text that is signed, with what nobody sees spelt out, and a purpose of several lines marked.

    Terms that were published by this version have neither.
    """
    text = plain_words(terms)
    if len(terms.purpose.splitlines()) > 1:
        marked = "\n".join(f"| {line}" for line in terms.purpose.split("\n"))
        said = f"The purpose, as whoever published the terms wrote it:\n{marked}"
        text = text.replace(terms.purpose, said, 1)
    return visible(text)


def differences_in_words(terms: Terms, differs: Sequence[str] | None) -> str:
    """Return what is different from the terms that these replace, as lines; nothing if they replace none."""
    if terms.replaces is None:
        return ""
    if differs is None:
        return f"We were no party of {terms.replaces[:SHORT_ID]}, which these terms replace.\n\n"
    lines = [f"  {visible(line)}" for line in differs] or ["  nothing"]
    return "\n".join(
        [f"Different from {terms.replaces[:SHORT_ID]}, which these terms replace:", *lines, "\n"]
    )
