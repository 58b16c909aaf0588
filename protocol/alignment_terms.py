"""How the analyst computes G_i, as the terms say it: by a method, or by the best of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Discriminator, FailFast, Field, Tag, model_validator

from protocol.codec import Message
from protocol.limits import MAX_CANDIDATES

AlignmentMethod = Literal["odc", "isotropic", "imakura", "kawakami", "procrustes", "gopp", "rdp"]
AlignmentTarget = Literal["identity", "haar", "invertible"]
LEAST_SQUARES_METHODS: Final[frozenset[str]] = frozenset({"imakura", "kawakami"})
"""Methods that do not keep lengths, so that any invertible right factor is as good as another."""
ORTHOGONAL_METHODS: Final[frozenset[str]] = frozenset({"odc", "isotropic", "procrustes", "gopp"})
"""Methods whose G_i is orthogonal, whatever the anchor representations are."""


class AlignmentTerms(Message):
    """How the analyst computes G_i."""

    method: AlignmentMethod = "isotropic"
    target: AlignmentTarget = "identity"
    """Right factor of the target Z: the identity, a random orthogonal O or a random invertible R."""
    seed: int = Field(default=0, ge=0, lt=2**63)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.target == "invertible" and self.method not in LEAST_SQUARES_METHODS:
            fitting = " or ".join(sorted(LEAST_SQUARES_METHODS))
            raise ValueError(f"an invertible target goes with {fitting}: other methods keep lengths")
        return self


class AutoAlignmentTerms(Message):
    """The best of several methods by cross-validation on the rows that train: leaving out groups of parties.

    A time bounds the comparison, so that what is chosen may depend on how fast the analyst's machine is.
    """

    method: Literal["auto"] = "auto"
    candidates: Annotated[
        tuple[AlignmentMethod, ...], FailFast(), Field(min_length=2, max_length=MAX_CANDIDATES)
    ]
    """In the order in which they are tried, and preferred where several are as good."""
    target: AlignmentTarget = "identity"
    """As in `AlignmentTerms`, for every candidate."""
    budget_s: int = Field(default=600, ge=1, le=86_400)
    """Seconds after which no fit of another than the first begins; as many again for all fits for judging."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Of the right factor, and of the division of the parties into groups."""

    @model_validator(mode="before")
    @classmethod
    def _with_candidates(cls, draft: Any) -> Any:
        if isinstance(draft, dict) and "candidates" not in draft:
            return {**draft, "candidates": DEFAULT_METHODS[draft.get("target") == "invertible"]}
        return draft

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.candidates)) != len(self.candidates):
            raise ValueError("candidates must be distinct")
        for method in self.candidates:
            AlignmentTerms(method=method, target=self.target)  # what one method is refused with
        return self


DEFAULT_METHODS: Final[Mapping[bool, tuple[AlignmentMethod, ...]]] = {
    False: ("isotropic", "odc", "gopp", "imakura"),
    True: ("imakura", "kawakami"),
}
"""What `auto` compares if a draft names no candidates, by whether the target is invertible.

Every method takes every kind of anchor. The very first is what is drafted without `auto`."""


def methods_of(alignment: AnyAlignmentTerms) -> tuple[AlignmentMethod, ...]:
    """Return the methods by which the parties may be aligned: several under `auto`."""
    return alignment.candidates if isinstance(alignment, AutoAlignmentTerms) else (alignment.method,)


def _alignment_tag(value: Any) -> str:
    """Return which of two kinds of terms a value is; one without a method has the default."""
    method = value.get("method") if isinstance(value, dict) else getattr(value, "method", None)
    return "auto" if method == "auto" else "named"


AnyAlignmentTerms: TypeAlias = Annotated[
    Annotated[AlignmentTerms, Tag("named")] | Annotated[AutoAlignmentTerms, Tag("auto")],
    Discriminator(_alignment_tag),
]


def alignment_in_words(alignment: AnyAlignmentTerms) -> str:
    """Return the method, or those of which one is taken."""
    if not isinstance(alignment, AutoAlignmentTerms):
        return alignment.method
    return f"auto: the best of {', '.join(alignment.candidates)}"
