"""Terms that leave the alignment to the rows, and those that break the rules of that."""

from __future__ import annotations

from typing import Any

from tests.vectors.examples import PRIVATE_TERMS, TERMS, TERMS_2, changed, without

ALIGNED_TERMS: dict[str, Any] = {
    **TERMS_2,
    "alignment": {
        "method": "auto",
        "candidates": ["isotropic", "imakura"],
        "target": "identity",
        "budget_s": 600,
        "seed": 0,
    },
}


def broken_alignments() -> list[tuple[str, dict[str, Any]]]:
    """Return terms of schema 2 that MUST be refused, by what is wrong with them."""
    auto = ALIGNED_TERMS["alignment"]
    return [
        ("a choice of the alignment that names no candidates",
            {**ALIGNED_TERMS, "alignment": without(auto, "candidates")}),
        ("a choice among one alignment", changed(ALIGNED_TERMS, "alignment", "candidates", to=["odc"])),
        ("the same alignment twice", changed(ALIGNED_TERMS, "alignment", "candidates", to=["odc", "odc"])),
        ("an alignment that is no method",
            changed(ALIGNED_TERMS, "alignment", "candidates", to=["odc", "auto"])),
        ("an invertible target for a candidate that keeps lengths",
            changed(ALIGNED_TERMS, "alignment", "target", to="invertible")),
        ("a choice of the alignment without time", changed(ALIGNED_TERMS, "alignment", "budget_s", to=0)),
        ("candidates of an alignment that is named",
            changed(ALIGNED_TERMS, "alignment", "method", to="odc")),
        ("a choice of the alignment for a private model", {**PRIVATE_TERMS, "alignment": auto}),
        ("terms of schema 1 with a choice of the alignment", {**TERMS, "alignment": auto}),
    ]  # fmt: skip
