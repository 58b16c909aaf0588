"""Terms under which an institution lacks columns, what people read of them, and some that break a rule."""

from __future__ import annotations

from typing import Any, Final

from tests.vectors.examples import LATE_TERMS, TERMS, TERMS_2, changed

ABSENT: Final = [{"party": "hospital-b", "columns": ["rank", "range"]}]
ABSENT_TERMS: Final = {**TERMS_2, "latent_dim": 3, "absent_columns": ABSENT}
"""hospital-b has three features, which are those of the column levels."""
ABSENT_LINE: Final = (
    "Columns that institutions lack: hospital-b lacks rank, range. Such an institution takes part with its"
    " other columns: these columns of its table are not read, also where it has them. Its secret basis is"
    " zero on their encoded features, of its rows and of the anchor. The model predicts there from the other"
    " columns alone."
)
WARNINGS: Final = (
    "Warning: approximate alignment: the common representation is exact where the secret bases of all"
    " institutions span the same space, and an institution that lacks columns cannot have the same space as"
    " the others. Its rows may teach the model less, and it may be predicted for worse. The report says how"
    " far from the others each such institution stays.\n"
    "Warning: nothing is projected away at hospital-b: each row becomes as many numbers as it has encoded"
    " features without the columns that are lacking, so that whoever knows the secret basis knows the row.\n"
)


def absent_text(text: str) -> str:
    """Return what people read of `ABSENT_TERMS`, from the text of the same terms without absent columns."""
    before, after = text.split("Warning: nothing is projected away: ")
    return (
        (before + WARNINGS + after.split("\n", 1)[1])
        .replace("5 numbers (20 bytes)", "3 numbers (12 bytes)")
        .replace("(100 bytes)", "(60 bytes)")
        .replace("along the 5 leading", "along the 3 leading")
        .replace("\nThe model", f"\n{ABSENT_LINE}\nThe model", 1)
    )


def _lacking(party: str, *columns: str) -> dict[str, Any]:
    return {"party": party, "columns": list(columns)}


BROKEN_ABSENT: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("an empty list of absent columns", {**ABSENT_TERMS, "absent_columns": []}),
    ("terms of schema 1 with absent columns", {**TERMS, "absent_columns": [_lacking("hospital-b", "site")]}),
    ("absent columns of no party", {**ABSENT_TERMS, "absent_columns": [_lacking("hospital-z", "rank")]}),
    ("a party that lacks nothing", {**ABSENT_TERMS, "absent_columns": [_lacking("hospital-b")]}),
    ("a party that lacks columns twice", {**ABSENT_TERMS, "absent_columns": [*ABSENT, *ABSENT]}),
    (
        "one absent column twice",
        {**ABSENT_TERMS, "absent_columns": [_lacking("hospital-b", "rank", "rank")]},
    ),
    (
        "an absent column that the table has not",
        {**ABSENT_TERMS, "absent_columns": [_lacking("hospital-b", "height")]},
    ),
    (
        "fewer features at a party than latent dimensions",
        changed(ABSENT_TERMS, "latent_dim", to=4),
    ),
    (
        "a column that nobody has",
        {
            **ABSENT_TERMS,
            "absent_columns": [_lacking("hospital-a", "rank"), _lacking("hospital-b", "rank")],
        },
    ),
    (
        "a column that only a late consumer has",
        {
            **LATE_TERMS,
            "latent_dim": 3,
            "absent_columns": [_lacking("hospital-a", "rank"), _lacking("hospital-b", "rank")],
        },
    ),
    (
        "absent columns under anchor predictions",
        {
            **ABSENT_TERMS,
            "anchor": {"kind": "gaussian", "rows": 100},
            "downlink": "anchor-predictions",
        },
    ),
)
