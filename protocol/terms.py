"""The terms of a collaboration: what every institution reads and signs before anything is sent.

They fix the columns and their encoding, what is predicted, the anchor, the alignment, the model and
what the downlink carries. Frozen, and valid once constructed.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import FailFast, Field, StringConstraints, model_validator

from protocol.codec import Message
from protocol.limits import (
    MAX_ANCHOR_MATRIX_BYTES,
    MAX_CLASSES,
    MAX_COLUMNS,
    MAX_LATENT_DIM,
    MAX_MODEL_BYTES,
    MAX_NAME_CHARS,
    MAX_PARTIES,
    MAX_ROWS,
    MAX_TEXT_CHARS,
)

_MOVES_A_TERMINAL = r"\x00-\x1f\x7f-\x9f\u{200e}\u{200f}\u{2028}-\u{202e}\u{2066}-\u{2069}"
"""Control characters, and those that turn the direction of writing: what is read must be what is signed."""
_LINE = f"^[^{_MOVES_A_TERMINAL}]*$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS, pattern=_LINE)]
FieldText = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS, pattern=_LINE)]
Text = Annotated[
    str, StringConstraints(max_length=MAX_TEXT_CHARS, pattern=rf"^([^{_MOVES_A_TERMINAL}]|\n|\t)*$")
]
PartyName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
"""A DNS label, so that a party's name is safe in a path, a log and a certificate."""
Identifier = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]

RowType = Literal["f2", "f4", "f8", "i1"]
"""Number types of the representations: floats, or 8-bit integers with a scale for each column."""
LEAST_SQUARES_METHODS: Final[frozenset[str]] = frozenset({"imakura", "kawakami"})
"""Alignments that do not keep lengths, so that any invertible factor is as good as another."""
PREDICTED_ANCHORS: Final[frozenset[str]] = frozenset({"gaussian", "public"})
"""Anchor kinds whose rows lie where a party's own model can learn from predictions for them."""
PREDICTED_ROWS_PER_FEATURE: Final = 2
"""The fewest anchor rows a feature needs for that."""
WELL_PREDICTED_ROWS: Final = 20
"""Below these `odc terms show` warns; docs/nri.md has the figures."""


class NumericColumn(Message):
    """A number, mapped linearly so that ``[low, high]`` becomes ``[-1, 1]``."""

    kind: Literal["numeric"] = "numeric"
    name: Name
    low: float
    high: float
    impute: float | None = None
    """What an empty field becomes; None refuses empty fields."""
    out_of_range: Literal["refuse", "clip"] = "refuse"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise ValueError("low must be a number below high, and high - low must be finite")
        if self.impute is not None and not self.low <= self.impute <= self.high:
            raise ValueError("impute must lie between low and high")
        return self

    @property
    def width(self) -> int:
        return 1


class CategoricalColumn(Message):
    """One of a list of levels, encoded as one 0/1 feature per level."""

    kind: Literal["categorical"] = "categorical"
    name: Name
    levels: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=2, max_length=MAX_COLUMNS)
    impute: Name | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.levels)) != len(self.levels):
            raise ValueError("levels must be distinct")
        if self.impute is not None and self.impute not in self.levels:
            raise ValueError("impute must be one of the levels")
        return self

    @property
    def width(self) -> int:
        return len(self.levels)


Column = Annotated[NumericColumn | CategoricalColumn, Field(discriminator="kind")]


class Label(Message):
    """The column to predict: one of a list of classes, numbered in this order on the wire."""

    name: Name
    classes: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=2, max_length=MAX_CLASSES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must be distinct")
        return self

    @property
    def wire_dtype(self) -> Literal["u1", "u2"]:
        """The smallest integer type that numbers the classes."""
        return "u1" if len(self.classes) <= 2**8 else "u2"


class Schema(Message):
    """How a table becomes a matrix, the same at every institution."""

    columns: Annotated[tuple[Column, ...], FailFast()] = Field(min_length=1, max_length=MAX_COLUMNS)
    label_column: Label
    missing: Annotated[tuple[FieldText, ...], FailFast()] = ("",)
    """Texts that mean an empty field."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [column.name for column in self.columns] + [self.label_column.name]
        if len(set(names)) != len(names):
            raise ValueError("column names must be distinct")
        if self.width > MAX_COLUMNS:
            raise ValueError(f"at most {MAX_COLUMNS} encoded features")
        return self

    @property
    def width(self) -> int:
        """Encoded features: the paper's m."""
        return sum(column.width for column in self.columns)


class AnchorTerms(Message):
    """Which anchor the lead institution draws, or supplies ("public"): ``rows`` is the paper's a."""

    kind: Literal["haar", "gaussian", "uniform", "public"] = "haar"
    rows: int = Field(ge=1, le=MAX_ROWS)


_UNFIT_TO_TRAIN_ON: Final = {
    "haar": "no more rows than features",
    "uniform": "no row where the features are below the middle of their range",
}


class AlignmentTerms(Message):
    """How the analyst computes G_i."""

    method: Literal["odc", "isotropic", "imakura", "kawakami", "procrustes", "gopp", "rdp"] = "isotropic"
    target: Literal["identity", "haar", "invertible"] = "identity"
    """The right factor of the target Z: the identity, a random orthogonal O or a random invertible R."""
    seed: int = Field(default=0, ge=0, lt=2**63)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.target == "invertible" and self.method not in LEAST_SQUARES_METHODS:
            raise ValueError("an invertible target goes with imakura or kawakami: other methods keep lengths")
        return self


# The models. `carries_rows` says whether a fitted model has training rows inside it. Whoever gets such a
# model can read them, so terms with one need a separate consent of every member.


class MlpTerms(Message):
    """One hidden layer of ReLU units, Adam (paper 000 V-B: 256 units, learning rate 0.002)."""

    carries_rows: ClassVar[bool] = False

    kind: Literal["mlp"] = "mlp"
    hidden_units: int = Field(default=256, ge=1, le=2**16)
    learning_rate: float = Field(default=0.002, gt=0, le=1)
    epochs: int = Field(default=200, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0, lt=2**32)


class LogisticTerms(Message):
    """Multinomial logistic regression with an L2 penalty of 1 / (2 C)."""

    carries_rows: ClassVar[bool] = False

    kind: Literal["logistic"] = "logistic"
    inverse_penalty: float = Field(default=1.0, gt=0, le=1e12)
    epochs: int = Field(default=1000, ge=1, le=100_000)


class SvmTerms(Message):
    """Kernel support vector machine, one class against the rest: row-revealing.

    Its support vectors are training rows. The kernel is ``exp(-gamma ||x - y||^2)`` of representations
    brought to variance one; ``gamma`` None stands for 1 / l.
    """

    carries_rows: ClassVar[bool] = True

    kind: Literal["svm"] = "svm"
    inverse_penalty: float = Field(default=1.0, gt=0, le=1e12)
    gamma: float | None = Field(default=None, gt=0, le=1e6)
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of the splits that the probabilities are calibrated on."""


class RandomFeatureSvmTerms(Message):
    """Linear support vector machine on random Fourier features of that kernel: carries no rows.

    Rahimi and Recht, Random Features for Large-Scale Kernel Machines (NIPS 2007).
    """

    carries_rows: ClassVar[bool] = False

    kind: Literal["random-feature-svm"] = "random-feature-svm"
    random_features: int = Field(default=512, ge=1, le=2**14)
    inverse_penalty: float = Field(default=1.0, gt=0, le=1e12)
    gamma: float | None = Field(default=None, gt=0, le=1e6)
    epochs: int = Field(default=1000, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of the random features, and of the splits that the probabilities are calibrated on."""


ModelTerms = Annotated[
    MlpTerms | LogisticTerms | SvmTerms | RandomFeatureSvmTerms, Field(discriminator="kind")
]


class Terms(Message):
    """What the analyst publishes and every institution signs."""

    signing_label: ClassVar[str] = "odc/v1/terms"

    terms_schema: Literal[1] = 1
    consortium_id: Identifier
    collaboration_id: Identifier
    title: Name
    purpose: Text = ""
    parties: Annotated[tuple[PartyName, ...], FailFast()] = Field(min_length=1, max_length=MAX_PARTIES)
    lead: PartyName
    table_schema: Schema
    latent_dim: int = Field(ge=1, le=MAX_LATENT_DIM)
    rep_dtype: RowType = "f4"
    anchor: AnchorTerms
    alignment: AlignmentTerms = AlignmentTerms()
    model: ModelTerms = MlpTerms()
    downlink: Literal["change-of-basis-and-model", "anchor-predictions"] = "change-of-basis-and-model"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.parties)) != len(self.parties):
            raise ValueError("parties must be distinct")
        if self.lead not in self.parties:
            raise ValueError("the lead must be one of the parties")
        width = self.table_schema.width
        if self.latent_dim > width:
            raise ValueError(f"latent_dim must be at most the {width} encoded features")
        if self.anchor.rows < width:
            raise ValueError(f"the anchor needs at least as many rows as the {width} encoded features")
        if self.anchor.kind == "haar" and self.anchor.rows != width:
            raise ValueError(f"a haar anchor has as many rows as encoded features: {width}")
        if self.anchor_matrix_bytes > MAX_ANCHOR_MATRIX_BYTES:
            raise ValueError(f"a public anchor takes at most {MAX_ANCHOR_MATRIX_BYTES} bytes (4 a m)")
        if self.returns_anchor_predictions:
            self._check_anchor_predictions()
        return self

    def _check_anchor_predictions(self) -> None:
        kind, rows, width = self.anchor.kind, self.anchor.rows, self.table_schema.width
        if kind not in PREDICTED_ANCHORS:
            fit = " or ".join(sorted(PREDICTED_ANCHORS))
            raise ValueError(
                "under anchor-predictions each party trains a model of its own on the anchor's rows, and"
                f" a {kind} anchor has {_UNFIT_TO_TRAIN_ON[kind]}: take {fit}"
            )
        if rows < PREDICTED_ROWS_PER_FEATURE * width:
            raise ValueError(
                f"under anchor-predictions the anchor needs many more rows than the {width} encoded features:"
                f" at least {PREDICTED_ROWS_PER_FEATURE * width}, better {WELL_PREDICTED_ROWS * width}"
            )
        if rows * len(self.table_schema.label_column.classes) * 4 > MAX_MODEL_BYTES:
            raise ValueError(f"the predictions for the anchor take more than {MAX_MODEL_BYTES} bytes")

    @property
    def returns_anchor_predictions(self) -> bool:
        """Whether this is the NRI-DC mode: predictions for the anchor come back, neither G_i nor h."""
        return self.downlink == "anchor-predictions"

    @property
    def anchor_matrix_bytes(self) -> int:
        """Bytes of the matrix that travels for a public anchor, as float32; 0 for one from a seed."""
        return 4 * self.anchor.rows * self.table_schema.width if self.anchor.kind == "public" else 0

    @property
    def is_row_revealing(self) -> bool:
        """Whether what comes back lets a member map rows of another member back."""
        return self.model.carries_rows and not self.returns_anchor_predictions
