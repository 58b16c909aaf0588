"""How a table becomes a matrix: the columns, their encoding and the label, as the terms fix them."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    Discriminator,
    FailFast,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from protocol.codec import Message
from protocol.limits import MAX_CLASSES, MAX_COLUMNS, MAX_OWN_MISSING, MAX_QUANTILES, MAX_SURVIVAL_TIMES
from protocol.texts import FieldText, Name


class NumericColumn(Message):
    """A number, mapped linearly so that ``[low, high]`` becomes ``[-1, 1]``."""

    kind: Literal["numeric"] = "numeric"
    name: Name
    low: float
    high: float
    impute: float | None = None
    """The value an empty field gets; None means that empty fields are refused."""
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


class _CentredColumn(Message):
    """What the columns of terms schema 2 have in common: their features are about zero in the mean.

    Attributes
    ----------
    empty : {"refuse", "centre"}
        Whether a table with an empty field is refused, or the features of that field are 0.
    missing_share : float, optional
        With it there is one feature more, the last: 1 where the field is empty and 0 elsewhere, less this
        share.
    missing : tuple of str, optional
        Texts that mean an empty field in this column, beside those of the schema: 99 may be no answer here
        and a value elsewhere.
    """

    absent_if_unused: ClassVar[tuple[str, ...]] = ("missing",)
    """Fields that are not on the wire where they are None."""

    name: Name
    empty: Literal["refuse", "centre"] = "refuse"
    missing_share: float | None = Field(default=None, ge=0, le=1)
    missing: tuple[FieldText, ...] | None = Field(default=None, min_length=1, max_length=MAX_OWN_MISSING)

    @model_serializer(mode="wrap")
    def _without_unused(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialise(self)
        for name in self.absent_if_unused:
            if getattr(self, name) is None:
                del content[name]
        return content

    @model_validator(mode="after")
    def _check_missing_share(self) -> Self:
        if self.missing_share is not None and self.empty == "refuse":
            raise ValueError("a missing_share goes with empty fields that count as the centre")
        return self

    @property
    def width(self) -> int:
        return self.value_width + (self.missing_share is not None)

    @property
    def value_width(self) -> int:
        """Number of features without the one for empty fields."""
        return 1


DateFormat = Literal["iso", "dd.mm.yyyy", "dd/mm/yyyy", "mm/dd/yyyy", "yyyy/mm/dd", "yyyymmdd"]
"""How dates are written. All but ``iso``, which is yyyy-mm-dd, say it themselves."""


class _NumbersColumn(_CentredColumn):
    """A column of numbers, or of dates that become numbers of days.

    Attributes
    ----------
    dates : DateFormat, optional
        How the dates are written, if they are dates. The number is then that of days since 1970-01-01.
    since : str, optional
        A column of dates that are written alike: the number is that of days since the date there, in the
        same row.
    """

    absent_if_unused: ClassVar = ("missing", "dates", "since")

    dates: DateFormat | None = None
    since: Name | None = None

    @model_validator(mode="after")
    def _check_since(self) -> Self:
        if self.since is not None and self.dates is None:
            raise ValueError("since goes with dates: it needs how they are written")
        if self.since == self.name:
            raise ValueError("since must name another column")
        return self


class RanksColumn(_NumbersColumn):
    """A number, mapped to its rank among quantiles, from -1 to 1 and linear between them.

    A column with a heavy tail keeps its signal: the largest values take no more room than all others.
    """

    kind: Literal["ranks"] = "ranks"
    quantiles: Annotated[tuple[float, ...], FailFast()] = Field(min_length=2, max_length=MAX_QUANTILES)
    """Not descending. The first is mapped to -1, the last to 1, and the others evenly between."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(after < before for before, after in pairwise(self.quantiles)):
            raise ValueError("quantiles must not descend")
        if not (
            self.quantiles[0] < self.quantiles[-1] and math.isfinite(self.quantiles[-1] - self.quantiles[0])
        ):
            raise ValueError("the first quantile must be below the last, and their difference finite")
        return self


class RangeColumn(_NumbersColumn):
    """A number, moved to the nearer end of ``[low, high]`` if it is outside, and mapped linearly.

    ``centre`` becomes 0, and ``high - low`` becomes 2.
    """

    kind: Literal["range"] = "range"
    low: float
    high: float
    centre: float

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise ValueError("low must be a number below high, and high - low must be finite")
        if not self.low <= self.centre <= self.high:
            raise ValueError("centre must lie between low and high")
        return self


class LevelsColumn(_CentredColumn):
    """One of a list of levels: one feature per level, 0/1 less the level's share, times a weight.

    The weight keeps a column of many levels from taking the latent dimensions of a numeric one.
    """

    absent_if_unused: ClassVar = ("missing", "other")

    kind: Literal["levels"] = "levels"
    levels: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=2, max_length=MAX_COLUMNS)
    shares: Annotated[tuple[float, ...], FailFast()] = Field(min_length=2, max_length=MAX_COLUMNS)
    weight: float = Field(default=1.0, gt=0, le=1)
    other: Name | None = None
    """The level of every text that is none; None means that such a text is refused."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.levels)) != len(self.levels):
            raise ValueError("levels must be distinct")
        if len(self.shares) != len(self.levels):
            raise ValueError("there must be one share per level")
        if not all(0 <= share <= 1 for share in self.shares):
            raise ValueError("shares must lie between 0 and 1")
        if self.other is not None and self.other not in self.levels:
            raise ValueError("other must be one of the levels")
        return self

    @property
    def value_width(self) -> int:
        return len(self.levels)


class OrdinalColumn(_CentredColumn):
    """One of a list of levels in an order: its place there, evenly from -1 to 1, less ``centre``."""

    kind: Literal["ordinal"] = "ordinal"
    levels: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=2, max_length=MAX_COLUMNS)
    centre: float = Field(default=0.0, ge=-1, le=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.levels)) != len(self.levels):
            raise ValueError("levels must be distinct")
        return self


CentredColumn = RanksColumn | RangeColumn | LevelsColumn | OrdinalColumn
CENTRED_COLUMNS: Final = (RanksColumn, RangeColumn, LevelsColumn, OrdinalColumn)
"""The kinds that terms schema 2 has added."""
ColumnOfNumbers = NumericColumn | RanksColumn | RangeColumn
ColumnOfLevels = CategoricalColumn | LevelsColumn | OrdinalColumn
Column = Annotated[ColumnOfNumbers | ColumnOfLevels, Field(discriminator="kind")]


Task = Literal["classes", "number", "survival"]
"""What is predicted."""


class Label(Message):
    """The column to predict: one of a list of classes, which are numbered in this order on the wire."""

    task: ClassVar[Task] = "classes"
    model_output: ClassVar[str] = "probabilities"
    """Name of the output of the model that has the predictions."""

    name: Name
    classes: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=2, max_length=MAX_CLASSES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must be distinct")
        return self

    @property
    def wire_dtype(self) -> Literal["u1", "u2"]:
        """The smallest integer type that can number the classes."""
        return "u1" if len(self.classes) <= 2**8 else "u2"

    @property
    def outputs(self) -> int:
        """How many numbers the model returns for a row: a probability for each class."""
        return len(self.classes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the label is made of."""
        return (self.name,)


class NumberLabel(Message):
    """The column to predict: a number; on the wire, ``[low, high]`` becomes ``[-1, 1]``.

    A number outside is refused where it is read: moved to an end, it would teach the model something wrong.
    """

    task: ClassVar[Task] = "number"
    model_output: ClassVar[str] = "value"
    wire_dtype: ClassVar[Literal["f4"]] = "f4"
    outputs: ClassVar[int] = 1

    kind: Literal["number"] = "number"
    name: Name
    low: float
    high: float

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise ValueError("low must be a number below high, and high - low must be finite")
        return self

    @property
    def unit(self) -> float:
        """What a difference of 1 on the wire is in the column."""
        return (self.high - self.low) / 2

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the label is made of."""
        return (self.name,)


SHORTEST_TIME: Final = 2.0**-20
"""Of a time on the wire: the sign of 0 could not say whether the event was seen."""


class SurvivalLabel(Message):
    """How long a row was observed, and whether that ended with the event.

    On the wire it is the time divided by the horizon, negative where the event was not seen. The model
    answers with the probability that the event comes after each of some times.
    """

    task: ClassVar[Task] = "survival"
    model_output: ClassVar[str] = "survival"
    wire_dtype: ClassVar[Literal["f4"]] = "f4"

    kind: Literal["survival"] = "survival"
    name: Name
    """The column of times, from when on all rows are observed."""
    event: Name
    """The column that says how they ended."""
    seen: Name
    """What it says of the event."""
    censored: Name
    """What it says where the event was not seen."""
    horizon: float = Field(gt=0, le=1e12)
    """A longer time counts as one that ended here, without the event."""
    times: Annotated[tuple[float, ...], FailFast()] = Field(min_length=1, max_length=MAX_SURVIVAL_TIMES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.event == self.name or self.seen == self.censored:
            raise ValueError("name and event, and seen and censored, must be distinct")
        if any(after <= before for before, after in pairwise((0.0, *self.times, math.inf))):
            raise ValueError("times must ascend from above 0")
        if self.times[-1] > self.horizon:
            raise ValueError("no time may lie beyond the horizon")
        if self.times[0] < self.horizon * SHORTEST_TIME:
            raise ValueError(
                "the first time is too short beside the horizon: on the wire it would be no time"
            )
        return self

    @property
    def outputs(self) -> int:
        """How many numbers the model returns for a row: a probability for each time."""
        return len(self.times)

    @property
    def wire_times(self) -> tuple[float, ...]:
        """The times on the wire, rounded as those of rows are, so that equal times stay equal."""
        layout = f"<{len(self.times)}f"
        return struct.unpack(layout, struct.pack(layout, *(time / self.horizon for time in self.times)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the label is made of."""
        return (self.name, self.event)


def _task_of(label: Any) -> str:
    """Return the tag of a label block. Classes, the only labels at first, have no ``kind``."""
    kind = label.get("kind") if isinstance(label, dict) else getattr(label, "kind", None)
    return "classes" if kind is None else str(kind)


AnyLabel = Annotated[
    Annotated[Label, Tag("classes")]
    | Annotated[NumberLabel, Tag("number")]
    | Annotated[SurvivalLabel, Tag("survival")],
    Discriminator(_task_of),
]


class Schema(Message):
    """How a table becomes a matrix, in the same way at every institution."""

    columns: Annotated[tuple[Column, ...], FailFast()] = Field(min_length=1, max_length=MAX_COLUMNS)
    label_column: AnyLabel
    missing: Annotated[tuple[FieldText, ...], FailFast()] = ("",)
    """Texts that mean an empty field."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [*(column.name for column in self.columns), *self.label_column.columns]
        if len(set(names)) != len(names):
            raise ValueError("column names must be distinct")
        if self.origins & set(self.label_column.columns):
            raise ValueError("since must not name a column of the label: no row has it when it is predicted")
        if self.width > MAX_COLUMNS:
            raise ValueError(f"at most {MAX_COLUMNS} encoded features")
        return self

    def missing_in(self, column: Column) -> tuple[str, ...]:
        """Return the texts that mean an empty field in a column."""
        return (*self.missing, *(getattr(column, "missing", None) or ()))

    @property
    def origins(self) -> frozenset[str]:
        """The columns of the table that durations begin at."""
        found = (getattr(column, "since", None) for column in self.columns)
        return frozenset(name for name in found if name is not None)

    @property
    def width(self) -> int:
        """Number of encoded features: the paper's m."""
        return sum(column.width for column in self.columns)
