"""The anchor in the terms: its kind, how many rows it has, and what follows from the kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from protocol.codec import Message
from protocol.limits import MAX_ROWS

PREDICTED_ROWS_PER_FEATURE: Final = 2
"""Fewest anchor rows per encoded feature from which a party's own model can learn (NRI-DC)."""
WELL_PREDICTED_ROWS: Final = 20
"""Rows per encoded feature of a random anchor from which it learns well; docs/nri.md has the figures."""


@dataclass(frozen=True)
class AnchorTraits:
    """What all code but its expansion has to know about one kind of anchor.

    Attributes
    ----------
    is_square : bool
        It has exactly as many rows as there are encoded features.
    is_isotropic : bool
        ``A.T @ A`` is the identity by construction.
    travels_as_matrix : bool
        The lead supplies the matrix, and the analyst relays it sealed. Every other kind is expanded
        from its seed.
    unfit_to_learn_from : str
        What such an anchor has that keeps a party's own model from learning from predictions for its
        rows (NRI-DC); empty if nothing does.
    few_rows_per_feature : int
        With fewer anchor rows per encoded feature the plain words warn that a party's own model may
        predict badly; 0 for a kind that needs no such warning.
    warning : str
        What the plain words warn of under every such anchor; empty if there is nothing to warn of.
    """

    is_square: bool = False
    is_isotropic: bool = False
    travels_as_matrix: bool = False
    unfit_to_learn_from: str = ""
    few_rows_per_feature: int = 0
    warning: str = ""


AnchorKind = Literal["haar", "gaussian", "uniform", "public"]
ANCHORS: Final[Mapping[str, AnchorTraits]] = {
    "haar": AnchorTraits(is_square=True, is_isotropic=True, unfit_to_learn_from="no more rows than features"),
    "gaussian": AnchorTraits(few_rows_per_feature=WELL_PREDICTED_ROWS),
    "uniform": AnchorTraits(
        unfit_to_learn_from="no row where the features are below the middle of their range",
        warning="uniform anchor: it tells the analyst more about each secret basis than a haar anchor would.",
    ),
    "public": AnchorTraits(
        travels_as_matrix=True,
        warning=(
            "public anchor: its rows come from a table. Whoever has that table can guess the anchor better"
            " than a random one, and an analyst that has the anchor could rebuild what the projection keeps"
            " of your rows."
        ),
    ),
}
"""Every `AnchorKind` with its traits. The institutions expand it: `user_client.secret.expansion`."""


class AnchorTerms(Message):
    """The kind of anchor that the institutions share, and its number of rows (the paper's a)."""

    kind: AnchorKind = "haar"
    rows: int = Field(ge=1, le=MAX_ROWS)

    @property
    def traits(self) -> AnchorTraits:
        return ANCHORS[self.kind]
