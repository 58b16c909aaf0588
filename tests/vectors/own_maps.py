"""Terms under which institutions may map their rows by functions of their own, and what people read."""

from __future__ import annotations

from typing import Any, Final

from tests.vectors.alignments import ALIGNED_TERMS
from tests.vectors.examples import NUMERIC, TERMS, TERMS_2, changed
from tests.vectors.sums import SUMS_TERMS

KINDS: Final = ["kernel-pca", "onnx", "random-features"]
_ANCHOR: Final = {"kind": "public", "rows": 50}
"""The fewest rows: ``latent_dim`` is 5."""
OWN_MAPS_TERMS: Final = {
    **changed(TERMS_2, "alignment", "method", to="kawakami"),
    "anchor": _ANCHOR,
    "own_maps": KINDS,
}
_SQUARE: Final = {
    **changed(
        OWN_MAPS_TERMS, "table_schema", "columns", to=[{**NUMERIC, "name": f"x{i}"} for i in range(10)]
    ),
    "latent_dim": 1,
    "anchor": {"kind": "haar", "rows": 10},
}
"""As many rows as maps need, and yet no more than features."""
_LINE: Final = (
    "Each institution may map its rows, and the anchor, by a non-linear function of its own before the"
    " projection: kernel-pca (principal axes of a Gaussian kernel with rows of the anchor); onnx (a file of"
    " the institution's own, such as an encoder that it has trained); random-features (cosines of random"
    " combinations of the features). The function stays here, as the basis does, and nobody is told which"
    " institution has which. One that chooses nothing projects its encoded features as they are."
)
_PUBLIC: Final = (
    "Warning: public anchor: its rows come from a table. Whoever has that table can guess the anchor better"
    " than a random one, and an analyst that has the anchor could rebuild what the projection keeps of your"
    " rows.\n"
)
_WARNING: Final = (
    "Warning: non-linear maps: what they have in common is fitted on the anchor's rows, and holds for rows"
    " like these. The model may predict worse than with linear maps, for every institution. Such a map hides"
    " no row: rows that are alike stay alike, and whoever has the anchor can learn from its projection how to"
    " rebuild rows. `odc prepare` tries that.\n"
)


def own_maps_text(text: str) -> str:
    """Return what people read of `OWN_MAPS_TERMS`, from the text of the same terms without maps."""
    head, dp, rest = text.partition("Warning: no differential privacy")
    sentence, _, rest = rest.partition("\n")
    return (
        f"{head}{dp}{sentence}\n{_PUBLIC}{rest}".replace("(100 bytes)", "(1000 bytes)")
        .replace("\nProjections are rounded", f"\n{_LINE}\nProjections are rounded")
        .replace("Warning: nothing is", f"{_WARNING}Warning: nothing is")
    )


def valid_own_maps() -> list[tuple[str, dict[str, Any]]]:
    """Return terms that allow maps."""
    return [
        ("terms that allow maps of every kind", OWN_MAPS_TERMS),
        ("terms that allow maps of one kind", {**OWN_MAPS_TERMS, "own_maps": KINDS[2:]}),
        ("maps, and how many numbers of a row, are for each to choose",
            {**OWN_MAPS_TERMS, "least_latent_dim": 2}),
    ]  # fmt: skip


def broken_own_maps() -> list[tuple[str, dict[str, Any]]]:
    """Return terms that break a rule of such maps."""
    several = {**ALIGNED_TERMS, "anchor": _ANCHOR, "own_maps": KINDS}
    return [
        ("maps of no kind", {**OWN_MAPS_TERMS, "own_maps": []}),
        ("maps of a kind that is none", {**OWN_MAPS_TERMS, "own_maps": ["autoencoder"]}),
        ("maps in another order", {**OWN_MAPS_TERMS, "own_maps": KINDS[::-1]}),
        ("a kind of maps twice", {**OWN_MAPS_TERMS, "own_maps": ["onnx", "onnx"]}),
        ("maps under an alignment that keeps lengths",
            changed(OWN_MAPS_TERMS, "alignment", "method", to="isotropic")),
        ("maps where one of several alignments keeps lengths", several),
        ("maps and an anchor that is square", _SQUARE),
        ("maps and too few rows of the anchor", {**OWN_MAPS_TERMS, "anchor": {**_ANCHOR, "rows": 49}}),
        ("maps and predictions for the anchor", {**OWN_MAPS_TERMS, "downlink": "anchor-predictions"}),
        ("maps of sums", {**SUMS_TERMS, "own_maps": KINDS}),
        ("terms of schema 1 with maps",
            {**changed(TERMS, "alignment", "method", to="imakura"), "anchor": _ANCHOR, "own_maps": KINDS}),
    ]  # fmt: skip
