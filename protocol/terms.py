"""The terms of a collaboration: what every institution reads and signs before anything is sent.

They fix the columns and their encoding, what is predicted, the anchor, the alignment, the model and the
content of the downlink. Terms are frozen, and valid once constructed.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    FailFast,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from protocol.absent_columns import (
    AbsentColumns,
    check_absent_columns,
    features_without,
    schema_without,
)
from protocol.alignment_terms import LEAST_SQUARES_METHODS, AlignmentTerms, AnyAlignmentTerms, methods_of
from protocol.anchor_terms import (
    ANCHORS,
    PREDICTED_ROWS_PER_FEATURE,
    WELL_PREDICTED_ROWS,
    AnchorTerms,
)
from protocol.codec import Message, without_absent
from protocol.joined_rows import JoinedRows, check_joined_rows
from protocol.labels import Task
from protocol.limits import (
    MAX_ANCHOR_MATRIX_BYTES,
    MAX_COLUMNS,
    MAX_DITHER,
    MAX_LATENT_DIM,
    MAX_MODEL_BYTES,
    MAX_PARTIES,
    MAX_RETENTION_DAYS,
)
from protocol.messages import SealingSuite
from protocol.model_groups import ModelGroupsTerms, check_model_groups
from protocol.model_terms import (
    MODELS_OF_SCHEMA_1,
    PRIVATE_MODELS,
    MlpTerms,
    ModelPrivacyTerms,
    ModelTerms,
    QuadraticDiscriminantTerms,
    candidates_of,
    models_for,
    weighted_kinds,
    with_candidates,
)
from protocol.own_maps import OWN_MAP_KINDS, OwnMapKind, check_own_maps
from protocol.sums import SumsTerms, check_sums_terms
from protocol.table_schema import CENTRED_COLUMNS, Schema
from protocol.texts import Identifier, KeyDigest, Name, PartyName, Text

ChosenSuite = Literal["mlkem1024-p384", "p256"]
"""Sealing suites that every party has to take, because the terms say so."""
USUAL_SUITES: Final[tuple[SealingSuite, ...]] = ("mlkem768-x25519", "x25519")
"""Those that a party chooses from where they say nothing."""
RowType = Literal["f2", "f4", "f8", "i1"]
"""Number types of the representations: floats, or 8-bit integers with one scale per column."""


class ExposureTerms(Message):
    """What attacks on its own rows may find at most before an institution sends; None limits nothing."""

    max_exact_rows: float | None = Field(default=None, ge=0, le=1)
    """Largest share of the rows that are rebuilt in every column."""
    max_found_columns: int | None = Field(default=None, ge=0, le=MAX_COLUMNS)
    """Largest number of columns that are found without the basis."""
    min_hidden_bits: float | None = Field(default=None, ge=0, le=1e9)
    """Fewest bits of a row that cannot leave."""


class Terms(Message):
    """The document that the analyst publishes and every institution signs."""

    signing_label: ClassVar[str] = "odc/v1/terms"

    added_in_2: ClassVar = (
        "dither",
        "least_signal",
        "hold_out",
        "returns_scores",
        "model_privacy",
        "exposure",
        "late_consumers",
        "sums",
        "retention_days",
        "analyst_key",
        "replaces",
        "sealing_suite",
        "absent_columns",
        "model_groups",
        "least_latent_dim",
        "own_maps",
        "joined_rows",
    )
    """The fields that terms of schema 1 do not have, also not on the wire."""

    left_out: ClassVar = (
        "late_consumers",
        "sums",
        "retention_days",
        "analyst_key",
        "replaces",
        "sealing_suite",
        "absent_columns",
        "model_groups",
        "least_latent_dim",
        "own_maps",
        "joined_rows",
    )
    """Those that terms of schema 2 do not have on the wire where they are not used."""

    terms_schema: Literal[1, 2] = 2
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
    alignment: AnyAlignmentTerms = AlignmentTerms()
    model: ModelTerms = MlpTerms()
    downlink: Literal["change-of-basis-and-model", "anchor-predictions"] = "change-of-basis-and-model"
    dither: float = Field(default=0.0, ge=0, le=MAX_DITHER)
    """Noise that each institution adds to X_i F_i: its standard deviation along every direction is at least
    this times that of the projected rows."""

    least_signal: float | None = Field(default=None, gt=0, lt=1)
    """R^2 of an institution's own score X_i w along the first latent_dim principal axes of X_i, for the whole
    of it: below, the institution is asked before it sends."""

    hold_out: float = Field(default=0.0, ge=0, le=0.5)
    """Share of its rows that each institution does not send, to evaluate the collaboration on."""
    returns_scores: bool = False
    """Whether an institution may send the scores on those rows back, for the report that all members read."""

    model_privacy: ModelPrivacyTerms | None = None
    exposure: ExposureTerms | None = None
    """Limits that every institution holds itself to, beside those of its own policy."""

    late_consumers: Annotated[tuple[PartyName, ...], FailFast()] = Field(default=(), max_length=MAX_PARTIES)
    """Those of the parties that the round does not wait for. They send no rows, and their one uplink comes
    after the release. Terms without them have no such field on the wire."""

    sums: SumsTerms | None = None
    """What is summed, where institutions send masked sums in the place of rows. Terms without it have no such
    field on the wire."""

    retention_days: int | None = Field(default=None, ge=1, le=MAX_RETENTION_DAYS)
    """How many days after the release, or without one after the last uplink, the analyst ends the round and
    erases what it holds. Terms without it have no such field on the wire."""

    analyst_key: KeyDigest | None = None
    """The one key with which the analyst signs in this round; it also makes acceptances and manifests name
    the ledger that their author has seen. Terms without it have no such field on the wire."""

    replaces: Identifier | None = None
    """A collaboration that ends when these terms are published, because they are its terms corrected. Terms
    without it have no such field on the wire."""

    sealing_suite: ChosenSuite | None = None
    """The one suite of this round. Terms without it have no such field on the wire."""

    absent_columns: Annotated[tuple[AbsentColumns, ...], FailFast()] = Field(
        default=(), max_length=MAX_PARTIES
    )
    """The parties that take part without some columns. Terms without them have no such field on the wire."""

    model_groups: ModelGroupsTerms | None = None
    """Have institutions with like shares of the classes share a model, in the place of one for all. Terms
    without it have no such field on the wire."""

    least_latent_dim: int | None = Field(default=None, ge=1, le=MAX_LATENT_DIM)
    """Have each institution choose how many numbers of a row it sends, l_i: from so many to latent_dim. Terms
    without it have no such field on the wire."""

    own_maps: Annotated[tuple[OwnMapKind, ...], FailFast()] = Field(default=(), max_length=len(OWN_MAP_KINDS))
    """The kinds of non-linear maps of its own that an institution may apply to its rows and the anchor before
    it projects them. Terms without them have no such field on the wire."""

    joined_rows: Annotated[tuple[JoinedRows, ...], FailFast()] = Field(
        default=(), max_length=MAX_PARTIES // 2
    )
    """The groups of parties that hold different columns of the same rows. Terms without them have no such
    field on the wire."""

    @field_validator("model", mode="before")
    @classmethod
    def _with_candidates(cls, draft: Any, info: ValidationInfo) -> Any:
        schema = info.data.get("table_schema")  # absent if it is not valid
        return with_candidates(draft, schema.label_column.task) if schema else draft

    @model_serializer(mode="wrap")
    def _of_its_schema(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content = without_absent(serialise(self), *self.left_out)
        if self.terms_schema == 1:
            for name in self.added_in_2:
                content.pop(name, None)
        return content

    @model_validator(mode="after")
    def _check_schema(self) -> Self:
        if self.terms_schema == 1:
            if any(isinstance(column, CENTRED_COLUMNS) for column in self.table_schema.columns):
                raise ValueError("columns of the kinds ranks, range, levels and ordinal need terms_schema 2")
            if self.task != "classes":
                raise ValueError(f"a label of the kind {self.task} needs terms_schema 2")
            if self.model.kind not in MODELS_OF_SCHEMA_1:
                raise ValueError(f"a model of the kind {self.model.kind} needs terms_schema 2")
            if self.alignment.method == "auto":
                raise ValueError("the alignment auto needs terms_schema 2")
            if weighted_kinds(self.model):
                raise ValueError("class_weight needs terms_schema 2")
            for name in self.added_in_2:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name} needs terms_schema 2")
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_parties()
        if self.replaces == self.collaboration_id:
            raise ValueError("replaces must name another collaboration")
        if self.sums is None and self.latent_dim > self.table_schema.width:
            raise ValueError(f"latent_dim must be at most the {self.table_schema.width} encoded features")
        self._check_anchor()
        if self.joined_rows:
            check_joined_rows(self)  # first: what a party needs of its columns depends on its group
        self._check_absent_columns()
        self._check_choices()
        if self.sums is not None:
            check_sums_terms(self, self.sums)
            return self
        if isinstance(self.model, QuadraticDiscriminantTerms):
            raise ValueError("a quadratic-discriminant goes with sums: it tells the rows of a small class")
        self._check_task()
        if self.returns_anchor_predictions:
            self._check_anchor_predictions()
        if self.model_privacy is not None:
            self._check_private_model()
        return self

    def _check_choices(self) -> None:
        """Raise for what most terms do not have."""
        if self.least_latent_dim is not None:
            self._check_least_latent_dim(self.least_latent_dim)
        if self.own_maps:
            self._check_own_maps()
        if self.model_groups is not None:
            check_model_groups(self)

    def _check_anchor(self) -> None:
        width = self.table_schema.width
        if self.anchor.rows < width:
            raise ValueError(f"the anchor needs at least as many rows as the {width} encoded features")
        if self.anchor.traits.is_square and self.anchor.rows != width:
            raise ValueError(f"a {self.anchor.kind} anchor has as many rows as encoded features: {width}")
        if self.anchor_matrix_bytes > MAX_ANCHOR_MATRIX_BYTES:
            raise ValueError(
                f"a {self.anchor.kind} anchor takes at most {MAX_ANCHOR_MATRIX_BYTES} bytes (4 a m)"
            )

    def _check_parties(self) -> None:
        if len(set(self.parties)) != len(self.parties):
            raise ValueError("parties must be distinct")
        if self.lead not in self.parties:
            raise ValueError("the lead must be one of the parties")
        if len(set(self.late_consumers)) != len(self.late_consumers):
            raise ValueError("late_consumers must be distinct")
        if strangers := set(self.late_consumers) - set(self.parties):
            raise ValueError(f"late_consumers must be among the parties, {min(strangers)} is not")
        if self.lead in self.late_consumers:
            raise ValueError("the lead cannot be a late consumer: it creates the anchor")

    def _check_absent_columns(self) -> None:
        if not self.absent_columns:
            return
        if self.sums is not None:
            raise ValueError("absent_columns do not go with sums: every row has to have every feature")
        if self.returns_anchor_predictions:
            raise ValueError(
                "absent_columns do not go with anchor-predictions: a party learns its own model from anchor"
                " rows with all columns"
            )
        check_absent_columns(
            self.absent_columns,
            self.table_schema,
            "least_latent_dim" if self.least_latent_dim else "latent_dim",
            self.least_latent_dim or self.latent_dim,
            parties=self.parties,
            senders=self.awaited_parties,
            joined={party for group in self.joined_rows for party in group.parties},
        )

    def _check_least_latent_dim(self, least: int) -> None:
        if self.sums is not None:
            raise ValueError("a least_latent_dim does not go with sums, under which no row is projected")
        if least > self.latent_dim:
            raise ValueError(f"least_latent_dim must be at most latent_dim, {self.latent_dim}")
        for method in methods_of(self.alignment):
            if method not in LEAST_SQUARES_METHODS:
                fit = " or ".join(sorted(LEAST_SQUARES_METHODS))
                raise ValueError(
                    f"with a least_latent_dim the alignment must be {fit}: {method} needs as many numbers of"
                    " a row from every institution"
                )

    def _check_own_maps(self) -> None:
        if self.sums is not None:
            raise ValueError("own_maps do not go with sums, under which no row is projected")
        if self.returns_anchor_predictions:
            raise ValueError(
                "own_maps do not go with anchor-predictions: there a party learns its own model from the"
                " anchor's rows, and erases what would be its map"
            )
        check_own_maps(self.own_maps, self.alignment, self.anchor, self.latent_dim)

    def _check_task(self) -> None:
        for model in candidates_of(self.model):
            if self.task not in model.tasks:
                fit = ", ".join(models_for(self.task))
                raise ValueError(f"a {model.kind} model does not predict {self.task}: take one of {fit}")
        if self.task != "classes":
            for name, is_used in (
                ("downlink anchor-predictions", self.returns_anchor_predictions),
                ("model_privacy", self.model_privacy is not None),
                ("class_weight", bool(weighted_kinds(self.model))),
            ):
                if is_used:
                    raise ValueError(f"{name} needs a label of classes, not a {self.task}")

    def _check_private_model(self) -> None:
        kind, used = self.model.kind, PRIVATE_MODELS.get(self.model.kind)
        if used is None:
            fit = " or ".join(PRIVATE_MODELS)
            raise ValueError(f"a model of the kind {kind} has no private training: take {fit}")
        if self.alignment.method == "auto":
            raise ValueError("the alignment auto reads labels without privacy: name a method")
        for name, field in type(self.model).model_fields.items():
            if name not in ("kind", *used) and getattr(self.model, name) != field.default:
                raise ValueError(f"{name} means nothing under model_privacy: leave it out of the model")

    def _check_anchor_predictions(self) -> None:
        kind, rows, width = self.anchor.kind, self.anchor.rows, self.table_schema.width
        if unfit := self.anchor.traits.unfit_to_learn_from:
            fit = " or ".join(name for name, traits in ANCHORS.items() if not traits.unfit_to_learn_from)
            raise ValueError(
                "under anchor-predictions each party trains a model of its own on the anchor's rows, and"
                f" a {kind} anchor has {unfit}: take {fit}"
            )
        if rows < PREDICTED_ROWS_PER_FEATURE * width:
            raise ValueError(
                f"under anchor-predictions the anchor needs many more rows than the {width} encoded features:"
                f" at least {PREDICTED_ROWS_PER_FEATURE * width}, better {WELL_PREDICTED_ROWS * width}"
            )
        if rows * self.table_schema.label_column.outputs * 4 > MAX_MODEL_BYTES:
            raise ValueError(f"the predictions for the anchor take more than {MAX_MODEL_BYTES} bytes")

    @property
    def awaited_parties(self) -> list[str]:
        """The parties that the round waits for: all but the late consumers."""
        late = set(self.late_consumers)
        return [party for party in self.parties if party not in late]

    def absent_columns_of(self, party: str) -> tuple[str, ...]:
        """Return the columns that a party takes part without."""
        return next((each.columns for each in self.absent_columns if each.party == party), ())

    def schema_of(self, party: str) -> Schema:
        """Return how the table of one party becomes a matrix: the schema without the columns it lacks."""
        return schema_without(self.table_schema, self.absent_columns_of(party))

    def features_of(self, party: str) -> list[int]:
        """Return which of the m encoded features a party has; its secret basis is zero on all others."""
        return features_without(self.table_schema, self.absent_columns_of(party))

    def group_of(self, party: str) -> JoinedRows | None:
        """Return the group that a party's rows are joined in; None for one whose rows are its own."""
        return next((group for group in self.joined_rows if party in group.parties), None)

    def has_labels(self, party: str) -> bool:
        """Return whether a party that sends rows sends their labels: of joined rows one of the group does."""
        group = self.group_of(party)
        return group is None or group.labels == party

    def latent_dims_of(self, party: str) -> range:
        """Return how many numbers of a row a party may send: ``latent_dim`` alone, unless it may choose.

        Of joined rows each party sends as many as its group says.
        """
        if (group := self.group_of(party)) is not None:
            return range(group.latent_dim_of(party), group.latent_dim_of(party) + 1)
        if self.least_latent_dim is None:
            return range(self.latent_dim, self.latent_dim + 1)
        return range(self.least_latent_dim, min(self.latent_dim, self.schema_of(party).width) + 1)

    @property
    def sealing_suites(self) -> tuple[SealingSuite, ...]:
        """The suites that an Acceptance may name; we take the first."""
        return USUAL_SUITES if self.sealing_suite is None else (self.sealing_suite,)

    @property
    def uplink(self) -> Literal["rows", "sums"]:
        """What institutions send."""
        return "rows" if self.sums is None else "sums"

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.table_schema.label_column.task

    @property
    def returns_anchor_predictions(self) -> bool:
        """Whether predictions for the anchor come back instead of G_i and h: the NRI-DC mode."""
        return self.downlink == "anchor-predictions"

    @property
    def anchor_matrix_bytes(self) -> int:
        """Bytes of an anchor that travels as a matrix of float32; 0 for one that is expanded from a seed."""
        return 4 * self.anchor.rows * self.table_schema.width if self.anchor.traits.travels_as_matrix else 0

    @property
    def is_row_revealing(self) -> bool:
        """Whether the model that comes back lets a member reconstruct projected rows of other members."""
        return self.model.carries_rows and not self.returns_anchor_predictions
