"""In words: what the alignment has found of the institutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from protocol.suspicions import LIKELY_CAUSE, Suspected
from protocol.texts import visible

_UNLIKE: Final = 0.01
"""A smaller gap, relative to the size of the anchors, is not worth a sentence."""


def suspected_in_words(party: str, found: Suspected, *, is_left_out: bool) -> list[str]:
    """Return of what the analyst suspects an institution, and what follows, as lines."""
    cause = LIKELY_CAUSE.get(found["assumption"], "the analyst names a cause that we do not know")
    lines = [
        f"suspected by the analyst: {visible(party)}: {cause}",
        f"  its anchor representation {visible(found['evidence'])}",
    ]
    if is_left_out:
        lines.append("  the model is trained without its rows")
    return lines


def alignment_in_words(found: Mapping[str, Any]) -> list[str]:
    """Return what a report says of the alignment, as lines: how far parties are apart, and who is suspected.

    All that it measured is in the report as JSON. Reports of earlier versions have less.
    """
    lines = []
    if gaps := found.get("party_gaps"):
        furthest = max(gaps, key=lambda party: gaps[party])
        apart = f"{found['concordance_gap']:.1e} of their size"
        lines.append(f"aligned, the institutions' anchors differ by {apart}, most at {visible(furthest)}")
        if found["concordance_gap"] >= _UNLIKE:
            lines.append(
                "  so one and the same row may be predicted somewhat differently at another institution: more"
                " latent dimensions bring them nearer"
            )
    left_out = found.get("left_out", ())
    for each in found.get("suspicions", ()):
        lines += suspected_in_words(each["party"], each, is_left_out=each["party"] in left_out)
    return lines
