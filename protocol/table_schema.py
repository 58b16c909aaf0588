"""How a table becomes a matrix: the columns, their encoding and the label, as the terms fix them."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import FailFast, Field, model_validator

from protocol.codec import Message
from protocol.limits import MAX_CLASSES, MAX_COLUMNS
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


Column = Annotated[NumericColumn | CategoricalColumn, Field(discriminator="kind")]


class Label(Message):
    """The column to predict: one of a list of classes, which are numbered in this order on the wire."""

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


class Schema(Message):
    """How a table becomes a matrix, in the same way at every institution."""

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
        """Number of encoded features: the paper's m."""
        return sum(column.width for column in self.columns)
