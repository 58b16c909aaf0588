"""Terms under which each institution chooses how many numbers of a row it sends, and what people read."""

from __future__ import annotations

from typing import Any, Final

from tests.vectors.absent import ABSENT, ABSENT_LINE
from tests.vectors.absent import WARNINGS as WARNINGS_OF_ABSENT
from tests.vectors.alignments import ALIGNED_TERMS
from tests.vectors.examples import TERMS, TERMS_2, UPLINK, changed
from tests.vectors.sums import SUMS_TERMS

FEWER_TERMS: Final = changed({**TERMS_2, "least_latent_dim": 2}, "alignment", "method", to="imakura")
FEWER_OF_FEWER_TERMS: Final = {**FEWER_TERMS, "absent_columns": ABSENT}
"""hospital-b has three features, fewer than ``latent_dim``."""
_CHOICE: Final = (
    "Each institution chooses by itself how many numbers of a row it sends, and every institution reads the"
    " choice in the report. One that chooses nothing sends 5, or as many as it has encoded features. Fewer"
    " numbers tell the analyst less of a row and teach the model less, and the institution may be predicted"
    " for worse."
)


def fewer_text(text: str) -> str:
    """Return what people read of `FEWER_TERMS`, from the text of the same terms without a choice."""
    return (
        text.replace("5 numbers (20 bytes)", "2 to 5 numbers (8 to 20 bytes)")
        .replace("(100 bytes)", "(40 to 100 bytes)")
        .replace("\nProjections are rounded", f"\n{_CHOICE}\nProjections are rounded")
        .replace(
            "along the 5 leading axes of its rows",
            "along as many leading axes of its rows as it sends numbers of each",
        )
    )


def fewer_of_fewer_text(text: str) -> str:
    """Return the same of `FEWER_OF_FEWER_TERMS`."""
    return (
        fewer_text(text)
        .replace("\nThe model", f"\n{ABSENT_LINE}\nThe model", 1)
        .replace("\nWarning: nothing is", f"\n{WARNINGS_OF_ABSENT}Warning: nothing is")
    )


def valid_fewer() -> list[tuple[str, dict[str, Any]]]:
    """Return terms that leave the choice."""
    candidates = ["kawakami", "imakura"]
    return [
        ("terms that leave the number of numbers to each", FEWER_TERMS),
        ("the same and an institution with fewer features", FEWER_OF_FEWER_TERMS),
        ("the same and several alignments that can do it",
            changed({**ALIGNED_TERMS, "least_latent_dim": 5}, "alignment", "candidates", to=candidates)),
    ]  # fmt: skip


def broken_fewer() -> list[tuple[str, dict[str, Any]]]:
    """Return terms that break a rule of such a choice."""
    return [
        ("a choice from nil on", {**FEWER_TERMS, "least_latent_dim": None}),
        ("a choice from no number on", {**FEWER_TERMS, "least_latent_dim": 0}),
        ("a choice from more numbers than the most", {**FEWER_TERMS, "least_latent_dim": 6}),
        ("a choice with more numbers than a party has features",
            {**FEWER_OF_FEWER_TERMS, "least_latent_dim": 4}),
        ("a choice under an alignment that keeps lengths", {**TERMS_2, "least_latent_dim": 2}),
        ("a choice where one of several alignments keeps lengths", {**ALIGNED_TERMS, "least_latent_dim": 2}),
        ("a choice of how many numbers of sums", {**SUMS_TERMS, "least_latent_dim": 2}),
        ("terms of schema 1 with a choice",
            changed({**TERMS, "least_latent_dim": 1}, "alignment", "method", to="imakura")),
    ]  # fmt: skip


def uplinks_of_fewer() -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Return uplinks of several widths by hospital-b, which has five features or three, and their terms."""

    def sent(width: int, anchor_width: int) -> dict[str, Any]:
        shapes = {"rep": [3, width], "anchor_rep": [5, anchor_width]}
        arrays = [{**one, "shape": shapes.get(one["name"], one["shape"])} for one in UPLINK["arrays"]]
        return {**UPLINK, "arrays": arrays, "privacy": {**UPLINK["privacy"], "dither": 0.5}}

    refused = "shape-mismatch"
    return [
        ("the fewest numbers of a row", "valid", sent(2, 2), FEWER_TERMS),
        ("the most numbers of a row", "valid", sent(5, 5), FEWER_TERMS),
        ("fewer numbers than the fewest", refused, sent(1, 1), FEWER_TERMS),
        ("more numbers than the most", refused, sent(6, 6), FEWER_TERMS),
        ("another number of each anchor row", refused, sent(3, 4), FEWER_TERMS),
        ("as many numbers as it has features", "valid", sent(3, 3), FEWER_OF_FEWER_TERMS),
        ("more numbers than it has features", refused, sent(4, 4), FEWER_OF_FEWER_TERMS),
    ]
