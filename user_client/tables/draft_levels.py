"""Columns of categories in a draft: levels with their shares and a weight, and a level for all others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InputError
from user_client.tables.fields import Matrix64
from user_client.tables.figures import MAX_DRAFT_LEVELS
from user_client.tables.writings import advice_on, are_codes

FEWEST_ROWS: Final = 5
"""A text in fewer rows is rare: in the terms, it would tell every member that there is such a person."""
MANY_RARE: Final = 2
"""Rare texts from which on other tables likely have some that this one lacks.

Of 3,249 random divisions of columns of four tables, two other institutions of as many rows had another text
in 20 %: in 70 % of those with two rare texts or more, and in 7 % of the others.
"""
OTHER: Final = "other"
NUMERIC_VARIANCE: Final = 1 / 3
"""Variance of ranks, which are spread evenly from -1 to 1; all levels of a column together have no more."""


def ordinal_block(name: str, levels: Sequence[str], shares: Sequence[float] | Matrix64) -> dict[str, Any]:
    """Return a column of levels in an order whose feature has the mean 0."""
    centre = float(np.linspace(-1, 1, len(levels)) @ np.asarray(shares))
    return {"kind": "ordinal", "name": name, "levels": list(levels), "centre": round(centre, 3) + 0.0}


def levels_block(name: str, levels: Sequence[str], shares: Sequence[float] | Matrix64) -> dict[str, Any]:
    """Return a column of levels whose features together vary as much as ranks do."""
    spread = 1 - float(np.square(shares).sum())
    return {
        "kind": "levels",
        "name": name,
        "levels": list(levels),
        "shares": [round(float(share), 3) for share in shares],
        "weight": round(min(1.0, math.sqrt(NUMERIC_VARIANCE / spread)), 3) if spread > 0 else 1.0,
    }


def block_with_other(name: str, levels: list[str], counts: NDArray[np.int64]) -> tuple[dict[str, Any], str]:
    """Return a column whose rare texts are one level, and a remark on it.

    It raises `InputError` if most rows have such a text.
    """
    other = next((level for level in levels if level.lower() == OTHER), OTHER)
    often = [i for i in np.argsort(-counts, kind="stable") if counts[i] >= FEWEST_ROWS and levels[i] != other]
    kept = sorted(often[: MAX_DRAFT_LEVELS - 1])
    listed, total = int(counts[kept].sum()), int(counts.sum())
    if not kept or listed < total / 2:
        raise too_many(name, levels)
    rest = 1 - listed / total
    block = levels_block(name, [*(levels[i] for i in kept), other], [*counts[kept] / total, rest])
    remark = (
        f"{name}: {len(levels) - len(kept)} of its {len(levels)} texts count as '{other}', in"
        f" {100 * rest:.1f} % of the rows, and so does every text that only other institutions have"
    )
    return {**block, "other": other}, remark


def remarks_on_rare(name: str, counts: NDArray[np.int64]) -> Iterator[str]:
    """Yield a remark if a column has several rare texts: members read them, and likely have more."""
    rare = int((counts < FEWEST_ROWS).sum())
    if rare >= MANY_RARE:
        yield (
            f"{name}: {rare} of its texts are in fewer than {FEWEST_ROWS} rows each, and every member will"
            " read them; other institutions likely have texts that the draft lacks, and a table with one is"
            " refused: ask for theirs and add them to levels and shares, or draft again with --other"
            f" {quote(name)}, which makes one level of the rare and all others"
        )


def too_many(name: str, texts: Sequence[str]) -> InputError:
    """Return the error of a column with more texts than levels, which says what else to write, if it can."""
    left_out = f"leave it out with --exclude {quote(name)}"
    said = f"column '{name}' has {len(texts)} distinct texts, "
    if advice := advice_on(texts):
        return InputError(f"{said}which {advice}, or {left_out}")
    said += "and too few of them are in many rows; "
    if are_codes(texts):
        said += "shorten these codes to their first characters in every table, or "
    return InputError(f"{said}{left_out}")
