"""Groups of institutions with like shares of the classes, of which each gets a model of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from pydantic import Field

from protocol.codec import Message
from protocol.limits import MAX_GROUPED_PARTIES

if TYPE_CHECKING:
    from protocol.terms import Terms

MIN_GROUP_DISTANCE: Final = 0.01
_MODELS_LABEL: Final = b"odc/v1/models\x00"


class ModelGroupsTerms(Message):
    """When two institutions are alike, and how many make a group (DC-CFL, arXiv:2601.09304).

    Their distance is the total variation distance of their shares: half the sum over the classes of the
    absolute differences.
    """

    largest_distance: float = Field(ge=MIN_GROUP_DISTANCE, lt=1)
    """Between any two institutions of a group. Less would tell each the others' shares almost exactly."""
    least_parties: int = Field(default=2, ge=2, le=MAX_GROUPED_PARTIES)
    """Institutions of a smaller group get the model of all rows."""

    def most_models(self, parties: int) -> int:
        """Return how many models a round of so many institutions has at most."""
        return math.ceil(parties / self.least_parties)


def check_model_groups(terms: Terms) -> None:
    """Raise `ValueError` unless each institution can be given the model of its group under these terms."""
    if terms.task != "classes":
        raise ValueError(f"model_groups need a label of classes, not a {terms.task}")
    for name, is_used in (
        ("sums", terms.sums is not None),
        ("anchor-predictions", terms.returns_anchor_predictions),
        ("a model_privacy", terms.model_privacy is not None),
        ("late_consumers, who send no labels", bool(terms.late_consumers)),
    ):
        if is_used:
            raise ValueError(f"model_groups do not go with {name}")
    if terms.model_groups is not None and terms.model_groups.least_parties > len(terms.parties):
        raise ValueError("model_groups of more institutions than there are: least_parties")
    if len(terms.parties) > MAX_GROUPED_PARTIES:
        raise ValueError(f"model_groups are of at most {MAX_GROUPED_PARTIES} parties")


def models_digest(models: Iterable[bytes]) -> bytes:
    """Return what the ledger says of a release with several models, from the digest of each."""
    return sha256(_MODELS_LABEL + b"".join(sorted(set(models)))).digest()
