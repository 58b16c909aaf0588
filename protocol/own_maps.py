"""Institutions that map their rows by a non-linear function of their own before the projection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from protocol.alignment_terms import LEAST_SQUARES_METHODS, AnyAlignmentTerms, methods_of
from protocol.anchor_terms import ANCHORS, AnchorTerms

OwnMapKind = Literal["kernel-pca", "onnx", "random-features"]
OWN_MAP_KINDS: Final[tuple[str, ...]] = get_args(OwnMapKind)
OWN_MAPS_IN_WORDS: Final[Mapping[OwnMapKind, str]] = {
    "kernel-pca": "principal axes of a Gaussian kernel with rows of the anchor",
    "onnx": "a file of the institution's own, such as an encoder that it has trained",
    "random-features": "cosines of random combinations of the features",
}
MAPPED_ROWS_PER_DIMENSION: Final = 10
"""Fewest anchor rows for each of the l numbers of a row: G_i is fitted on them, and holds between them."""


def check_own_maps(
    kinds: tuple[OwnMapKind, ...], alignment: AnyAlignmentTerms, anchor: AnchorTerms, latent_dim: int
) -> None:
    """Raise `ValueError` for kinds out of order, or an alignment or anchor that does not fit maps."""
    if list(kinds) != sorted(set(kinds)):
        raise ValueError(f"own_maps are distinct and sorted: {', '.join(sorted(set(kinds)))}")
    for method in methods_of(alignment):
        if method not in LEAST_SQUARES_METHODS:
            fit = " or ".join(sorted(LEAST_SQUARES_METHODS))
            raise ValueError(
                f"with own_maps the alignment must be {fit}: {method} needs an orthonormal linear basis at"
                " every institution"
            )
    if anchor.traits.is_square:
        fit = " or ".join(name for name, traits in ANCHORS.items() if not traits.is_square)
        raise ValueError(
            f"with own_maps the anchor must be {fit}, not {anchor.kind}: what non-linear maps have in common"
            " is fitted on the anchor's rows, and holds for rows like these"
        )
    if anchor.rows < (least := MAPPED_ROWS_PER_DIMENSION * latent_dim):
        raise ValueError(
            f"with own_maps the anchor needs at least {least} rows, {MAPPED_ROWS_PER_DIMENSION} for each of"
            f" the {latent_dim} numbers of a row"
        )
