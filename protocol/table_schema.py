"""How a table becomes a matrix: the columns and their encoding, as the terms fix them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    FailFast,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from protocol.codec import Message
from protocol.labels import AnyLabel, check_range
from protocol.limits import MAX_COLUMNS, MAX_OWN_MISSING, MAX_QUANTILES
from protocol.texts import FieldText, Name


def _check_levels(levels: tuple[str, ...], **among: str | None) -> None:
    if len(set(levels)) != len(levels):
        raise ValueError("levels must be distinct")
    for name, level in among.items():
        if level is not None and level not in levels:
            raise ValueError(f"{name} must be one of the levels")


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
        check_range(self.low, self.high, impute=self.impute)
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest number that is told from those beyond it."""
        return self.low, self.high

    @property
    def takes_empty(self) -> bool:
        """Whether a table may have empty fields in this column."""
        return self.impute is not None

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
        _check_levels(self.levels, impute=self.impute)
        return self

    @property
    def takes_empty(self) -> bool:
        """Whether a table may have empty fields in this column."""
        return self.impute is not None

    @property
    def width(self) -> int:
        return len(self.levels)


class _CentredColumn(Message):
    """What the columns of terms schema 2 have in common: their features are about zero in the mean.

    Attributes
    ----------
    empty : {"refuse", "centre", "impute"}
        Whether a table with an empty field is refused, the features of that field are 0, or the field counts
        as the value ``impute``, a number or a level.
    missing_share : float, optional
        With it there is one feature more, the last: 1 where the field is empty and 0 elsewhere, less this
        share.
    missing : tuple of str, optional
        Texts that mean an empty field in this column, beside those of the schema: 99 may be no answer here
        and a value elsewhere.
    """

    absent_if_unused: ClassVar[tuple[str, ...]] = ("missing", "impute")
    """Fields that are not on the wire where they are None."""

    name: Name
    empty: Literal["refuse", "centre", "impute"] = "refuse"
    missing_share: float | None = Field(default=None, ge=0, le=1)
    missing: tuple[FieldText, ...] | None = Field(default=None, min_length=1, max_length=MAX_OWN_MISSING)
    impute: float | Name | None = None

    @model_serializer(mode="wrap")
    def _without_unused(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialise(self)
        for name in self.absent_if_unused:
            if getattr(self, name) is None:
                del content[name]
        return content

    @model_validator(mode="after")
    def _check_empty(self) -> Self:
        if self.missing_share is not None and self.empty == "refuse":
            raise ValueError("a missing_share goes with empty fields that are not refused")
        if (self.empty == "impute") != (self.impute is not None):
            raise ValueError("empty fields that count as a value go with impute, which is that value")
        return self

    @property
    def takes_empty(self) -> bool:
        """Whether a table may have empty fields in this column."""
        return self.empty != "refuse"

    @property
    def width(self) -> int:
        return self.value_width + (self.missing_share is not None)

    @property
    def value_width(self) -> int:
        """Number of features without the one for empty fields."""
        return 1


LEAST_RATIO: Final = 1.001
"""Of the ends of a range of logarithms, about which libraries differ in the last digit."""
DateFormat = Literal[
    "iso", "dd.mm.yyyy", "dd/mm/yyyy", "mm/dd/yyyy", "yyyy/mm/dd", "yyyymmdd", "ddmmyyyy", "mmddyyyy"
]
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

    absent_if_unused: ClassVar[tuple[str, ...]] = ("missing", "impute", "dates", "since")

    impute: float | None = None
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
        if self.impute is not None and not self.quantiles[0] <= self.impute <= self.quantiles[-1]:
            raise ValueError("impute must lie between the first quantile and the last")
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest number that is told from those beyond it."""
        return self.quantiles[0], self.quantiles[-1]


class RangeColumn(_NumbersColumn):
    """A number, moved to the nearer end of ``[low, high]`` if it is outside, and mapped linearly.

    ``centre`` becomes 0, and ``high - low`` becomes 2. With the scale ``logarithm`` the same is done to the
    logarithms of all four, so that every doubling of the number is the same step.
    """

    absent_if_unused: ClassVar = ("missing", "impute", "dates", "since", "scale")

    kind: Literal["range"] = "range"
    low: float
    high: float
    centre: float
    scale: Literal["logarithm"] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_range(self.low, self.high, centre=self.centre, impute=self.impute)
        if self.scale is not None:
            self._check_scale()
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest number that is told from those beyond it."""
        return self.low, self.high

    def _check_scale(self) -> None:
        if self.dates is not None and self.since is None:
            raise ValueError("the scale logarithm goes with numbers and durations, not with dates")
        if self.low <= 0:
            raise ValueError("with the scale logarithm, low must be above 0")
        if not self.high >= LEAST_RATIO * self.low:
            raise ValueError(f"with the scale logarithm, high must be at least {LEAST_RATIO} times low")

    @property
    def on_scale(self) -> tuple[float, float, float]:
        """Low, high and centre, or their logarithms with that scale."""
        if self.scale is None:
            return self.low, self.high, self.centre
        return math.log(self.low), math.log(self.high), math.log(self.centre)


class LevelsColumn(_CentredColumn):
    """One of a list of levels: one feature per level, 0/1 less the level's share, times a weight.

    The weight keeps a column of many levels from taking the latent dimensions of a numeric one.
    """

    absent_if_unused: ClassVar = ("missing", "impute", "other")

    kind: Literal["levels"] = "levels"
    levels: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=2, max_length=MAX_COLUMNS)
    shares: Annotated[tuple[float, ...], FailFast()] = Field(min_length=2, max_length=MAX_COLUMNS)
    weight: float = Field(default=1.0, gt=0, le=1)
    impute: Name | None = None
    other: Name | None = None
    """The level of every text that is none; None means that such a text is refused."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_levels(self.levels, impute=self.impute, other=self.other)
        if len(self.shares) != len(self.levels):
            raise ValueError("there must be one share per level")
        if not all(0 <= share <= 1 for share in self.shares):
            raise ValueError("shares must lie between 0 and 1")
        return self

    @property
    def value_width(self) -> int:
        return len(self.levels)


class OrdinalColumn(_CentredColumn):
    """One of a list of levels in an order: its place there, evenly from -1 to 1, less ``centre``."""

    kind: Literal["ordinal"] = "ordinal"
    levels: Annotated[tuple[Name, ...], FailFast()] = Field(min_length=2, max_length=MAX_COLUMNS)
    centre: float = Field(default=0.0, ge=-1, le=1)
    impute: Name | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_levels(self.levels, impute=self.impute)
        return self


CentredColumn = RanksColumn | RangeColumn | LevelsColumn | OrdinalColumn
CENTRED_COLUMNS: Final = (RanksColumn, RangeColumn, LevelsColumn, OrdinalColumn)
"""The kinds that terms schema 2 has added."""
ColumnOfNumbers = NumericColumn | RanksColumn | RangeColumn
ColumnOfLevels = CategoricalColumn | LevelsColumn | OrdinalColumn
Column = Annotated[ColumnOfNumbers | ColumnOfLevels, Field(discriminator="kind")]


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
