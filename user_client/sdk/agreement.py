"""What drafted terms say beside the columns: what the institutions have agreed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Required, TypedDict, get_args

from pydantic import ValidationError

from protocol.alignment_terms import AlignmentMethod
from protocol.anchor_terms import WELL_PREDICTED_ROWS
from protocol.codec import explain
from protocol.errors import InputError
from protocol.labels import Task
from protocol.limits import MAX_DITHER, MAX_RETENTION_DAYS
from protocol.model_groups import MIN_GROUP_DISTANCE
from protocol.model_terms import ModelPrivacyTerms, models_for, models_with_weights
from protocol.sealing import HYBRID
from protocol.table_schema import Schema
from protocol.terms import ChosenSuite
from user_client.tables.draft import DraftedSchema

LEAST_SIGNAL: Final = 0.6
"""The threshold in drafted terms below which every institution is asked (docs/defaults.md)."""
DraftedType = Literal["i1", "f2", "f4"]
DITHER: Final = 0.5
"""Of drafted terms (docs/privacy.md): a row then carries at most 1.16 bits for each latent dimension."""
HOLD_OUT: Final = 0.2
"""Share of its rows that drafted terms ask each institution to keep back."""
MODEL_DELTA: Final = 1e-5
"""Chance that the promise of a private model fails: far below one in as many rows as most rounds have."""

BY_CLASS_MODEL: Final = "quadratic-discriminant"
"""Of sums alone: `with_sums` takes a draft with it, `naming_sums` refuses one."""


class AgreementOptions(TypedDict, total=False):
    """The fields of an `Agreement`, as keywords."""

    parties: Required[Sequence[str]]
    title: Required[str]
    purpose: str
    task: Task
    rep_dtype: str
    dither: float
    nri: bool
    model: str | None
    alignment: str
    class_weight: str
    model_epsilon: float | None
    late_consumers: Sequence[str]
    groups_within: float | None
    retention_days: int | None
    sealing_suite: str


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What drafted terms say beside the columns; raises `InputError` for what does not go together.

    Attributes
    ----------
    parties : sequence of str
        The institutions, the lead first.
    title : str
    purpose : str
        What the model is for, in words; every institution signs them.
    task : {"classes", "number", "survival", "multilabel"}
        What the label is.
    rep_dtype : {"i1", "f2", "f4"}
        Number type of the representations. Digits that no model needs help those who attack them, so 64-bit
        floats are not drafted.
    dither : float
        Noise on the projected rows, in their own standard deviations; 0 for none.
    nri : bool
        Whether every institution erases its basis (docs/nri.md).
    model : str, optional
        The kind of the model; without it ``averaged``, or ``cox`` for survival.
    alignment : str
        The method of alignment, or ``auto``, which compares several.
    class_weight : {"none", "balanced"}
        Whether every class counts the same in training, however few rows it has.
    model_epsilon : float, optional
        Have a logistic regression trained that is differentially private towards those who get it, with a
        delta of `MODEL_DELTA`.
    late_consumers : sequence of str
        Those of the parties that send no rows, and come after the release.
    groups_within : float, optional
        Have parties share a model whose shares of the classes differ by at most so much, in the place of one
        model for all: `ModelGroupsTerms.largest_distance`.
    retention_days : int, optional
        How long the analyst may keep what it was sent: `Terms.retention_days`.
    sealing_suite : {"mlkem768-x25519", "mlkem1024-p384", "p256"}
        What the anchor is sealed with; the first is the usual one, which terms do not name.
    """

    parties: Sequence[str]
    title: str
    purpose: str = ""
    task: Task = "classes"
    rep_dtype: str = "i1"
    dither: float = DITHER
    nri: bool = False
    model: str | None = None
    alignment: str = "isotropic"
    class_weight: str = "none"
    model_epsilon: float | None = None
    late_consumers: Sequence[str] = ()
    groups_within: float | None = None
    retention_days: int | None = None
    sealing_suite: str = HYBRID

    def __post_init__(self) -> None:
        check_choice("rep_dtype", self.rep_dtype, DraftedType)
        check_choice("task", self.task, Task)
        check_choice("sealing_suite", self.sealing_suite, ChosenSuite, HYBRID)
        if not 0 <= self.dither <= MAX_DITHER:
            raise InputError(f"dither must be between 0 and {MAX_DITHER}, got {self.dither:g}")
        if self.model is not None:
            if self.model_epsilon is not None:
                raise InputError("model_epsilon trains a logistic regression: leave model out")
            fit = [*models_for(self.task), *([BY_CLASS_MODEL] if self.task == "classes" else [])]
            if self.model not in fit:
                raise InputError(f"model must be one of {', '.join(fit)}, got {self.model}")
        if self.alignment not in (methods := (*get_args(AlignmentMethod), "auto")):
            raise InputError(f"alignment must be one of {', '.join(methods)}, got {self.alignment}")
        if self.alignment == "auto" and self.model_epsilon is not None:
            raise InputError("alignment auto reads labels without privacy: name a method with model_epsilon")
        self._check_class_weight()
        if self.retention_days is not None and not 1 <= self.retention_days <= MAX_RETENTION_DAYS:
            raise InputError(
                f"retention_days must be between 1 and {MAX_RETENTION_DAYS}, got {self.retention_days}"
            )
        for name in self.late_consumers:
            if name not in self.parties[1:]:
                raise InputError("a late consumer must be one of the parties, and not the lead")
        self._check_groups()

    def _check_groups(self) -> None:
        if self.groups_within is None:
            return
        if not MIN_GROUP_DISTANCE <= self.groups_within < 1:
            low = f"{MIN_GROUP_DISTANCE:g}"
            raise InputError(f"groups_within must be at least {low} and below 1, got {self.groups_within:g}")
        for name, is_used in (
            (f"the task {self.task}", self.task != "classes"),
            ("nri", self.nri),
            ("model_epsilon", self.model_epsilon is not None),
            ("late_consumers, who send no labels", bool(self.late_consumers)),
        ):
            if is_used:
                raise InputError(f"groups_within does not go with {name}")

    def _check_class_weight(self) -> None:
        if self.class_weight not in ("none", "balanced"):
            raise InputError(f"class_weight must be none or balanced, got {self.class_weight}")
        if self.class_weight == "none":
            return
        if self.task != "classes":
            raise InputError(f"class_weight goes with the task classes, and the task is {self.task}")
        if self.model_epsilon is not None:
            raise InputError("class_weight has no private training: leave it or model_epsilon out")
        if (kind := self.model or "averaged") not in (fit := models_with_weights()):
            by_hand = ": write it into its candidates by hand" if kind == "auto" else ""
            raise InputError(f"class_weight goes with {', '.join(fit)}, not with {kind}{by_hand}")

    def terms(self, drafted: DraftedSchema, schema: Schema, latent_dim: int) -> dict[str, Any]:
        """Return the terms of a drafted schema."""
        features = schema.width
        late = {"late_consumers": list(self.late_consumers)} if self.late_consumers else {}
        return {
            "terms_schema": 2,
            "title": self.title,
            "purpose": self.purpose,
            "parties": list(self.parties),
            "lead": self.parties[0],
            **late,
            "latent_dim": latent_dim,
            "rep_dtype": self.rep_dtype,
            "dither": self.dither,
            "least_signal": LEAST_SIGNAL,
            "hold_out": HOLD_OUT,
            "returns_scores": True,
            **({} if self.retention_days is None else {"retention_days": self.retention_days}),
            **({} if self.sealing_suite == HYBRID else {"sealing_suite": self.sealing_suite}),
            **(_nri_terms(features) if self.nri else {"anchor": {"kind": "haar", "rows": features}}),
            "alignment": {"method": self.alignment},
            **self.model_terms(),
            **(
                {}
                if self.groups_within is None
                else {"model_groups": {"largest_distance": self.groups_within}}
            ),
            "table_schema": drafted.content,
        }

    def model_terms(self) -> dict[str, Any]:
        """Return the model of the terms, and its privacy if it has one."""
        if self.model_epsilon is None:
            kind = self.model or ("cox" if self.task == "survival" else "averaged")
            weighted = {} if self.class_weight == "none" else {"class_weight": self.class_weight}
            return {"model": {"kind": kind, **weighted}}
        try:
            privacy = ModelPrivacyTerms(epsilon=self.model_epsilon, delta=MODEL_DELTA)
        except ValidationError as error:
            raise InputError(f"model_epsilon: {explain(error)}") from None
        return {"model": {"kind": "logistic"}, "model_privacy": privacy.model_dump(exclude_unset=True)}


def check_choice(name: str, value: str, allowed: Any, *others: str) -> None:
    """Raise `InputError` unless a value is one of a `Literal`, or of the others."""
    if value not in (choices := (*others, *get_args(allowed))):
        raise InputError(f"{name} must be one of {', '.join(choices)}, got {value}")


def _nri_terms(features: int) -> dict[str, Any]:
    """Return the terms that differ in the NRI-DC mode (docs/nri.md)."""
    return {
        "downlink": "anchor-predictions",
        "anchor": {"kind": "gaussian", "rows": WELL_PREDICTED_ROWS * features},
    }
